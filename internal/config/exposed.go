package config

import (
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
)

// Exposures returns what lets others in more easily than the operator may think, one
// line each with what to do: nothing in it keeps the service from starting. Files that
// cannot be read are somebody else's to report.
func (c Config) Exposures() []string {
	var out []string
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && c.TLS.CertFile == "" && !isLocal(host) {
		out = append(out, fmt.Sprintf("listen: %s serves plain HTTP beyond this machine: who is on the way reads tokens and changes decisions (set tls, or listen on loopback behind a proxy)", c.Listen))
	}
	seen := map[string]bool{}
	eachText(reflect.ValueOf(c), "", func(path, name string, v reflect.Value) {
		file := v.String()
		if file == "" || seen[file] || !namesSecret(path, name) {
			return
		}
		seen[file] = true
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm()&0o004 == 0 {
			return
		}
		out = append(out, fmt.Sprintf("%s: every user of this machine can read %s (chmod o-rwx; of a Secret's volume, defaultMode: 0440)", path, file))
	})
	return out
}

// isLocal reports whether a listener of a host is reached from this machine only.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// namesSecret reports whether a field is the path of a file with a credential.
func namesSecret(path, name string) bool {
	if strings.HasPrefix(path, "auth.tokens[") && name == "file" || name == "kubeconfig" {
		return true
	}
	public := []string{"ca_file", "cert_file", "known_hosts_file", "prompts_file"}
	return strings.HasSuffix(name, "_file") && !slices.Contains(public, name)
}

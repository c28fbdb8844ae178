package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/setting"
)

// Exposures returns what lets others in more easily than the operator may think, one
// line each with what to do: nothing in it keeps the service from starting. Files that
// cannot be read are somebody else's to report.
func (c Config) Exposures() []string {
	var out []string
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && c.TLS.CertFile == "" && !isLocal(host) {
		out = append(out, fmt.Sprintf("listen: %s serves plain HTTP beyond this machine: who is on the way reads tokens and changes decisions (set tls, or listen on loopback behind a proxy)", c.Listen))
	}
	if u, err := url.Parse(c.ExternalURL); err == nil && u.Scheme == "http" && !isLocal(u.Hostname()) && (len(c.Auth.Basic) > 0 || c.Auth.OIDC != nil && c.Auth.OIDC.SignIn != nil) {
		out = append(out, "external_url: people sign in on the page over plain HTTP: who is on the way reads passwords and takes over sessions (serve it over TLS and write https)")
	}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && c.TLS.CertFile == "" && !isLocal(host) && c.ExternalURL == "" && len(c.Auth.Basic) > 0 {
		out = append(out, "external_url: people sign in on the page, and nothing says that it is reached over https: cookies are kept to https only where the browser says so (set external_url, or tls)")
	}
	if o := c.Auth.OIDC; o != nil && o.SignIn != nil && len(o.AllowedGroups) == 0 && !o.PeopleOnly {
		out = append(out, fmt.Sprintf("auth.oidc.sign_in: anybody whom %s signs in may read runs and evidence (set allowed_groups, or people_only: true)", setting.QuotedURL(o.Issuer)))
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

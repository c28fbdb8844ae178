// Package setting holds the rules that blocks of responder.yaml share. A
// package that declares its own block, such as a notification channel, checks
// it with them.
package setting

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/credential"
)

// Report records what is wrong with the field at a path, and how to correct it.
type Report func(path, hint, format string, args ...any)

// Block is a block of responder.yaml: a pointer to a struct whose fields carry the
// tags yaml (the name), doc (for the reference) and enum (the allowed strings).
type Block interface {
	// Check reports what is wrong with the block, which is at a path.
	Check(at string, bad Report)
}

// Credential is a secret of a block that is sent over HTTP.
type Credential struct {
	Path    string // of the field that names the secret's file
	File    string // empty: nothing is sent
	URLPath string // of the field that says where it is sent
	URL     string

	// Plaintext is the field plaintext beside Path, which allows plain http;
	// nil: the block has no such field.
	Plaintext *bool
}

// Sent refuses a secret that could be read on its way. The URL is not repeated:
// it may hold a secret itself.
func (bad Report) Sent(c Credential) {
	if c.File == "" || !InTheClear(c.URL) || c.Plaintext != nil && *c.Plaintext {
		return
	}
	hint := "give it as https://"
	if c.Plaintext != nil {
		block := c.Path[:strings.LastIndex(c.Path, ".")]
		hint += ", leave the token out, or set " + block + ".plaintext: true where something else encrypts the way"
	}
	bad(c.Path, hint, "%s is plain http: whoever is on the way to it could read what is sent", c.URLPath)
}

// QuotedURL repeats what should be a URL, unless it may hold a password or a token.
func QuotedURL(raw string) string {
	if strings.ContainsAny(raw, "@?#%") {
		return credential.Redacted
	}
	return strconv.Quote(raw)
}

// IsHTTP reports whether raw is an http or https URL with a host.
func IsHTTP(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// InTheClear reports whether what is sent to a URL can be read on the network:
// plain http to anything but this machine.
func InTheClear(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return !strings.EqualFold(u.Hostname(), "localhost") && (ip == nil || !ip.IsLoopback())
}

package webhook

import (
	"net/url"
	"path"
	"strings"
)

// maxPath bounds the path and query of a page to go to after a sign-in, in bytes. The
// browser keeps it in a cookie meanwhile.
const maxPath = 1 << 10

// localPath returns the path and query of a page of this service, and false for
// everything that a browser could take for another place: another site's address, a
// path that leaves the service's own, and what is no page.
func localPath(raw string) (string, bool) {
	if len(raw) > maxPath || !strings.HasPrefix(raw, "/") || strings.ContainsFunc(raw, unsafe) {
		return "", false
	}
	u, err := url.ParseRequestURI(raw)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil || strings.Contains(raw, "#") {
		return "", false
	}
	if first, _, _ := strings.Cut(u.Path[1:], "/"); strings.Contains(first, ":") {
		return "", false // relative, it would be a scheme
	}
	if path.Clean(u.Path) != u.Path || strings.ContainsFunc(u.Path, unsafe) {
		return "", false // the decoded path too: some proxies decode before they forward
	}
	for _, other := range []string{"/signin", "/signout", "/api", "/metrics", "/healthz", "/readyz"} {
		if u.Path == other || strings.HasPrefix(u.Path, other+"/") {
			return "", false
		}
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).RequestURI(), true
}

// unsafe reports whether browsers treat a character in a path in ways of their own.
func unsafe(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }

package kube

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/credential"
)

// redactor replaces secrets. It numbers different values in the order of their
// appearance. A changed secret thus still shows in a diff of two templates that
// went through the same redactor, while the value stays hidden. A hash could be
// guessed.
type redactor struct {
	seen map[string]int
}

// value returns a value, redacted if its name or form marks it as secret.
func (r *redactor) value(name, v string) string {
	switch {
	case v == "":
		return "(empty)"
	case credential.Named(name) || credential.Formed(v):
		if r.seen == nil {
			r.seen = map[string]int{}
		}
		if _, ok := r.seen[v]; !ok {
			r.seen[v] = len(r.seen) + 1
		}
		return fmt.Sprintf("(redacted #%d)", r.seen[v])
	default:
		return short(credential.Redact(v))
	}
}

// short shortens a value for evidence and plans. Two values that differ only after
// the cut still differ.
func short(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes, sha256:%.6x)", strings.ToValidUTF8(s[:most], ""), len(s), sha256.Sum256([]byte(s)))
}

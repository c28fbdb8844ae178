package kube

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// redactor replaces secrets. It numbers different values in the order in which
// it meets them, so that a change of a secret still shows in a diff of two
// templates that went through the same redactor, while nothing can be learned
// of the value: a hash of it could be guessed at.
type redactor struct {
	seen map[string]int
}

// value shows a value, unless its name or form says that it is secret.
func (r *redactor) value(name, v string) string {
	switch {
	case v == "":
		return "(empty)"
	case secretName(name) || secretForm.MatchString(v):
		if r.seen == nil {
			r.seen = map[string]int{}
		}
		if _, ok := r.seen[v]; !ok {
			r.seen[v] = len(r.seen) + 1
		}
		return fmt.Sprintf("(redacted #%d)", r.seen[v])
	default:
		return short(redactText(v))
	}
}

// secretName reports whether a name's words say secret. Whole words only:
// --max-num-batched-tokens and --tokenizer are no secrets, HF_TOKEN is.
func secretName(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	for i, w := range words {
		switch w {
		case "secret", "secrets", "token", "password", "passwd", "passphrase", "pwd", "credential", "credentials", "apikey", "accesskey", "privatekey", "dsn":
			return true
		case "key", "keys":
			if i > 0 && slices.Contains([]string{"api", "access", "private", "auth", "encryption", "signing", "license", "master", "account"}, words[i-1]) {
				return true
			}
		}
	}
	return false
}

var (
	// secretForm are well-known forms of credentials: Hugging Face, OpenAI and
	// alike, GitHub, GitLab, Slack, AWS, NVIDIA, Google, JSON web tokens, PEM keys.
	secretForm = regexp.MustCompile(`\b(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|nvapi-[\w-]{16,}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)|-----BEGIN [A-Z ]*PRIVATE KEY`)
	// secretFlag and secretMember are secrets inside a longer text: flags of a
	// shell line; assignments, header values and JSON members. A bare word is
	// not enough: `secret "hf-token" not found` must stay readable.
	secretFlag   = regexp.MustCompile(`(?i)(--?[a-z0-9_-]*(?:` + secretWords + `)(?:=|\s+)["']?)([^\s"']+)`)
	secretMember = regexp.MustCompile(`(?i)(\b[a-z0-9_-]*(?:` + secretWords + `)["']?\s*[=:]\s*["']?)([^\s"',{}\[\]]+)`)
	bearer       = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/._~=-]{8,}`)
	userinfo     = regexp.MustCompile(`(://[^/\s:@]*):[^/\s@]+@`)
)

const (
	redacted    = "(redacted)"
	secretWords = `api[-_]?key|access[-_]?key|private[-_]?key|token|secret|password|passwd|credentials?`
)

// redactText replaces secrets inside a text.
func redactText(s string) string {
	s = userinfo.ReplaceAllString(s, "${1}:"+redacted+"@")
	s = bearer.ReplaceAllString(s, "${1} "+redacted)
	s = secretForm.ReplaceAllString(s, redacted)
	s = secretFlag.ReplaceAllString(s, "${1}"+redacted)
	return secretMember.ReplaceAllString(s, "${1}"+redacted)
}

// short bounds a value, which goes into evidence and plans, in such a way that
// two values that differ only behind the cut still differ.
func short(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes, sha256:%.6x)", strings.ToValidUTF8(s[:most], ""), len(s), sha256.Sum256([]byte(s)))
}

package gitops

import (
	"regexp"
	"slices"
	"strings"
)

const (
	redacted    = "(redacted)"
	secretWords = `api[-_]?key|access[-_]?key|private[-_]?key|token|secret|password|passwd|credentials?`
)

var (
	secretForm   = regexp.MustCompile(`\b(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|nvapi-[\w-]{16,}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`)
	secretFlag   = regexp.MustCompile(`(?i)(--?[a-z0-9_-]*(?:` + secretWords + `)(?:=|\s+)["']?)([^\s"']+)`)
	secretMember = regexp.MustCompile(`(?i)(\b[a-z0-9_-]*(?:` + secretWords + `)["']?\s*[=:]\s*["']?)([^\s"',{}\[\]]+)`)
	userinfo     = regexp.MustCompile(`(://[^/\s:@]*):[^/\s@]+@`)
	namedSecret  = regexp.MustCompile(`(?i)\bname["']?:\s*["']?([A-Za-z0-9_.-]+)`)
	flagAlone    = regexp.MustCompile(`^\s*-\s*["']?--([A-Za-z0-9_.-]+)["']?\s*$`)
	valueOf      = regexp.MustCompile(`(\bvalue["']?:\s*)(.+)$`)
	itemOf       = regexp.MustCompile(`^(\s*-\s*)([^-\s].*)$`)
)

// secretName reports whether a name's words say secret. Whole words only:
// max-num-batched-tokens and tokenizer are no secrets, HF_TOKEN is.
func secretName(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	for i, w := range words {
		if slices.Contains([]string{"secret", "token", "password", "passwd", "credential", "credentials", "apikey"}, w) ||
			w == "key" && i > 0 && slices.Contains([]string{"api", "access", "private", "auth"}, words[i-1]) {
			return true
		}
	}
	return false
}

// redact replaces what looks like a credential in a line that people will read;
// before is the line above it, which may be the name of its value.
func redact(line, before string) string {
	line = userinfo.ReplaceAllString(line, "${1}:"+redacted+"@")
	line = secretForm.ReplaceAllString(line, redacted)
	line = secretFlag.ReplaceAllString(line, "${1}"+redacted)
	line = secretMember.ReplaceAllString(line, "${1}"+redacted)
	for _, named := range []string{line, before} {
		if m := namedSecret.FindStringSubmatch(named); m != nil && secretName(m[1]) {
			line = valueOf.ReplaceAllString(line, "${1}"+redacted)
		}
	}
	if m := flagAlone.FindStringSubmatch(before); m != nil && secretName(m[1]) {
		line = itemOf.ReplaceAllString(line, "${1}"+redacted)
	}
	return line
}

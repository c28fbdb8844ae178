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

// counted are words before or after the word token of a model, which is no
// credential: long-prefill-token-threshold, inter-token-latency.
var counted = []string{"threshold", "type", "ids", "latency", "limit", "count", "ratio", "budget", "inter", "first"}

// secretName reports whether a name's words say secret. Whole words only:
// max-num-batched-tokens and tokenizer are no secrets, HF_TOKEN is.
func secretName(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	for i, w := range words {
		beside := append(slices.Clone(words[max(0, i-1):i]), words[min(i+1, len(words)):min(i+2, len(words))]...)
		if w == "token" && slices.ContainsFunc(beside, func(b string) bool { return slices.Contains(counted, b) }) {
			continue
		}
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

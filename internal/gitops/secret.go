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
	humps        = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)
	member       = regexp.MustCompile(`([A-Za-z0-9_.-]+)(["']?\s*[=:]\s*["']?)([^\s"',{}\[\]]+)`)
	flagAndWord  = regexp.MustCompile(`(--[A-Za-z0-9_.-]+)(\s+["']?)([^\s"',{}\[\]-][^\s"',{}\[\]]*)`)
	itemOf       = regexp.MustCompile(`^(\s*-\s*)([^-\s].*)$`)
)

// A model's token is no credential where one of these words is next to it:
// inter-token-latency, long-prefill-token-threshold.
var (
	beforeToken = []string{"inter", "first"}
	afterToken  = []string{"threshold", "type", "ids", "latency", "limit", "count", "ratio", "budget"}
)

// tokenCounts are words of a variable that counts tokens: MAX_TOTAL_TOKENS.
var tokenCounts = []string{"max", "min", "num", "n", "total", "batch", "batched", "prefill", "input", "output", "new", "limit", "budget", "generated"}

// keysOf are words before the word key of a credential; a key of another kind,
// a shard's, is none.
var keysOf = []string{"api", "access", "private", "auth", "signing", "encryption", "hf", "openai"}

// SecretName reports whether the words of a flag, a variable or a field say that
// its value is a credential. Whole words only: max-num-batched-tokens and
// tokenizer are none; HF_TOKEN, hfToken and, as a variable of the environment
// only, OPENAI_KEY and MYSQL_PWD are.
func SecretName(name string) bool {
	words := wordsOf(name)
	for i, w := range words {
		switch w {
		case "secret", "secrets", "password", "passwords", "passwd", "passphrase", "credential", "credentials", "apikey", "apikeys", "auth", "authorization", "private":
			return true
		case "token":
			if (i == 0 || !slices.Contains(beforeToken, words[i-1])) && (i+1 == len(words) || !slices.Contains(afterToken, words[i+1])) {
				return true
			}
		case "key", "keys":
			if i > 0 && slices.Contains(keysOf, words[i-1]) {
				return true
			}
		}
	}
	if !envName.MatchString(name) {
		return false
	}
	switch words[len(words)-1] {
	case "key", "keys", "pat", "pwd":
		return true
	case "tokens":
		return !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(tokenCounts, w) })
	}
	return false
}

// wordsOf cuts a name into words, in small letters: hfToken is hf and token.
func wordsOf(name string) []string {
	name = humps.ReplaceAllString(name, "${1}${3} ${2}${4}")
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// Redacted is a text for people without what looks like a credential.
func Redacted(text string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	before := ""
	for i, line := range lines {
		lines[i], before = redact(line, before), line
	}
	return strings.Join(lines, "\n")
}

// redact replaces what looks like a credential in a line that people will read;
// before is the line above it, which may be the name of its value.
func redact(line, before string) string {
	line = userinfo.ReplaceAllString(line, "${1}:"+redacted+"@")
	line = secretForm.ReplaceAllString(line, redacted)
	line = secretFlag.ReplaceAllString(line, "${1}"+redacted)
	line = secretMember.ReplaceAllString(line, "${1}"+redacted)
	line = redactMembers(flagAndWord, redactMembers(member, line))
	for _, named := range []string{line, before} {
		if m := namedSecret.FindStringSubmatch(named); m != nil && SecretName(m[1]) {
			line = valueOf.ReplaceAllString(line, "${1}"+redacted)
		}
	}
	if m := flagAlone.FindStringSubmatch(before); m != nil && SecretName(m[1]) {
		line = itemOf.ReplaceAllString(line, "${1}"+redacted)
	}
	return line
}

// redactMembers replaces the values that a form finds behind the name of a
// credential. A value may be a name and its value in turn.
func redactMembers(form *regexp.Regexp, line string) string {
	for at := 0; ; {
		m := form.FindStringSubmatchIndex(line[at:])
		if m == nil {
			return line
		}
		start, end := at+m[6], at+m[7]
		if SecretName(line[at+m[2] : at+m[3]]) {
			line, end = line[:start]+redacted+line[end:], start+len(redacted)
			start = end
		}
		at = start
	}
}

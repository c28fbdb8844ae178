// Package credential knows credentials by their names and by their forms. It is
// the one rule for all that people read: fields of live objects, differences of
// manifests, texts of errors and events.
package credential

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Redacted stands for a credential.
const Redacted = "(redacted)"

// nouns are words that name a credential, wherever they stand in a name.
var nouns = []string{
	"secret", "secrets", "password", "passwords", "passwd", "passphrase", "pwd", "credential", "credentials",
	"apikey", "apikeys", "accesskey", "privatekey", "dsn", "dockerconfigjson", "dockercfg",
}

// suffixes name one at the end of a word that has no bounds: PGPASSWORD.
var suffixes = []string{"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey"}

// shorts name one as the last word, or in a variable of the environment at its end:
// DB_PASS, DBPASS; a bypass is none.
var (
	shorts      = []string{"pass", "pw", "pwd", "jwt", "cookie", "sas"}
	notPassword = []string{"bypass", "compass", "encompass", "trespass", "surpass", "overpass", "underpass"}
)

// adjectives name one as a whole word of a name; at the end of a longer word
// they mean anything: oauth.
var adjectives = []string{"auth", "authorization", "private"}

// A model's token is no credential where one of these words is next to it:
// inter-token-latency, long-prefill-token-threshold.
var (
	beforeToken = []string{"inter", "first"}
	afterToken  = []string{"threshold", "type", "ids", "latency", "limit", "count", "ratio", "budget"}
)

// specials are words before a token of a model's vocabulary, and specialIDs before the id
// of one: eos_token_id, image_token_index.
var (
	specials   = []string{"eos", "bos", "pad", "unk", "sep", "cls"}
	specialIDs = []string{"mask", "stop", "start", "image", "video", "audio", "vision"}
)

// special reports whether a name is that of a token of a model's vocabulary, or of its id.
func special(name string) bool {
	words := wordsOf(name)
	i := slices.Index(words, "token")
	return i > 0 && vocabulary(words, i) && !slices.Contains(words[i+1:], "token")
}

// vocabulary reports whether the word token at a place of a name is of a model's vocabulary.
func vocabulary(words []string, at int) bool {
	return at > 0 && (slices.Contains(specials, words[at-1]) ||
		at+1 < len(words) && (words[at+1] == "id" || words[at+1] == "index") && slices.Contains(specialIDs, words[at-1]))
}

// tokenCounts are words of a variable that counts tokens: MAX_TOTAL_TOKENS.
var tokenCounts = []string{"max", "min", "num", "n", "total", "batch", "batched", "prefill", "input", "output", "new", "limit", "budget", "generated"}

// keysOf are words before the word key of a credential; a key of another kind,
// a shard's, is none.
var keysOf = []string{"api", "access", "private", "auth", "signing", "encryption", "license", "master", "account", "hf", "openai"}

var (
	environment = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)
	humps       = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)
)

// Named reports whether the words of a flag, a variable or a field say that
// its value is a credential. Whole words only: max-num-batched-tokens and
// tokenizer are none; HF_TOKEN, hfToken and, as a variable of the environment
// only, OPENAI_KEY and HF_PAT are. A name that ends in one of a file, or of how much is
// in use, is none: HF_TOKEN_PATH, token_usage.
func Named(name string) bool {
	words := wordsOf(name)
	if len(words) > 0 && slices.Contains([]string{"file", "files", "path", "paths", "usage"}, words[len(words)-1]) {
		return false
	}
	for i, w := range words {
		switch {
		case slices.Contains(nouns, w), slices.Contains(adjectives, w),
			slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(w, s) }),
			slices.Contains(shorts, w) && i+1 == len(words),
			w == "webhook" && (i+1 == len(words) || i+2 == len(words) && words[i+1] == "url"),
			w == "string" && i > 0 && words[i-1] == "connection":
			return true
		case w == "token":
			if !vocabulary(words, i) && (i == 0 || !slices.Contains(beforeToken, words[i-1])) && (i+1 == len(words) || !slices.Contains(afterToken, words[i+1])) {
				return true
			}
		case w == "key" || w == "keys":
			if i > 0 && slices.Contains(keysOf, words[i-1]) {
				return true
			}
		}
	}
	if !environment.MatchString(name) {
		return false
	}
	last := words[len(words)-1]
	if strings.HasSuffix(last, "pass") && !slices.Contains(notPassword, last) || strings.HasSuffix(last, "pwd") {
		return true
	}
	switch last {
	case "key", "keys", "pat":
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

// forms are well-known forms of credentials: Hugging Face, OpenAI and alike,
// GitHub, GitLab, Grafana, Databricks, Slack, AWS, NVIDIA, Google, Vault, Stripe, SendGrid, npm, PyPI, Docker,
// Replicate, Groq, age, Azure, Tailscale, New Relic, DigitalOcean, Shopify, Linear, Atlassian, Perplexity,
// xAI, Together, JSON web tokens, PEM keys.
var forms = regexp.MustCompile(`\b(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|glsa_[A-Za-z0-9]{16,}\w*|glc_[A-Za-z0-9+/=_-]{16,}|dapi[0-9a-f]{32}(?:-\d+)?|github_pat_\w{16,}|gl(?:pat|dt|rt|ptt|cbt|soat|ft|agent)-[\w-]{16,}|xox[a-z]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|nvapi-[\w-]{16,}|AIza[\w-]{30,}|hv[sbr]\.[\w-]{16,}|xapp-[\w-]{10,}|[sr]k_(?:live|test)_\w{16,}|whsec_\w{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|npm_\w{30,}|pypi-[\w-]{30,}|dckr_pat_[\w-]{16,}|r8_\w{30,}|gsk_\w{30,}|ya29\.[\w-]{16,}|tskey-[a-z]+-[\w-]{10,}|GOCSPX-[\w-]{16,}|1//0[\w-]{20,}|NRAK-[A-Z0-9]{16,}|do[opr]_v1_[0-9a-f]{16,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,}|lin_api_\w{16,}|ATATT3[\w=-]{16,}|pplx-\w{16,}|xai-\w{16,}|tgp_v1_[\w-]{16,}|AGE-SECRET-KEY-1[A-Z0-9]{16,}|AccountKey=[A-Za-z0-9+/=]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)|-----BEGIN [A-Z ]*PRIVATE KEY`)

// Formed reports whether a value holds something of a credential's form, or is an
// address with one in it.
func Formed(value string) bool {
	return hooks(value) != value || slices.ContainsFunc([]*regexp.Regexp{forms, userinfo, slashed, alone, parameter}, func(r *regexp.Regexp) bool { return r.MatchString(value) })
}

// basic is what may be a name and a password, as HTTP has it, wherever it stands.
var basic = regexp.MustCompile(`(?i)()(\bbasic)(\s+)([A-Za-z0-9+/]{4,}={0,2})`)

// isLogin reports whether a text is a name and a password, encoded as HTTP has it.
func isLogin(encoded string) bool {
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	return err == nil && utf8.Valid(text) && strings.Contains(string(text), ":")
}

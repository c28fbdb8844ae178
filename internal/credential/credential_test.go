package credential

import (
	"strings"
	"testing"
)

// credentials are named so, and others are not, whoever asks.
var (
	credentials = []string{
		"api-key", "hf-token", "HF_TOKEN", "token-file", "token", "API_KEYS", "AUTH_TOKENS", "OPENAI_KEY", "SIGNING_KEY", "HF_PAT", "MYSQL_PWD", "license-key",
		"hfToken", "HFToken", "apiKeys", "RATE_LIMIT_TOKEN", "BUDGET_TOKEN", "DB_PASSWORDS", "SENTRY_DSN", "account_key", "accesskey", "masterKey",
	}
	others = []string{
		"max-num-batched-tokens", "long-prefill-token-threshold", "return-token-type-ids", "bucket-inter-token-latency", "maxNumBatchedTokens", "MAX_TOTAL_TOKENS",
		"MAX_BATCH_PREFILL_TOKENS", "tokenizer", "shard-key", "keyboard", "HOME", "oauthless", "",
	}
)

func TestNamed(t *testing.T) {
	for _, name := range credentials {
		if !Named(name) {
			t.Errorf("%s is none", name)
		}
	}
	for _, name := range others {
		if Named(name) {
			t.Errorf("%s is one", name)
		}
	}
}

// TestNamedInText: what Named says of a name holds for its value in a text, too.
func TestNamedInText(t *testing.T) {
	for _, name := range credentials {
		texts := []string{name + "=canary", "x " + name + `="canary" y`}
		if !environment.MatchString(name) {
			texts = append(texts, "--"+name+" canary")
		}
		for _, text := range texts {
			if got := Redact(text); strings.Contains(got, "canary") {
				t.Errorf("%q became %q", text, got)
			}
		}
		for _, line := range []string{name + ": canary", "- {name: " + name + ", value: canary}"} {
			if got := RedactLine(line, ""); strings.Contains(got, "canary") {
				t.Errorf("%q became %q", line, got)
			}
		}
		for line, before := range map[string]string{"  value: canary": "- name: " + name, "- canary": "- --" + name} {
			if got := RedactLine(line, before); strings.Contains(got, "canary") {
				t.Errorf("%q after %q became %q", line, before, got)
			}
		}
	}
	for _, name := range others {
		for _, text := range []string{name + "=shown", name + ": shown", "--" + name + " shown"} {
			if got := RedactLine(text, ""); got != text {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
}

// TestFormed: a credential's own form tells it, whatever it is called.
func TestFormed(t *testing.T) {
	for _, value := range []string{
		"hf_canaryCANARYcanary01", "sk-canaryCANARYcanary01", "ghp_canaryCANARYcanary01", "glpat-canaryCANARYcanary", "xoxb-canary-0001", "AKIAIOSFODNN7EXAMPLE",
		"nvapi-canaryCANARYcanary", "eyJjYW5hcnkwMDA0.eyJjYW5hcnkwMDA0.c2lnbmF0dXJl", "-----BEGIN RSA PRIVATE KEY",
	} {
		if got := Redact("x " + value); !Formed(value) || strings.Contains(got, value) {
			t.Errorf("%s became %q, formed %t", value, got, Formed(value))
		}
	}
	for text, want := range map[string]string{
		"https://me:canary@hub/x":                  "https://me:(redacted)@hub/x",
		"-H 'Authorization: Bearer canary-0001'":   "-H 'Authorization: (redacted) (redacted)'",
		"Authorization: Basic bWU6Y2FuYXJ5":        "Authorization: (redacted) (redacted)",
		"export HFTOKEN=canary && serve":           "export HFTOKEN=(redacted) && serve",
		`{"auth_token":"canary","kv_role":"both"}`: `{"auth_token":"(redacted)","kv_role":"both"}`,
	} {
		if got := RedactLine(text, ""); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestRedactKeepsWhatHelps: what is about credentials and holds none stays.
func TestRedactKeepsWhatHelps(t *testing.T) {
	for _, text := range []string{
		`MountVolume.SetUp failed for volume "hub" : secret "hf-token" not found`, `couldn't find key token in Secret serving/hub`,
		`{"secret":{"secretName":"hf-token"}}`, `--max-num-batched-tokens 8192 --tokenizer x --max-tokens=4`,
		"# basic configuration of a token bucket", "http://chat.serving:8000/v1",
	} {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// FuzzRedact: no text is too odd, and what has a credential's form does not stay.
func FuzzRedact(f *testing.F) {
	f.Add("- {name: HF_TOKEN, value: x}", "- name: HF_TOKEN")
	f.Add("--token=--token=--token a=b=c:d", "")
	f.Add("x hf_canaryCANARYcanary01", "")
	f.Fuzz(func(t *testing.T, line, before string) {
		if got := RedactLine(line, before); Formed(line) && !strings.Contains(got, Redacted) {
			t.Errorf("%q became %q", line, got)
		}
	})
}

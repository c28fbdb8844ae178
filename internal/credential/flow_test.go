package credential

import (
	"strings"
	"testing"
	"time"
)

// TestObjects: values in objects on one line are judged by what stands next to them, in
// any order, however deep, and only they.
func TestObjects(t *testing.T) {
	for text, want := range map[string]string{
		`{"env":[{"name":"PGPASSWORD","value":"canary"}]}`:                                        `{"env":[{"name":"PGPASSWORD","value":"(redacted)"}]}`,
		`[{"value": "canary", "name": "LICENCE"}, {"name": "PORT", "value": "8000"}]`:             `[{"value": "(redacted)", "name": "LICENCE"}, {"name": "PORT", "value": "8000"}]`,
		`{"name":"LICENCE","value":"a \"canary\" }, b"}`:                                          `{"name":"LICENCE","value":"(redacted)"}`,
		`{"name":"LICENCE","value":"canary`:                                                       `{"name":"LICENCE","value":"(redacted)`,
		`{"patch":"[{\"name\":\"LICENCE\",\"value\":\"a canary\"}]","x":1}`:                       `{"patch":"[{\"name\":\"LICENCE\",\"value\":\"(redacted)\"}]","x":1}`,
		`{"a":"{\"b\":\"{\\\"name\\\":\\\"LICENCE\\\",\\\"value\\\":\\\"canary\\\"}\"}"}`:         `{"a":"{\"b\":\"{\\\"name\\\":\\\"LICENCE\\\",\\\"value\\\":\\\"(redacted)\\\"}\"}"}`,
		`{"headers":[{"name":"Authorization","value":"canary"}]}`:                                 `{"headers":[{"name":"Authorization","value":"(redacted)"}]}`,
		`{"op":"replace","path":"/spec/template/spec/containers/0/env/0/value","value":"canary"}`: `{"op":"replace","path":"/spec/template/spec/containers/0/env/0/value","value":"(redacted)"}`,
		`{"value":"canary","path":"/metadata/annotations/example.com~1api-key","op":"add"}`:       `{"value":"(redacted)","path":"/metadata/annotations/example.com~1api-key","op":"add"}`,
		`[{"op":"add","path":"/spec/env/-","value":{"name":"LICENCE","value":"canary"}}]`:         `[{"op":"add","path":"/spec/env/-","value":{"name":"LICENCE","value":"(redacted)"}}]`,
		`--config={"credentials":{"s3":{"user":"canary","keys":["canary"]}}}`:                     `--config={"credentials":{"s3":{"user":"(redacted)","keys":["(redacted)"]}}}`,
		`{"name":"x","value":"canary","name":"LICENCE"}`:                                          `{"name":"x","value":"(redacted)","name":"LICENCE"}`,
		`{"name":"LICENCE","value":"canary","value":"canary"}`:                                    `{"name":"LICENCE","value":"(redacted)","value":"(redacted)"}`,
	} {
		for _, redact := range []func(string) string{Redact, func(s string) string { return redactLine(s, "", "") }} {
			if got := redact(text); got != want {
				t.Errorf("%s\nbecame %s\nwant   %s", text, got, want)
			}
		}
	}
	for _, text := range []string{
		`{"op":"replace","path":"/spec/replicas","value":17}`, `{"name":"gpu_cache_usage","value":"0.97"}`, `[{"name":"VLLM_USE_V1","value":"one"}]`,
		`{"secretKeyRef":{"name":"hub","key":"token"}}`, `{"secret":{"items":[{"key":"token","path":"token"}]}}`, `{"enabled":true,"hf_token":null}`,
		`{"name":"LICENCE","valueFrom":{"secretKeyRef":{"name":"licence","key":"file"}}}`,
	} {
		if got := redactLine(text, "", ""); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
	for _, s := range []string{"{", `{"name":`, `{"a":{`, `\"`, `{\"{`, `'{a: "{b: '`, "["} {
		began := time.Now()
		flows(strings.Repeat(s, 200000), true, false)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%q took %s", s, took)
		}
	}
}

// TestComplaintsStay: an error says what is wrong with a credential. A value in its place is
// hidden.
func TestComplaintsStay(t *testing.T) {
	for _, text := range []string{
		"Get https://10.0.0.1/api/v1/namespaces/x/secrets/hf-token: dial tcp: i/o timeout", "could not read secret: permission denied", "invalid token: unexpected EOF", "cookie: none",
		"service account token: audience mismatch", "authorization: failed for user system:anonymous", "auth: context deadline exceeded", "token: has expired", "password: must be at least 8",
		`{"error":"could not read secret: permission denied"}`, "(invalid token: connection refused)", "could not read secret: permission denied.", "could not read secret: permission denied; retrying",
	} {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{
		"password: dial", "password: permission", "password: connection refused-canary", "password: permission denied.canary", "password: could not-canary", "token: has expired_x", "password: failedfor user", "password=permission denied", "password: 'permission denied'", "DB_PASSWORD: permission denied",
		"Authorization: failed", "x-api-key: failed for user", "Cookie: nonesuch", "secret: unexpectedly good",
	} {
		if got := Redact(text); !strings.Contains(got, Redacted) {
			t.Errorf("%q is shown", text)
		}
	}
}

// TestOrdinaryTextsStay: what engines and Kubernetes write and people need to read.
func TestOrdinaryTextsStay(t *testing.T) {
	for _, text := range []string{
		"eos_token_id: 2", "eos_token_id=128001", `"eos_token_id": [2, 3]`, `{"bos_token_id":1,"eos_token_id":[2,3]}`, "--eos-token-id 2", "image_token_id: 151655", "image_token_index=32000", "pad_token: </s>",
		"--max-num-batched-tokens", "--max-num-batched-tokens 8192", "--max-num-batched-tokens=8192", "hf_token=None", "Namespace(hf_token=None, api_key=None, max_num_batched_tokens=8192)",
		"'hf_token': None", `{"hf_token":null}`, "hf_token: ~", `token=''`, "trust_remote_code=True, token=True",
		`--rope-scaling {"rope_type":"yarn","factor":4.0}`, `--rope-scaling='{"rope_type":"yarn","factor":4.0}'`,
		`secret "hf-token" not found`, `Error: secret "hf-token" not found`, `MountVolume.SetUp failed for volume "hub" : secret "hf-token" not found`,
		"time to first token: 0.8 s", "first token: 812ms", "Decode batch. #running-req: 1, #token: 512, token usage: 0.02", "#new-token: 512", "token_usage=0.98", "token: 42",
		"token: expired", "Unauthorized: token: invalid", "error: secret: not found", `failed calling webhook: Post "https://kyverno-svc.kyverno.svc:443/validate?timeout=10s"`,
		`Post "https://webhook.svc/hooks/validate?timeout=10s": dial tcp 10.0.0.1:443`, "secretName: hf-token", "HF_TOKEN_PATH=/run/token", "PRIORITY_CLASS: high",
		"--token-file /run/token", "--api-key-file=/run/key",
	} {
		for name, got := range map[string]string{"text": Redact(text), "line": redactLine(text, "", ""), "script": RedactScript(text)} {
			if got != text {
				t.Errorf("%s: %q became %q", name, text, got)
			}
		}
	}
	if got, want := Redact("HF_TOKEN=512 --token 512 password: 512"), "HF_TOKEN=(redacted) --token (redacted) password: (redacted)"; got != want {
		t.Errorf("numbers that may be credentials became %q", got)
	}
	for _, text := range []string{
		"hf_token=canary", "hf_token=None,canary", "eos_token_secret=canary", "registry_token_id=canary", "TOKEN=nonecanary", "token: null.canary",
		"token: 42canary", "password: notcanary", "https://chat.example.com/hooks/canary", "https://a.svc@chat.example.com/hooks/canary", "webhook: https://x.example/canary", "secret-name: a, secret: canary",
	} {
		if got := redactLine(text, "", ""); strings.Contains(got, "canary") {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestNamesApart: a name and its value, or the path of a patch, on several lines.
func TestNamesApart(t *testing.T) {
	for name, text := range map[string]string{
		"the value below":               "env:\n- name: LICENCE\n  value:\n    canary\nreplicas: 2",
		"both below":                    "env:\n- name:\n    LICENCE\n  value:\n    canary\nreplicas: 2",
		"the name below":                "env:\n- name:\n    LICENCE\n  value: canary\nreplicas: 2",
		"a wrapped value":               "env:\n- name: LICENCE\n  value: canary\n    canary\nreplicas: 2",
		"a wrapped value in quotes":     "env:\n- name: LICENCE\n  value: \"canary\n    canary\"\nreplicas: 2",
		"a named credential":            "headers:\n- name: x-api-key\n  value:\n    canary\nreplicas: 2",
		"a patch":                       "- op: replace\n  path: /spec/template/spec/containers/0/env/0/value\n  value: canary\n- replicas: 2",
		"a patch, turned":               "- op: add\n  value: canary\n  path: /spec/containers/0/env/0/value\n- replicas: 2",
		"a patch, apart":                "- path: /spec/containers/0/env/0/value\n  op: add\n  value: canary\n- replicas: 2",
		"a patch, below":                "- op: add\n  path: /spec/containers/0/env/0/value\n  value:\n    canary\n- replicas: 2",
		"a patch in a text":             "patch: |-\n  - op: replace\n    path: /spec/env/0/value\n    value: canary\nreplicas: 2",
		"a patch in a text, apart":      "patch: |-\n  - path: /spec/env/0/value\n    op: replace\n    value: canary\nreplicas: 2",
		"a patch of variables":          "- op: add\n  path: /spec/containers/0/env\n  value:\n  - name: LICENCE\n    value: canary\n- replicas: 2",
		"a patch on one line":           "patch: '[{\"op\": \"add\", \"path\": \"/spec/env/0/value\", \"value\": \"canary\"}]'\nreplicas: 2",
		"literals":                      "configMapGenerator:\n- name: x\n  literals:\n  - DB_PASSWORD=canary\n  - LICENCE=canary # of May\n  - \"OTHER=8000 #canary\"\n  - dbPassword=canary\nreplicas: 2",
		"literals on one line":          "literals: [DB_PASSWORD=canary, \"LICENCE=a canary\", 'OTHER=a, canary', X=canary]\nreplicas: 2",
		"a shell's line":                "command: [sh, -c, \"LICENCE=canary && vllm serve m\"]\nargs:\n- X='a canary' exec serve\nreplicas: 2",
		"literals of a Secret":          "secretGenerator:\n- name: x\n  literals:\n  - a=canary\n---\nreplicas: 2",
		"items":                         "args:\n- --token=canary\n- \"--api-key=canary\"\n- --hf-token\n- canary\nreplicas: 2",
		"items on lines of their own":   "args: [\n  \"--api-key\",\n  \"canary\",\n  '--hf-token',\n  'canary'\n]\nreplicas: 2",
		"a name with a tag":             "env:\n- name: !!str LICENCE\n  value: !!str canary\nreplicas: 2",
		"a login to a registry":         ".dockerconfigjson: canary\nreplicas: 2",
		"a login to a registry, block":  ".dockerconfigjson: |\n  canary\n  canary\nreplicas: 2",
		"a login to a registry in JSON": ".dockerconfigjson: '{\"auths\":{\"ghcr.io\":{\"username\":\"me\",\"auth\":\"canary\"}}}'\nreplicas: 2",
		"auth":                          "auths:\n  ghcr.io:\n    auth: canary\n    password: canary\nreplicas: 2",
		"a manifest on one line":        "{\"env\":[{\"name\":\"PORT\",\"value\":\"8000\"},{\"name\":\"LICENCE\",\"value\":\"canary\"}]}\n---\nreplicas: 2",
		"an option of JSON":             "args: [\"--config={\\\"api_key\\\":\\\"canary\\\"}\", '--x={\"pass\":\"canary\"}']\nreplicas: 2",
	} {
		got := RedactManifest(text)
		if strings.Contains(got, "canary") || !strings.Contains(got, "replicas: 2") {
			t.Errorf("%s became\n%s", name, got)
		}
		if again := RedactManifest(got); again != got {
			t.Errorf("%s became, the second time,\n%s", name, again)
		}
	}
	for _, text := range []string{
		"env:\n- name: VLLM_USE_V1\n  value:\n    one\nreplicas: 2", "- op: replace\n  path: /spec/replicas\n  value: 17", "configMapGenerator:\n- literals:\n  - PORT=8000\n  - VLLM_X=fast",
		`command: [sh, -c, "LEN=4096 && vllm serve m --max-model-len $LEN"]`, "args:\n- LEN=4096 exec vllm serve m",
	} {
		if got := RedactManifest(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := Redact("args:\n- --api-key\n- canary"); strings.Contains(got, "canary") {
		t.Errorf("%q", got)
	}
}

// FuzzFlows: no text is too odd, and the value of a variable does not stay in an object that
// stands behind any other one.
func FuzzFlows(f *testing.F) {
	f.Add(`{"a":"{\"b\":1}"}`, true)
	f.Add(`{a: 'b''c', d: [e, {f: "g`, false)
	f.Fuzz(func(t *testing.T, text string, bareKeys bool) {
		flows(text, bareKeys, false)
		if got := flows(`{"name":"LICENCE","value":"0cAnArY0"} `+text, bareKeys, false); strings.HasPrefix(got, `{"name":"LICENCE","value":"0cAnArY0`) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

package credential

import (
	"strings"
	"testing"
)

// TestFormsOfCredentials: forms in which people write credentials, and what must stay
// readable beside them.
func TestFormsOfCredentials(t *testing.T) {
	for _, c := range []struct {
		name, text string
		script     bool // a line of a shell, else any text
	}{
		{"a flag's word", "serve --token canary --port 8000", false},
		{"a flag in quotes", "serve --token 'a canary' --port 8000", false},
		{"an exported variable", "export PGPASSWORD='a canary'; psql", false},
		{"joined quotes", `export TOKEN="a"'canary'`, false},
		{"a quote in a word", `TOKEN=ab'canary' serve`, false},
		{"a word behind a quote", `TOKEN='a'canary serve`, false},
		{"an escaped blank", `PGPASSWORD=a\ canary psql`, false},
		{"mysql's password", `sh -c "mysql -h db -pcanary -u me"`, false},
		{"mysql's password in quotes", `mysqldump --host db -p'canary' x`, false},
		{"redis", "redis-cli -h cache -a canary ping", false},
		{"sshpass", "sshpass -p canary ssh me@host", false},
		{"a login", "docker login -u me -p canary registry.example.com", false},
		{"a login of Hugging Face", "huggingface-cli login --token canary", false},
		{"curl's user", "curl -u me:canary https://x", false},
		{"curl's user, joined", "curl -ume:canary https://x", false},
		{"curl's user in quotes", `curl --user "me:a canary" https://x`, false},
		{"curl's user among others", "curl -su me:canary https://x", false},
		{"curl's user behind others", "curl -fsSLu me:canary https://x", false},
		{"curl's proxy", "curl --proxy-user me:canary -x p https://x", false},
		{"curl's proxy, short", "curl -U me:canary https://x", false},
		{"a key of two words", "api key: canary", false},
		{"an arrow", "token => canary", false},
		{"two signs", "password == canary", false},
		{"an assignment of Go", "password:= canary", false},
		{"XML", "<user>me</user><password>canary</password>", false},
		{"XML that is not read", "<a><password><![CDATA[canary]]></password></a>", false},
		{"XML that is not read, on lines", "<api-key x='1'>\n<![CDATA[\ncanary\n<canary>]]>\n</api-key>", false},
		{"XML that is not read and has no end", "<password><![CDATA[canary", false},
		{"an encoded sign", "user%3Dme password%3Dcanary", false},
		{"a literal of kubectl", "kubectl create secret generic x --from-literal=foo=canary", false},
		{"a key store", "keytool -list -storepass canary -keystore k", false},
		{"a pass in JSON", `{"user":"me","pass":"canary"}`, false},
		{"a pw in JSON", `{"pw": "canary"}`, false},
		{"a secret key in JSON", `{"secret_key":"canary","region":"x"}`, false},
		{"a secretKey in JSON", `{"secretKey":"canary"}`, false},
		{"JSON in JSON", `{"a":"{\"pass\":\"canary\"}"}`, false},
		{"a list in JSON", `{"api_keys":["canary","canary"]}`, false},
		{"a list in JSON, below", `{"credentials": {"ada": "canary"}}`, false},
		{"a number in JSON", `{"password": 1234567}`, false},
		{"Authorization of a scheme", "Authorization: Token canary", false},
		{"Authorization of an unusual scheme", "Authorization: AWS4-HMAC-SHA256 Credential=canary/x, Signature=canary", false},
		{"Authorization alone", `-H "Authorization: canary"`, false},
		{"Authorization in single quotes", `-H 'authorization:ApiKey canary'`, false},
		{"Authorization in JSON", `{"Authorization": "Digest username=me, response=canary"}`, false},
		{"a cookie", "Cookie: session=canary; theme=canary", false},
		{"a cookie that is set", "Set-Cookie: id=canary; Path=/", false},
		{"a header of a key", "X-Api-Key: canary", false},
		{"a header of a key, curl", `curl -H "X-API-Key: canary" x`, false},
		{"a header of a token", "X-Auth-Token: canary", false},
		{"a comma in a password", "DB_PASSWORD=hunter,canary", false},
		{"a comma in a flag", "--password hunter,canary", false},
		{"a comma in an address", "postgres://u:hunter,canary@h/db", false},
		{"an at in an address", "postgres://u:hunter@canary@h/db", false},
		{"a DSN", "user=me password=hunter,canary host=db", false},
		{"a DSN of Go", "me:canary@tcp(db:3306)/x", false},
		{"a heredoc's variable", "cat <<E\npassword = canary\nE", false},
		{"a netrc", "machine x login me password canary", false},
		{"a word of a login", "echo canary | docker login --password-stdin", true},
		{"a long option", "serve --licence canary", true},
	} {
		redact := Redact
		if c.script {
			redact = RedactScript
		}
		got := redact(c.text)
		if strings.Contains(got, "canary") {
			t.Errorf("%s: %q became %q", c.name, c.text, got)
		}
		if again := redact(got); again != got {
			t.Errorf("%s: %q became %q the second time", c.name, got, again)
		}
	}
	for _, text := range []string{
		"vllm serve --max-num-seqs 256 --max-tokens 4096 --max-num-batched-tokens=8192",
		"--tokenizer org/model --tokenizer-mode auto --skip-tokenizer-init",
		"generation_tokens_total 123", "prompt_tokens: 17, completion_tokens: 5", `{"max_tokens": 256, "prompt_tokens": 17}`,
		"tokens per second: 1200", "token budget exceeded", `secret "hf-token" not found`, "secretName: hub", `{"secretName":"hub"}`,
		`couldn't find key password in Secret serving/hub`, "unauthorized: authentication required", "cp -p a b", "mkdir -p /data/x", "ssh -p 22 host",
		"python -u main.py", "ps -a", "image registry.example.com/org/model@sha256:0123abcd", "me@example.com", "http://h:8000/v1", "pass: 12 of 12 tests",
		"--enable-auto-tool-choice --tool-call-parser hermes", "KV cache usage: 97.1 %", "stop_token_ids: [1, 2]", "the password is wrong",
		"docker run --user 1000:1000 x", "docker run --user nobody:65534 x", "ps -ef -u root", "secret key: not found", "<p>secret</p>", "pg_dump -U me -h db:5432 x",
	} {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestBasicLogins: a name and a password as HTTP has them, wherever they stand.
func TestBasicLogins(t *testing.T) {
	const login = "bWU6Y2FuYXJ5" // me:canary
	for _, text := range []string{`proxy_set_header Authorization "Basic ` + login + `";`, "key: authorization, value: Basic " + login, "basic " + login + "=="} {
		if got := Redact(text); strings.Contains(got, login) {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"basic authentication failed", "Basic tier of 8000", "uses basic auth"} {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestNumbersAsPasswords: a user of curl has a password, whatever it is of.
func TestNumbersAsPasswords(t *testing.T) {
	if got, want := Redact("curl --user=me:123456 https://x"), "curl --user=me:(redacted) https://x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFormsInManifests: what a diff of a manifest shows.
func TestFormsInManifests(t *testing.T) {
	for name, text := range map[string]string{
		"a block":                            "password: |\n  canary\n  canary\nreplicas: 2",
		"a folded block":                     "    hubToken: >-\n      canary\n\n      canary\nreplicas: 2",
		"a block of a list":                  "- name: HF_TOKEN\n  value: |-\n    canary\nreplicas: 2",
		"a wrapped text":                     "api_key: \"canary\n  canary\"\nreplicas: 2",
		"a wrapped plain text":               "api_key: canary\n  canary\nreplicas: 2",
		"a list":                             "apiKeys:\n- canary\n- canary\nreplicas: 2",
		"a list, deeper":                     "apiKeys:\n  - canary\n  - canary\nreplicas: 2",
		"a mapping":                          "credentials:\n  ada: canary\n  bob: canary\nreplicas: 2",
		"a list of one line":                 "apiKeys: [canary, canary]\nreplicas: 2",
		"a mapping of one line":              "passwords: {ada: canary, bob: canary}\nreplicas: 2",
		"the value below":                    "password:\n  canary\nreplicas: 2",
		"base64 of a Secret":                 "apiVersion: v1\nkind: Secret\ndata:\n  a: canary\n---\nreplicas: 2",
		"a variable":                         "- name: HF_TOKEN\n  value: canary\n- name: X\nreplicas: 2",
		"a variable, turned":                 "- value: canary\n  name: HF_TOKEN\nreplicas: 2",
		"options of CSI":                     "csi:\n  driver: blob.csi\n  volumeAttributes:\n    sharename: canary\n    user: canary\n  readOnly: true\nreplicas: 2",
		"options of CSI, inline":             "csi: {driver: x, volumeAttributes: {a: canary}}\nreplicas: 2",
		"options of flexVolume":              "flexVolume:\n  driver: x/cifs\n  options:\n    networkPath: canary\n    mountOptions: canary\nreplicas: 2",
		"a secret key":                       "s3:\n  secretKey: canary\n  secret_key: canary\n  pass: canary\n  pw: canary\nreplicas: 2",
		"args":                               "args:\n- --api-key\n- canary\n- --port\nreplicas: 2",
		"args of one line":                   "args: [--api-key, canary, --port, '8000']\nreplicas: 2",
		"a command":                          "command: [sh, -c, \"mysql -pcanary\"]\nreplicas: 2",
		"a header":                           "headers:\n- name: Authorization\n  value: Token canary\nreplicas: 2",
		"a header of one line":               "headers: {X-Api-Key: canary}\nreplicas: 2",
		"an unknown flag":                    "args:\n- --licence=canary\n- --other canary\nreplicas: 2",
		"its value as an item":               "args:\n- --licence\n- canary\n- -k\n- 'canary'\nreplicas: 2",
		"in quotes":                          "args: [\"--licence=canary\", '--licence canary']\nreplicas: 2",
		"its value on a line of a shell":     "command: [sh, -c]\nargs:\n- |\n  serve m --licence \\\n    canary --port 80\n  replicas: 2",
		"its value in quotes on such a line": "args:\n- |\n  serve m --licence \\\n    'a canary' \\\n    --port 80\n  replicas: 2",
		"variables of a chart":               "extraEnvVars:\n- name: licence\n  value: canary\n- name: Other\n  value: canary\nextraEnv:\n  - {name: lic, value: canary}\nenvVars:\n- name: lic\n  value: canary\nreplicas: 2",
		"a mapping of variables":             "env:\n  licence: canary\n  b: 'a canary'\nreplicas: 2",
		"a mapping of variables on a line":   "env: {licence: canary}\nextraEnv: {a: 1, b: canary}\nreplicas: 2",
		"headers of a probe":                 "livenessProbe:\n  httpGet:\n    httpHeaders:\n    - name: X-Custom\n      value: canary\n    - {name: X-Other, value: canary}\nreplicas: 2",
		"items of one line":                  "args: [--a, --licence, canary, \"-k\", \"canary\"]\nreplicas: 2",
		"items below each other":             "args: [\n  \"--licence\",\n  \"canary\",\n  \"-k\",\n  \"canary\"\n]\nreplicas: 2",
		"a shell's line":                     "command: [sh, -c, \"export LIC=canary; serve -k canary --licence canary --x=${Y:-canary}\"]\nreplicas: 2",
		"a shell's block":                    "command:\n- sh\n- -c\n- |\n  export LIC=canary\n  exec serve --licence canary -k canary\nreplicas: 2",
		"small letters":                      "env:\n- name: licence\n  value: canary\n- value: canary\n  name: licence\nreplicas: 2",
		"small letters, inline":              "env: [{name: licence, value: canary}]\nreplicas: 2",
		"small letters, JSON":                "{\"env\": [\n{\"name\": \"licence\", \"value\": \"canary\"}\n],\n\"replicas: 2\": 1}",
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
		"args: [--max-num-seqs, '256', --tokenizer, org/model]\nreplicas: 2",
		"args:\n- --max-tokens=4096\n- --tokenizer\n- org/model",
		"volumes:\n- name: hub\n  secret:\n    items:\n    - key: token\n      path: token",
		"valueFrom:\n  secretKeyRef:\n    name: hub\n    key: token",
		"imagePullSecrets:\n- name: registry\nnodePublishSecretRef:\n  name: hub",
		"tokenizer: org/model\nmax_tokens: 4096\nserviceAccountName: vllm",
		"csi:\n  driver: csi.storage.k8s.io\n  readOnly: true",
		"command: [mkdir, -p, /data]", "command: [bash, -euo, pipefail, -c, 'ulimit -l unlimited; exec serve m']",
		"args:\n- --model\n- org/model\n- --chat-template\n- /x/y.jinja\n- --licence-file\n- /run/licence",
		"args: [--model, org/model, --seed, ${SEED:-1}, --address=$(LEADER):6379]",
		"env:\n- name: licence\n  valueFrom: {secretKeyRef: {name: licence, key: file}}\n- name: http_port\n  value: \"8000\"",
		"args:\n- |\n  serve --model \\\n    org/model --max-num-seqs \\\n    256 --enable-x \\\n    && echo done",
		"env:\n  port: 8000\n  debug: true\nenvVars: []\nextraEnv: {a: 1}",
		"parameters:\n- name: image.tag\n  value: v1.2.3\n- name: mode\n  value: fast",
	} {
		if got := RedactManifest(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

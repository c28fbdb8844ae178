package credential

import (
	"strings"
	"testing"
)

// TestValuesOfSeveralLines: places of a manifest where the line of a value does not tell what names it.
func TestValuesOfSeveralLines(t *testing.T) {
	for name, text := range map[string]string{
		"a folded block":                    "args: >-\n  serve m\n  --licence\n  canary\n  --port 8000\nreplicas: 2",
		"a folded item":                     "args:\n- >-\n  serve m --licence\n  canary\nreplicas: 2",
		"a block":                           "command: |\n  serve m\n  --licence\n  canary\nreplicas: 2",
		"a plain text":                      "args: serve m --licence\n  canary --port 8000\nreplicas: 2",
		"a plain text below":                "args:\n  serve m --licence\n  canary --port 8000\nreplicas: 2",
		"a text in quotes":                  "args: \"serve m --licence\n  canary\"\nreplicas: 2",
		"a flag of one dash":                "args:\n- |\n  serve m -k \\\n    canary\nreplicas: 2",
		"a value behind a sign":             "args:\n- |\n  serve m --licence=\\\n  canary\nreplicas: 2",
		"a variable behind a sign":          "args:\n- |\n  export LIC=\\\n  canary\nreplicas: 2",
		"a backslash without a blank":       "args:\n- |\n  serve --licence\\\n   canary\nreplicas: 2",
		"CRLF":                              "args:\r\n- |\r\n  serve m --licence \\\r\n    canary\r\nreplicas: 2\r\n",
		"CRLF, a block":                     "password: |\r\n  canary\r\nreplicas: 2\r\n",
		"CRLF, items":                       "args:\r\n- --licence\r\n- canary\r\nreplicas: 2\r\n",
		"items of one line, wrapped":        "args: [--model, m, --licence,\n  canary]\nreplicas: 2",
		"JSON, wrapped":                     "{\"args\": [\"--model\", \"m\", \"--licence\",\n \"canary\"],\n\"replicas: 2\": 1}",
		"quotes over lines":                 "args:\n- |\n  serve --licence 'a\n  canary\n  b' --port 8000\nreplicas: 2",
		"a small variable of a shell":       "args:\n- |\n  lic=canary serve m\n  export lic=canary; lic=canary\nreplicas: 2",
		"a mapping of mappings":             "envVars: {licence: {value: canary}}\nreplicas: 2",
		"a mapping of mappings, lines":      "envVars:\n  licence:\n    value: canary\n  LICENCE:\n    value: canary\nreplicas: 2",
		"a block of variables":              "extraEnv: |\n  - name: licence\n    value: canary\n  - name: LOG_LEVEL\n    value: debug\nreplicas: 2",
		"a folded text of variables":        "extraEnv: \"- name: licence\\n  value: canary\\n\"\nreplicas: 2",
		"a block of a mapping":              "extraEnvVars: |-\n  licence: canary\nreplicas: 2",
		"a block that cannot be read":       "extraEnv: |\n  - name: licence\n  value: canary\n   x: [\nreplicas: 2",
		"other names of variables":          "workerEnvironment:\n  licence: canary\nenv_vars:\n- name: licence\n  value: canary\nvariables: {licence: canary}\nreplicas: 2",
		"an anchor":                         "x: &lic canary\nenv:\n- name: LICENCE\n  value: *lic\nreplicas: 2",
		"an anchor of a mapping":            "x-lic: &lic canary\nenv:\n  licence: *lic\nreplicas: 2",
		"an anchor of a list":               "x: &all\n- canary\n- {a: canary}\npasswords: *all\nreplicas: 2",
		"a wrapped value of a key":          "password: \"a\n  foo: canary\"\nenv:\n  licence: \"a\n  foo: canary\"\nreplicas: 2",
		"a comment behind":                  "env:\n  licence: canary # of May\n  # of April\nreplicas: 2",
		"a ConfigMap":                       "kind: ConfigMap\ndata:\n  licence: canary\n  region: eu\nreplicas: 2",
		"literals":                          "configMapGenerator:\n- name: x\n  literals:\n  - licence=canary\n  - \"licence=canary\"\nreplicas: 2",
		"a JSON patch on an argument":       "- op: add\n  path: /spec/template/spec/containers/0/args/-\n  value: canary\n---\nreplicas: 2",
		"a JSON patch on one, one line":     "- {op: add, path: /spec/template/spec/containers/0/args/1, value: canary}\n---\nreplicas: 2",
		"a template":                        "{{- if .Values.x }}\nenv:\n{{- with .Values.y }}\n- name: {{ .name }}\n  value: x\n{{- end }}\n- name: licence\n  value: canary\n{{- end }}\nreplicas: 2",
		"the template of an ExternalSecret": "kind: ExternalSecret\nspec:\n  target:\n    template:\n      data:\n        config: user=me pw=canary\n---\nreplicas: 2",
		"a template, wrapped":               "{{- if .Values.x }}\npassword: canary\n  canary\n{{- end }}\nreplicas: 2",
		"an argument that no flag names":    "args:\n- serve\n- --port\n- \"8000\"\n- canary\nreplicas: 2",
		"one of a list":                     "args: [serve, --port, \"8000\", canary, \"canary\", 'canary']\nreplicas: 2",
		"one within braces":                 "- {name: x, args: [run, canary]}\n- extraArgs: [canary]\n---\nreplicas: 2",
		"one in JSON":                       "- {\"command\": [\n  \"run\",\n  \"canary\"\n]}\n---\nreplicas: 2",
		"one behind two dashes":             "args:\n- run\n- --\n- canary\n---\nargs: [run, --, canary, -, canary, \"-1\", canary]\nreplicas: 2",
		"one with padding":                  "args:\n- run\n- canaryA==\n---\nargs: [run, canaryA=]\nreplicas: 2",
		"one with blanks around":            "args:\n- run\n- |\n  canary\n- \"canary \"\n---\nargs: [run, \" canary\"]\nreplicas: 2",
		"one behind a bracket in quotes":    "args: [run, \"--stop=[END]\", canary]\n---\nargs: ['[', canary]\nreplicas: 2",
		"one of a list with a name":         "args: &x [run, canary]\n---\nargs: !!seq [run, &y canary, !!str canary]\nreplicas: 2",
		"an anchor of an argument":          "x: &lic canary\nargs: [--licence, *lic]\nreplicas: 2",
		"an anchor of an argument, a line":  "x: &lic canary\nargs:\n- run\n- *lic\nreplicas: 2",
		"a login to a registry":             "image: me:canary@registry.example.com/org/m:v1\nreplicas: 2",
		"a password with a comment of XML":  "data:\n  a: <password><!-- x --><![CDATA[canary]]></password>\nreplicas: 2",
	} {
		if !strings.HasPrefix(text, "- ") {
			text = "a: 1\n" + text
		}
		got := RedactManifest(text)
		if strings.Contains(got, "canary") || !strings.Contains(got, "replicas: 2") || strings.Count(got, "\n") != strings.Count(text, "\n") || strings.Count(got, "\r") != strings.Count(text, "\r") {
			t.Errorf("%s became\n%s", name, got)
		}
		if again := RedactManifest(got); again != got {
			t.Errorf("%s became, the second time,\n%s\nfrom\n%s", name, again, got)
		}
	}
}

// TestPlainValuesOfSeveralLines: what an on-call engineer has to see of a change stays.
func TestPlainValuesOfSeveralLines(t *testing.T) {
	for _, text := range []string{
		"args: >-\n  serve org/model\n  --max-num-seqs\n  256\n  --enable-x\n  --port 8000\nreplicas: 2",
		"args:\n- |\n  serve m --max-num-seqs=\\\n  256 -tp \\\n    4 --model \\\n    org/model\nreplicas: 2",
		"args:\n- |\n  set -e\n  # --max-num-seqs 1 was too low\n  set -u\n  export FOO=1; echo done\nreplicas: 2",
		"files:\n- vllm.yaml=config/engine.yaml\nreplicas: 2",
		"args: |\n  exec serve m --max-model-len\n  8192\nimage: registry.example.com:5000/org/m:v1@sha256:0123abcd",
		"env:\n  region: eu-west-1\n  mode: fast\n  logLevel: debug\n  MODE: slow\nreplicas: 2",
		"env:\n- name: region\n  value: eu-west-1\n- name: logLevel\n  value: debug\nreplicas: 2",
		"env:\n- name: AWS_DEFAULT_REGION\n  value: eu-west-1\n- name: NO_PROXY\n  value: .svc,.cluster.local\nargs: [--routing-logic, session]\nreplicas: 2",
		"extraEnv: |\n  - name: logLevel\n    value: debug\nreplicas: 2",
		"envVars:\n  logLevel:\n    value: debug\n  licence:\n    valueFrom:\n      secretKeyRef: {name: x, key: y}\nreplicas: 2",
		"args:\n- serve\n- --enable-x\nports:\n- containerPort: 8000\n  name: http",
		"spec:\n  containers:\n  - name: x\n    args:\n    - --enable-prefix-caching\n    ports: []\n",
		"{{- if .Values.x }}\nargs:\n- --enable-x\n{{- end }}\nimage: {{ .Values.image }}:v2\nreplicas: {{ .Values.n }}",
		"kind: ConfigMap\ndata:\n  region: eu\n  max-num-seqs: \"256\"\n  config.yaml: |\n    model: org/m\n    kv_role: both\n",
		"command: [sh, -c, \"exec serve m --port 8000\"]\nargs: [serve, llama3, --max-num-seqs, \"256\", --enable-x, --port, 8000, ${X:-1}, $(Y), \"8\"]\nextraArgs: [--seed=1, \"-tp\", \"4\"]",
		"command:\n- sh\n- -c\n- exec serve m\nargs:\n- serve\n- org/model\n- --max-num-seqs\n- \"256\"\n- MODE=fast",
		"literals:\n- mode=fast\n- LOG_LEVEL=debug\n",
		"- op: add\n  path: /spec/template/spec/containers/0/args/-\n  value: --max-num-seqs=256\n- op: replace\n  path: /spec/template/spec/containers/0/args/1\n  value: org/model\n",
		"expr: sum(rate(x{job=\"a\", pod=~\"b.*\"}[5m]))\nurl: http://x.y/z?a=b&c=d\nselector: app=chat,role=x",
	} {
		if got := RedactManifest(text); got != text {
			t.Errorf("%q became\n%s", text, got)
		}
	}
	for _, text := range []string{
		"helm upgrade chat ./chart --set image.tag=v2 --set-string region=eu,mode=fast",
		"kubectl set image deploy/chat vllm=registry.example.com/org/m:v2 --record=true",
		"argocd app set chat -p image.tag=v2 --parameter replicas=4 --set vllm.maxNumSeqs=64",
	} {
		if got := RedactScript(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"helm upgrade chat --set licence=canary", "helm upgrade chat --set image.tag=v2,licence=canary", "helm upgrade chat --set db.password=canary", "serve \\\n  -k \\\n  canary"} {
		if got := RedactScript(text); strings.Contains(got, "canary") {
			t.Errorf("%q became %q", text, got)
		}
	}
}

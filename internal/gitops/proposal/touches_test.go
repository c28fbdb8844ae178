package proposal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/gitops"
)

const deployment = `# the chat service
apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: vllm
          image: vllm:v0.11
          args:
            - --model=llama
            - --max-num-seqs
            - "256"
            - --enable_prefix_caching
          env:
            - {name: HF_TOKEN, value: hunter2}
---
kind: Deployment
metadata: {name: code}
spec: {replicas: 9}
`

// What a commit changed is told by the names that people use, wherever it is
// written, and only what concerns the service.
func TestTouches(t *testing.T) {
	target := gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "prod-chat"}
	for name, tt := range map[string]struct {
		before, after string
		want          []string
	}{
		"a flag":          {deployment, strings.Replace(deployment, `"256"`, "64", 1), []string{"--max-num-seqs 256 -> 64 :16"}},
		"its spelling":    {deployment, strings.Replace(deployment, "- --max-num-seqs\n            - \"256\"", "- --max_num_seqs=256", 1), nil},
		"a boolean":       {deployment, strings.Replace(deployment, "--enable_prefix_caching", "--no-enable-prefix-caching", 1), []string{"--enable-prefix-caching true -> false :17"}},
		"an image":        {deployment, strings.Replace(deployment, "v0.11", "v0.12", 1), []string{"image vllm:v0.11 -> vllm:v0.12 :12"}},
		"replicas":        {deployment, strings.Replace(deployment, "replicas: 3", "replicas: 5", 1), []string{"replicas 3 -> 5 :7"}},
		"another service": {deployment, strings.Replace(deployment, "replicas: 9", "replicas: 1", 1), nil},
		"a comment":       {deployment, strings.Replace(deployment, "# the", "# our", 1), nil},
		"a secret":        {deployment, strings.Replace(deployment, "hunter2", "hunter3", 1), []string{"Deployment chat: spec.template.spec.containers[vllm].env[HF_TOKEN].value (redacted) -> (redacted) :19"}},
		"another secret": {deployment, strings.NewReplacer("HF_TOKEN", "HF_PAT", "hunter2", "hunter3").Replace(deployment), []string{
			"Deployment chat: spec.template.spec.containers[vllm].env[HF_PAT].name  -> (redacted) :19",
			"Deployment chat: spec.template.spec.containers[vllm].env[HF_PAT].value  -> (redacted) :19",
			"Deployment chat: spec.template.spec.containers[vllm].env[HF_TOKEN].name (redacted) ->  :19",
			"Deployment chat: spec.template.spec.containers[vllm].env[HF_TOKEN].value (redacted) ->  :19",
		}},
		"a secret of values":          {"hfToken: a\n", "hfToken: b\n", []string{"hfToken (redacted) -> (redacted) :1"}},
		"any variable":                {"env: [{name: GREETING, value: a}]", "env: [{name: GREETING, value: b}]", []string{"env[GREETING].value (redacted) -> (redacted) :1"}},
		"a variable in small letters": {"env: [{name: licence.key, value: a}]", "env: [{name: licence.key, value: b}]", []string{"env[licence.key].value (redacted) -> (redacted) :1"}},
		"a rate of tokens":            {"env: [{name: RATE_LIMIT_TOKEN, value: a}]", "env: [{name: RATE_LIMIT_TOKEN, value: b}]", []string{"env[RATE_LIMIT_TOKEN].value (redacted) -> (redacted) :1"}},
		"a count of tokens":           {"args: [--long-prefill-token-threshold=1024]", "args: [--long-prefill-token-threshold=2048]", []string{"--long-prefill-token-threshold 1024 -> 2048 :1"}},
		"a new flag":                  {deployment, strings.Replace(deployment, "            - --model", "            - --watermark=0.1\n            - --model", 1), []string{"--watermark  -> 0.1 :14"}},
		"not YAML":                    {"a: {{ .Values.x }}", "a: {{ .Values.y }}", []string{"(the whole file)"}},
		"a new file":                  {"", "replicaCount: 2\n", []string{"replicas  -> 2 :1"}},
		"helm values":                 {"servingEngineSpec:\n  modelSpec:\n    - name: chat\n      vllmConfig:\n        maxNumSeqs: 256\n", "servingEngineSpec:\n  modelSpec:\n    - name: chat\n      vllmConfig:\n        maxNumSeqs: 64\n", []string{"--max-num-seqs 256 -> 64 :5"}},
		"a shell line":                {"args: ['vllm serve m --max-num-seqs 256 --port 8000']", "args: ['vllm serve m --max-num-seqs 64 --port 8000']", []string{"--max-num-seqs 256 -> 64 :1"}},
		"a literal block":             {"args:\n  - |\n    vllm serve m \\\n      --max-num-seqs 256\n", "args:\n  - |\n    vllm serve m \\\n      --max-num-seqs 64\n", []string{"--max-num-seqs 256 -> 64 :4"}},
		"an engine's file":            {"data:\n  config.yaml: |\n    max-num-seqs: 256\n    model: m\n", "data:\n  config.yaml: |\n    max-num-seqs: 64\n    model: m\n", []string{"--max-num-seqs 256 -> 64 :3"}},
		"an env file": {"# MODE\nMODE=a\nHF_TOKEN=hunter2\nURL=http://u:hunter2@h/\n", "MODE=b\nHF_TOKEN=hunter3\nURL=http://u:hunter3@h/\nNEW=1", []string{
			"HF_TOKEN (redacted) -> (redacted) :2", "MODE a -> b :1", "NEW  -> 1 :4", "URL (redacted) -> (redacted) :3",
		}},
		"a held env file": {"data:\n  x.env: |\n    MODE=a\n    HF_TOKEN=hunter2\n", "data:\n  x.env: |\n    MODE=b\n    HF_TOKEN=hunter2\n", []string{"data[x.env]: MODE a -> b :3"}},
		"a literal":       {"literals: [HF_TOKEN=hunter2, A=1]\n", "literals: [HF_TOKEN=hunter3, A=1]\n", []string{"literals[0] HF_TOKEN=(redacted) -> HF_TOKEN=(redacted) :1"}},
		"any text":        {"hunter2\n", "hunter3\n", []string{"(the whole file)"}},
		"a json patch":    {"- op: replace\n  path: /spec/replicas\n  value: 3\n", "- op: replace\n  path: /spec/replicas\n  value: 4\n", []string{"[/spec/replicas].value 3 -> 4 :3"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := func(s string) []gitops.File {
				if s == "" {
					return nil
				}
				return []gitops.File{{Path: "f.yaml", Data: []byte(s)}}
			}
			var got []string
			for _, x := range touches(file(tt.before), file(tt.after), target) {
				line := fmt.Sprintf("%s %s -> %s :%d", x.Variable, x.From, x.To, x.Line)
				if strings.HasPrefix(x.Variable, "(") {
					line = x.Variable
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestTouchesOfReleases: of what stands beside it, a service's own values count alone.
func TestTouchesOfReleases(t *testing.T) {
	const file = `kind: HelmRelease
metadata: {name: chat}
spec: {values: {replicas: NEW}}
---
kind: HelmRelease
metadata: {name: chat, namespace: prod}
spec: {values: {max_num_seqs: NEW}}
---
kind: HelmRelease
metadata: {name: chat-eu}
spec: {values: {decode: {args: [--max-model-len=NEW]}, prefill: {args: [--dtype=NEW]}}}
---
kind: HelmRelease
metadata: {name: stack}
spec: {values: {servingEngineSpec: {modelSpec: [{name: chat, maxNumSeqs: NEW}, {name: x-chat, tag: NEW}]}}}
---
kind: Deployment
metadata: {name: chat}
spec: {revisionHistoryLimit: NEW}
---
kind: ConfigMap
metadata: {name: chat, namespace: prod}
data: {level: NEW}
---
kind: OCIRepository
metadata: {name: chart, namespace: flux-system}
spec: {ref: {tag: NEW}}
---
kind: ScaledObject
metadata: {name: any}
spec: {scaleTargetRef: {name: chat-eu-decode}, maxReplicaCount: NEW}
`
	is := func(n string) []gitops.File {
		return []gitops.File{{Path: "f.yaml", Data: []byte(strings.ReplaceAll(file, "NEW", n))}}
	}
	for _, tt := range []struct{ release, name, want string }{
		{"serving/chat", "chat", "HelmRelease chat: spec.values.replicas OCIRepository chart: spec.ref.tag"},
		{"prod/chat", "chat", "ConfigMap chat: data.level HelmRelease chat: spec.values.max_num_seqs HelmRelease chat: spec.values.replicas OCIRepository chart: spec.ref.tag"}, // the Kustomization may give it that namespace
		{"serving/chat-eu", "chat-eu-decode", "HelmRelease chat-eu: spec.values.decode.args[--max-model-len] OCIRepository chart: spec.ref.tag ScaledObject any: spec.maxReplicaCount"},
		{"serving/chat-eu", "chat-eu-prefill", "HelmRelease chat-eu: spec.values.prefill.args[--dtype] OCIRepository chart: spec.ref.tag"},
		{"serving/stack", "rel-chat-deployment-vllm", "HelmRelease stack: spec.values.servingEngineSpec.modelSpec[chat].maxNumSeqs OCIRepository chart: spec.ref.tag"},
		{"serving/stack", "rel-x-chat-deployment-vllm", "HelmRelease stack: spec.values.servingEngineSpec.modelSpec[x-chat].tag OCIRepository chart: spec.ref.tag"},
		{"", "chat", "ConfigMap chat: data.level Deployment chat: spec.revisionHistoryLimit OCIRepository chart: spec.ref.tag"},
		{"", "code", "ConfigMap chat: data.level OCIRepository chart: spec.ref.tag"},
	} {
		var got []string
		target := gitops.Target{Kind: "Deployment", Namespace: "serving", Name: tt.name, HelmRelease: tt.release, Release: "rel"}
		for _, x := range touches(is("2"), is("3"), target) {
			got = append(got, x.Path)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s of %q: %s\nwant %s", tt.name, tt.release, strings.Join(got, " "), tt.want)
		}
	}
}

// FuzzTouches: no file makes it panic, and a file does not differ from itself.
func FuzzTouches(f *testing.F) {
	f.Add([]byte(deployment), []byte("a: &a [*a]"))
	f.Add([]byte("args: [--a, b]"), []byte("{{ x }}"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		touches([]gitops.File{{Path: "f", Data: a}}, []gitops.File{{Path: "f", Data: b}}, gitops.Target{Name: "chat"})
		if got := touchesOf("f", flatten("f", a, gitops.Target{}), flatten("f", a, gitops.Target{})); len(got) > 0 {
			t.Errorf("differs from itself: %+v", got)
		}
	})
}

// TestTouchesOfSecrets: the lines of a file that is called a secret are none to
// show, whatever their keys; a directory of such a name says nothing of manifests.
func TestTouchesOfSecrets(t *testing.T) {
	for file, want := range map[string]string{"app/secrets.env": "(redacted)", "secret/app.env": "(redacted)", "app/settings.env": "2"} {
		got := touches([]gitops.File{{Path: file, Data: []byte("LICENSE=1\n")}}, []gitops.File{{Path: file, Data: []byte("LICENSE=2\n")}}, gitops.Target{})
		if len(got) != 1 || got[0].Variable != "LICENSE" || got[0].To != want {
			t.Errorf("%s: %+v, want LICENSE to %s", file, got, want)
		}
	}
	got := touches([]gitops.File{{Path: "auth/app.yaml", Data: []byte("replicas: 1\n")}}, []gitops.File{{Path: "auth/app.yaml", Data: []byte("replicas: 2\n")}}, gitops.Target{})
	if len(got) != 1 || got[0].To != "2" {
		t.Errorf("%+v", got)
	}
}

// TestTouchesOfUnknownValues: what is not known to hold no credential is not shown, in
// whatever form it is written, and that it changed is told.
func TestTouchesOfUnknownValues(t *testing.T) {
	for name, text := range map[string]string{
		"a flag":                 "args: [--licence=canary, --port=80]\n",
		"a flag in two items":    "args:\n- --licence\n- canary\n",
		"an argument":            "args: [canary, --port=80]\n",
		"a folded block":         "args: >-\n  serve --licence\n  canary\n  --port 80\n",
		"a backslash":            "args:\n- |\n  serve -k \\\n    canary \\\n    --port 80\n",
		"a short flag alone":     "args:\n- serve -k canary\n",
		"a mapping of mappings":  "envVars: {licence: {value: canary}}\n",
		"a mapping of variables": "env: {licence: canary}\n",
		"a text of variables":    "extraEnv: |\n  - name: licence\n    value: canary\n",
		"an env file":            "LICENCE=canary\n",
		"a login to a registry":  "image: me:canary@registry.example.com/org/m:v1\n",
	} {
		file := func(value string) []gitops.File {
			return []gitops.File{{Path: "f.yaml", Data: []byte(strings.ReplaceAll(text, "canary", value))}}
		}
		got := touches(file("canary1"), file("canary2"), gitops.Target{})
		if len(got) == 0 {
			t.Errorf("%s: a change is not told", name)
		}
		for _, x := range got {
			if strings.Contains(x.From+x.To+x.Path+x.Variable, "canary") {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
}

// TestTouchesOfASecret: nothing of a Secret is shown, wherever it stands and
// whatever its fields are called.
func TestTouchesOfASecret(t *testing.T) {
	long := strings.Repeat("a: b\n", maxShown)
	for name, text := range map[string]string{
		"a list":             "kind: List\nitems:\n- kind: Secret\n  metadata: {name: x}\n  x: {motd: canary}\n",
		"a list of Secrets":  "kind: SecretList\nitems:\n- x: {motd: canary}\n",
		"no name":            "kind: Secret\nmetadata: {generateName: hub-}\nx: {motd: canary}\n",
		"an array":           "[{kind: Secret, metadata: {name: x}, x: {motd: canary}}]\n",
		"a patch's text":     "patches:\n- patch: |-\n    kind: Secret\n    metadata: {name: x}\n    x: {motd: canary}\n",
		"a Secret's patch":   "patches:\n- target: {kind: Secret}\n  patch: |-\n    - op: replace\n      path: /x/motd\n      value: canary\n",
		"a patch of its own": "- op: replace\n  path: /stringData/motd\n  value: canary\n",
		"a patch in a text":  "patches:\n- patch: |-\n    - op: replace\n      path: /data/motd\n      value: canary\n",
		"a merged kind":      "a: &a {kind: Secret}\nb: {<<: *a, x: {motd: canary}}\n",
		"an alias":           "a: &a {motd: canary}\nb: {kind: Secret, x: *a}\n",
		"behind long lines":  "a: |\n  - " + strings.ReplaceAll(long, "\n", "\n    ") + "x: canary\n    kind: Secret\n",
		"a second document":  "a: |\n  x: 1\n  ---\n  x: canary\n  kind: Secret\n",
		"a shell line":       "a: |\n  kubectl apply --server-side -f - <<EOF\n  kind: Secret\n  x: canary\n  EOF\n",
		"a command":          "args: [-c, \"apply -f <<EOF\\nkind: Secret\\nx: canary\\nEOF\", --wait]\n",
		"a private key":      "kind: ConfigMap\nmetadata: {name: x}\ndata:\n  id: |\n    -----BEGIN RSA PRIVATE KEY-----\n    canary\n    -----END RSA PRIVATE KEY-----\n",
		"lines":              "a: |\n  X=1\n  Y={kind: Secret, x: canary}\n",
	} {
		file := func(value string) []gitops.File {
			return []gitops.File{{Path: "f.yaml", Data: []byte(strings.ReplaceAll(text, "canary", value))}}
		}
		for _, x := range touches(file("canary1"), file("canary2"), gitops.Target{Kind: "Deployment", Name: "chat"}) {
			if strings.Contains(x.From+x.To+x.Path+x.Variable, "canary") {
				t.Errorf("%s: %+v", name, x)
			}
		}
		if name != "a second document" && len(touches(file("canary1"), file("canary2"), gitops.Target{Kind: "Deployment", Name: "chat"})) == 0 {
			t.Errorf("%s: a change is not told", name)
		}
	}
}

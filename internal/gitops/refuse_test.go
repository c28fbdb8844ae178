package gitops

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
)

const goodHead = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: vllm\n  namespace: a\nspec:\n  template:\n    spec:\n      containers:\n      - name: vllm\n"

// TestRefusals: what cannot be edited safely is refused, with the place and
// what to do, and nothing is changed.
func TestRefusals(t *testing.T) {
	args := func(lines string) string { return goodHead + "        args:\n" + lines }
	deep := strings.Repeat("[", 102) + strings.Repeat("]", 102)
	for _, c := range []struct {
		name, data string
		reason     fault.Reason
		want       string
	}{
		{"too large", goodHead + strings.Repeat("# x\n", 1<<20), fault.OutOfBounds, "a.yaml: has "},
		{"LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:vllm\n", fault.Invalid, "a.yaml:1:1: is a Git LFS pointer"},
		{"binary", goodHead + "\x00", fault.Invalid, "a.yaml:1:1: is not UTF-8"},
		{"latin-1", goodHead + "# \xe9\n", fault.Invalid, "a.yaml:1:1: is not UTF-8"},
		{"merge conflict", args("<<<<<<< HEAD\n        - --max-num-seqs=1\n=======\n        - --max-num-seqs=2\n>>>>>>> x\n"), fault.Invalid, "a.yaml:12:1: has the marker of an unresolved merge conflict"},
		{"tab", goodHead + "\targs: []\n", fault.Invalid, "a.yaml:11:1: is indented with a tab"},
		{"key twice", goodHead + "        args: []\n        args: []\n", fault.Invalid, `a.yaml:12:9: gives the key "args" twice, first on line 11`},
		{"template", goodHead + "        {{- if .Values.x }}\n        args: [--max-num-seqs=1]\n        {{- end }}\n", fault.Invalid, "is a template, not YAML"},
		{"template as value", goodHead + "        args: ['--max-num-seqs={{ .Values.n }}']\n", fault.Invalid, "is filled in when it runs"},
		{"template as number", strings.Replace(goodHead, "spec:\n", "spec:\n  replicas: {{ .Values.n }}\n", 1) + "        args: [--max-num-seqs=1]\n", fault.Invalid, "a.yaml:7:13: is a template, not YAML"},
		{"long script", goodHead + "        command: [sh, -c]\n        args:\n        - |\n          vllm serve m --max-num-seqs 1\n" + strings.Repeat("          #a\n", 30_000), fault.Invalid, "it has more than 64 KiB"},
		{"many arguments", args(strings.Repeat("        - --max-num-seqs=1\n", 2001)), fault.Invalid, "has more than 2000 items"},
		{"another kind", strings.Replace(args("        - --max-num-seqs=1\n"), "kind: Deployment", "kind: StatefulSet", 1), fault.NotFound, "1 files; StatefulSet a/vllm is in a.yaml"},
		{"SOPS", args("        - --max-num-seqs=1\n") + "sops:\n    mac: ENC[AES256_GCM,data:x]\n", fault.Invalid, "a.yaml:13:1: is encrypted with SOPS"},
		{"deep", goodHead + "        x: " + deep + "\n", fault.Invalid, "nested more than"},
		{"alias bomb", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n" + args("        - --max-num-seqs=1\n") + "\nd: *c\n", "", ""},
		{"shared list", goodHead + "        args: &args\n        - --max-num-seqs=1\n      - name: two\n        args: *args\n", fault.Ambiguous, "several containers set --max-num-seqs"},
		{"shared value", strings.Replace(goodHead, "metadata:\n", "x: &n --max-num-seqs=1\nmetadata:\n", 1) + "        args: [*n]\n", fault.Invalid, "the anchor &n is used again at a.yaml:12:16"},
		{"directive", "%YAML 1.1\n---\n" + args("        - --max-num-seqs=1\n"), fault.Invalid, "a.yaml:1:1: YAML directives"},
		{"line separator", args("        - --max-num-seqs=1\n        # x\u2028\n"), fault.Invalid, `a.yaml:13:1: has the character "\u2028"`},
		{"carriage return", args("        - --max-num-seqs=1\r        - x\n"), fault.Invalid, "a.yaml:12:27: has a carriage return"},
		{"two words in one item", args("        - --max-num-seqs 1\n"), fault.Invalid, "a.yaml:12:11: mentions --max-num-seqs where it cannot be read safely"},
		{"abbreviated", args("        - --max-num-s=1\n"), fault.Invalid, "may be short for --max-num-seqs"},
		{"here-document", goodHead + "        command: [sh, -c]\n        args:\n        - |\n          cat <<EOF\n          --max-num-seqs 1\n          EOF\n", fault.Invalid, "mentions --max-num-seqs where it cannot be read safely"},
		{"here-document for a shell", goodHead + "        command: [sh, -c]\n        args:\n        - |\n          bash <<EOF\n          vllm serve m --max-num-seqs 1\n          EOF\n", fault.Invalid, "reads a here-document"},
		{"open quote", goodHead + "        command: [sh, -c, 'vllm serve --max-num-seqs \"1']\n", fault.Invalid, "without closing quote"},
		{"nested quotes", goodHead + "        command: [sh, -c, 'eval \"vllm serve --max-num-seqs 1\"']\n", fault.Invalid, "inside nested quotes"},
		{"substitution", goodHead + "        command: [sh, -c, 'vllm serve --max-num-seqs $(nproc)']\n", fault.Invalid, "which the manifest does not set"},
		{"arithmetic", goodHead + "        command: [sh, -c, 'vllm serve --max-num-seqs=$((1+1))']\n", fault.Invalid, "is filled in when it runs"},
		{"alternative", goodHead + "        command: [sh, -c, 'vllm serve --max-num-seqs=${N:+4}']\n", fault.Invalid, "is filled in when it runs"},
		{"two commands", goodHead + "        command: [sh, -c, 'vllm serve --max-num-seqs 1 & vllm serve --max-num-seqs 2']\n", fault.Ambiguous, "several commands of one script"},
		{"parts", goodHead + "        command: [sh, -c, \"vllm serve --max-num-seqs 1'2'\"]\n", fault.Invalid, "put together from several quoted parts"},
		{"no list", goodHead + "        args: --max-num-seqs=1\n", fault.Invalid, "is not a list"},
		{"a number in the list", goodHead + "        args: [--max-num-seqs, [1]]\n", fault.Invalid, "is not a text"},
		{"not there", "kind: Deployment\nmetadata: {name: other}\n", fault.NotFound, "no manifest and no Helm values of Deployment a/vllm among 1 files"},
		{"not there, and not read", "kind: ENC[AES256_GCM,data:x]\nsops: {}\n", fault.NotFound, "among 1 files; not read: a.yaml:1:1: is encrypted with SOPS"},
		{"other namespace", strings.Replace(goodHead, "namespace: a", "namespace: b", 1), fault.NotFound, "no manifest"},
		{"no containers", "kind: Deployment\nmetadata: {name: vllm}\nspec: {}\n", fault.NotFound, "has no container"},
		{"no command line", goodHead, fault.NotFound, "has neither command nor args"},
		{"empty", "", fault.NotFound, "no manifest"},
		{"circle", "a: &a\n  b: *a\n" + args("        - --max-num-seqs=1\n"), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := setOne([]File{{Path: "a.yaml", Data: []byte(c.data)}}, deployment, seqs, "64")
			if reason(err) != c.reason || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v (%s), not %s: %s", err, reason(err), c.reason, c.want)
			}
			if err != nil && (len(e.Files) > 0 || diffOf(e.Old, e.Files) != "") {
				t.Errorf("an edit came with the error: %+v", e)
			}
		})
	}
}

// TestPaths: a file outside of the tree is none.
func TestPaths(t *testing.T) {
	for _, path := range []string{"/etc/passwd", "../a.yaml", "a/../../b.yaml", "", "a//b.yaml"} {
		if _, err := Locate([]File{{Path: path}}, deployment, seqs); reason(err) != fault.Invalid {
			t.Errorf("%q: %v", path, err)
		}
	}
	twice := []File{{Path: "a.yaml"}, {Path: "a.yaml"}}
	if _, err := Locate(twice, deployment, seqs); reason(err) != fault.Invalid {
		t.Errorf("the same file twice: %v", err)
	}
	out := []File{{Path: "kustomization.yaml", Data: []byte("resources: [../../etc]\n")}}
	if _, err := Locate(out, deployment, seqs); reason(err) != fault.Invalid && reason(err) != fault.NotFound {
		t.Errorf("a resource outside: %v", err)
	}
}

// TestUnreadableElsewhere: a file that cannot be read is an error only if it
// mentions the target.
func TestUnreadableElsewhere(t *testing.T) {
	good := File{Path: "a.yaml", Data: []byte(goodHead + "        args: [--max-num-seqs=1]\n")}
	for text, want := range map[string]fault.Reason{"kind: [": "", "kind: Deployment\nmetadata:\n  name: vllm\n  x: [": fault.Invalid, "name: vllm-other\n  x: [": ""} {
		_, err := Locate([]File{good, {Path: "b.yaml", Data: []byte(text)}}, deployment, seqs)
		if reason(err) != want {
			t.Errorf("beside %q: %v", text, err)
		}
	}
}

// TestSetAll: several flags are one edit, all or none.
func TestSetAll(t *testing.T) {
	files := []File{{Path: "a.yaml", Data: []byte(goodHead + "        args:\n        - --max-num-seqs=128\n        - --port=80\n")}}
	all := []Assignment{{seqs, "64"}, {Variable{Flag: "max-num-batched-tokens"}, "4096"}, {Variable{Flag: "port"}, "80"}}
	e, err := SetAll(files, deployment, all)
	if err != nil {
		t.Fatal(err)
	}
	want := goodHead + "        args:\n        - --max-num-seqs=64\n        - --port=80\n        - --max-num-batched-tokens=4096\n"
	if len(e.Files) != 1 || string(e.Files[0].Data) != want || len(e.More) != 1 || e.From != "128" || e.More[0].To != "4096" {
		t.Errorf("%+v", e)
	}
	if _, err := SetAll(files, deployment, append(all, Assignment{Variable{Flag: "port"}, "a;b"})); reason(err) != fault.Invalid {
		t.Errorf("one of them is refused: %v", err)
	}
	if _, err := SetAll(files, deployment, all[2:]); reason(err) != fault.NothingToDo {
		t.Errorf("nothing to do: %v", err)
	}
}

// TestSecrets: what people read has no credential in it.
func TestSecrets(t *testing.T) {
	text := goodHead + "        args:\n        - --api-key=canary1\n        - --hf-token\n        - canary2\n        - --max-num-seqs=128\n        env:\n        - name: HF_TOKEN\n          value: canary3\n        - {name: OPENAI_API_KEY, value: canary4}\n        - name: URL\n          value: https://me:canary5@host/x\n"
	files := []File{{Path: "a.yaml", Data: []byte(text)}}
	for _, a := range []Assignment{{seqs, "64"}, {Variable{Flag: "URL_SUFFIX"}, "x"}, {Variable{Flag: "block-size"}, "16"}} {
		e, err := setOne(files, deployment, a.Variable, a.Value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(diffOf(e.Old, e.Files), "canary") {
			t.Errorf("the difference shows a credential:\n%s", diffOf(e.Old, e.Files))
		}
	}
	changed := diffOf(files, []File{{Path: "a.yaml", Data: []byte(strings.ReplaceAll(text, "canary", "canary-"))}})
	if strings.Contains(changed, "canary") || !strings.Contains(changed, "(redacted)") {
		t.Errorf("the difference of credentials shows one:\n%s", changed)
	}
	for _, name := range []string{
		"api-key", "hf-token", "HF_TOKEN", "token-file", "token", "API_KEYS", "AUTH_TOKENS", "OPENAI_KEY", "SIGNING_KEY", "HF_PAT", "MYSQL_PWD",
		"hfToken", "HFToken", "apiKeys", "RATE_LIMIT_TOKEN", "BUDGET_TOKEN", "DB_PASSWORDS",
	} {
		if p, err := Locate(files, deployment, Variable{Flag: name}); reason(err) != fault.Invalid || len(p) > 0 || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	for _, name := range []string{"max-num-batched-tokens", "long-prefill-token-threshold", "return-token-type-ids", "bucket-inter-token-latency", "maxNumBatchedTokens", "MAX_TOTAL_TOKENS", "MAX_BATCH_PREFILL_TOKENS", "tokenizer"} {
		if _, err := Locate(files, deployment, Variable{Flag: name}); err != nil {
			t.Errorf("no credential: %v", err)
		}
	}
}

// TestSecretInFile: a Secret in the file of a manifest is not shown, whatever its
// values look like.
func TestSecretInFile(t *testing.T) {
	text := "apiVersion: v1\nkind: Secret\nstringData:\n  motd: canary1\n---\n" + goodHead + "        args: [--max-num-seqs=128]\n---\napiVersion: v1\nkind: Secret\ndata: {motd: canary2}\n"
	e, err := setOne([]File{{Path: "a.yaml", Data: []byte(text)}}, deployment, seqs, "64")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(diffOf(e.Old, e.Files), "canary") || !strings.Contains(diffOf(e.Old, e.Files), "+        args: [--max-num-seqs=64]\n ---\n apiVersion: v1\n kind: Secret\n") {
		t.Errorf("the difference is\n%s", diffOf(e.Old, e.Files))
	}
	file := File{Path: "a.yaml", Data: []byte(strings.Replace(text, "---\napiVersion: v1\nkind: Secret\ndata", "---\ndata", 1))}
	if e, err = setOne([]File{file}, deployment, seqs, "64"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(diffOf(e.Old, e.Files), "canary2") {
		t.Errorf("of no Secret it is\n%s", diffOf(e.Old, e.Files))
	}
}

// TestSecretVariables: what is named like a credential is shown nowhere.
func TestSecretVariables(t *testing.T) {
	for _, name := range []string{"API_KEYS", "AUTH_TOKENS", "OPENAI_KEY", "SIGNING_KEY", "HF_PAT", "MYSQL_PWD", "hfToken", "RATE_LIMIT_TOKEN"} {
		for _, form := range []string{"        - name: " + name + "\n          value: canary\n", "        - {name: " + name + ", value: canary}\n", "        - name: X\n          value: \"" + name + "=canary\"\n"} {
			text := goodHead + "        args: [--max-num-seqs=128, --x=$(" + name + ")]\n        env:\n" + form
			files := []File{{Path: "a.yaml", Data: []byte(text)}}
			e, err := setOne(files, deployment, seqs, "64")
			if err != nil || strings.Contains(diffOf(e.Old, e.Files), "canary") {
				t.Errorf("%s: %v\n%s", name, err, diffOf(e.Old, e.Files))
			}
			if p, err := Locate(files, deployment, Variable{Flag: "x"}); reason(err) != fault.Invalid {
				t.Errorf("a flag whose value is $%s: %+v, %v", name, p, err)
			}
		}
	}
}

// TestLabelsComeFirst: the look before a document is parsed is for its own name.
func TestLabelsComeFirst(t *testing.T) {
	text := strings.Replace(goodHead, "metadata:\n  name: vllm\n", "metadata:\n  # x\n  labels:\n    name: engine\n  name: vllm\n", 1)
	if _, err := Locate([]File{{Path: "a.yaml", Data: []byte(text + "        args: []\n")}}, deployment, Variable{Replicas: true}); err != nil {
		t.Error(err)
	}
}

// The result of a failed calculation is no value.
func TestNoNumber(t *testing.T) {
	for _, value := range []string{"NaN", "nan", "Inf", "-inf", "+Infinity"} {
		_, err := setOne([]File{{Path: "a.yaml", Data: []byte(goodHead + "        args:\n        - --max-num-seqs=1\n")}}, deployment, seqs, value)
		if reason(err) != fault.Invalid || !strings.Contains(err.Error(), "is no number") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestUnknownComponent: a flag of another component is not taken for that of a
// workload whose name does not tell its component.
func TestUnknownComponent(t *testing.T) {
	for kind, text := range map[string]string{
		"DynamoGraphDeployment": "spec: {services: {VllmDecodeWorker: {extraPodSpec: {mainContainer: {args: ['python3 -m dynamo.vllm']}}}, VllmPrefillWorker: {extraPodSpec: {mainContainer: {args: ['python3 -m dynamo.vllm --max-num-seqs 8']}}}}}\n",
		"LLMInferenceService":   "spec: {template: {containers: [{name: main, args: [serve]}]}, prefill: {template: {containers: [{name: main, args: [serve, --max-num-seqs=8]}]}}}\n",
	} {
		files := []File{{Path: "a.yaml", Data: []byte("apiVersion: x/v1\nkind: " + kind + "\nmetadata: {name: graph, namespace: a}\n" + text)}}
		p, err := Locate(files, Target{Kind: kind, Namespace: "a", Name: "graph", Workload: "graph-vllmdecodeworker-1a2b3c4d"}, seqs)
		if reason(err) != fault.Ambiguous || !strings.Contains(err.Error(), "does not tell which of them it is") {
			t.Errorf("%s: %+v, %v", kind, p, err)
		}
	}
}

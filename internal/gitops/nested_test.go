package gitops

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// blockText writes a text as a block scalar of a key.
func blockText(t *rapid.T, indent, text string) string {
	chomp := rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, "chomp")
	pad := indent + strings.Repeat(" ", rapid.IntRange(1, 4).Draw(t, "pad"))
	comment := rapid.SampledFrom([]string{"", " # a text"}).Draw(t, "comment")
	var b strings.Builder
	b.WriteString("|" + chomp + comment + "\n")
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			b.WriteString("\n")
			continue
		}
		b.WriteString(pad + line)
	}
	return b.String()
}

// TestNestedChangesOnlyTheValue: settings in a ConfigMap and patches in a
// kustomization are texts inside of YAML; there, too, exactly the value changes.
func TestNestedChangesOnlyTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quote := drawQuote(t, "quote")
		comment := rapid.SampledFrom([]string{"", " # tuned"}).Draw(t, "note")
		var files []File
		target := deployment
		if rapid.Bool().Draw(t, "patch") {
			files, target.Path = patched(t, quote, comment), "prod"
		} else {
			files = configured(t, quote, comment)
		}
		crlf := rapid.Bool().Draw(t, "crlf")
		old, value := drawValue(t, "old"), drawValue(t, "value")
		if old == value {
			t.Skip("the same")
		}
		var before, want []File
		for _, f := range files {
			text := string(f.Data)
			if crlf {
				text = strings.ReplaceAll(text, "\n", "\r\n")
			}
			before = append(before, File{Path: f.Path, Data: []byte(strings.ReplaceAll(text, mark, old))})
			want = append(want, File{Path: f.Path, Data: []byte(strings.ReplaceAll(text, mark, value))})
		}
		e, err := setOne(before, target, seqs, value)
		if err != nil {
			t.Fatalf("%v in\n%s", err, before[0].Data)
		}
		got := with(before, e.Files)
		for i := range want {
			if string(got[i].Data) != string(want[i].Data) {
				t.Fatalf("%s is\n%q\nnot\n%q", want[i].Path, got[i].Data, want[i].Data)
			}
			if text := string(files[i].Data); strings.Contains(text, mark) {
				checkPlace(t, e.Place, text)
			}
		}
	})
}

// configured has the value in a configuration file, in a block or as JSON.
func configured(t *rapid.T, quote func(string) string, comment string) []File {
	others := rapid.SliceOfN(rapid.SampledFrom([]string{"port: 80\n", "# max-num-seqs: 7\n", "\n", "model: 'a/b'\n"}), 0, 3)
	lines := others.Filter(func(s []string) bool {
		return strings.Count(strings.Join(s, ""), "port") < 2 && strings.Count(strings.Join(s, ""), "model") < 2
	}).Draw(t, "before")
	key := rapid.SampledFrom([]string{"max-num-seqs", "max_num_seqs", `"max-num-seqs"`}).Draw(t, "key")
	text := strings.Join(lines, "") + key + ": " + quote(mark) + comment + "\nlast: x\n"
	data := "  engine.yaml: " + blockText(t, "  ", text)
	if strings.HasPrefix(text, "\n") || rapid.IntRange(0, 3).Draw(t, "json") == 0 {
		data = "  engine.yaml: \"{\\\"max-num-seqs\\\": \\\"" + mark + "\\\",\\n \\\"port\\\": 80}\"\n"
	}
	text = "kind: ConfigMap\nmetadata: {name: engine, namespace: a}\ndata:\n" + data + "  other: |\n    max-num-seqs: 5\n"
	return []File{
		{Path: "config.yaml", Data: []byte(text)},
		{Path: "deploy.yaml", Data: []byte(goodHead + "        args: [--config, /etc/e/engine.yaml]\n        volumeMounts: [{name: e, mountPath: /etc/e}]\n      volumes: [{name: e, configMap: {name: engine}}]\n")},
	}
}

// patched has the value in a patch that stands in the kustomization.
func patched(t *rapid.T, quote func(string) string, comment string) []File {
	strategic := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: vllm}\nspec:\n  template:\n    spec:\n      containers:\n      - name: vllm\n        args:\n        - " + quote("--max-num-seqs="+mark) + comment + "\n        - --port=80\n"
	operations := "- op: add\n  path: /spec/template/spec/containers/0/args/-\n  value: " + quote("--max-num-seqs="+mark) + comment + "\n"
	entry := "- patch: " + blockText(t, "  ", strategic)
	if rapid.Bool().Draw(t, "json") {
		entry = "- target: {kind: Deployment}\n  patch: " + blockText(t, "  ", operations)
	}
	return []File{
		{Path: "prod/kustomization.yaml", Data: []byte("resources: [../base]\npatches:\n" + entry + "# the end\n")},
		{Path: "base/kustomization.yaml", Data: []byte("resources: [deploy.yaml]\n")},
		{Path: "base/deploy.yaml", Data: []byte(goodHead + "        args: [--max-num-seqs=1, --model=x]\n")},
	}
}

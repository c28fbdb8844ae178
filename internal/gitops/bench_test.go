package gitops

import (
	"fmt"
	"strings"
	"testing"
)

// large is a file of 5,000 lines: a deployment, its service and its settings
// again and again.
func large() []byte {
	var b strings.Builder
	for i := 0; strings.Count(b.String(), "\n") < 5000; i++ {
		fmt.Fprintf(&b, "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: engine-%d\n  namespace: a\n  labels:\n    name: engine\nspec:\n  replicas: 2\n  template:\n    spec:\n      containers:\n      - name: vllm\n        image: vllm/vllm-openai\n        args:\n", i)
		for j := range 30 {
			fmt.Fprintf(&b, "        - --option-%d=%d # one of many\n", j, j)
		}
		fmt.Fprintf(&b, "        - --max-num-seqs=128\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-%d\ndata:\n  a: |\n    one\n    two\n", i)
	}
	return []byte(b.String())
}

func BenchmarkLocateAndSet(b *testing.B) {
	files := []File{{Path: "all.yaml", Data: large()}}
	target := Target{Kind: "Deployment", Namespace: "a", Name: "engine-50"}
	b.SetBytes(int64(len(files[0].Data)))
	for b.Loop() {
		if _, err := Locate(files, target, seqs); err != nil {
			b.Fatal(err)
		}
		if _, err := setOne(files, target, seqs, "64"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOneDocument has all 5,000 lines in the document that is edited.
func BenchmarkOneDocument(b *testing.B) {
	var text strings.Builder
	text.WriteString(goodHead + "        args:\n        - --max-num-seqs=128\n")
	for i := range 1500 {
		fmt.Fprintf(&text, "        - --option-%d=%d # one of many\n", i, i)
	}
	text.WriteString("        env:\n")
	for i := range 1743 {
		fmt.Fprintf(&text, "        - name: OPTION_%d\n          value: \"%d\" # one of many\n", i, i)
	}
	files := []File{{Path: "all.yaml", Data: []byte(text.String())}}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := setOne(files, deployment, seqs, "64"); err != nil {
			b.Fatal(err)
		}
	}
}

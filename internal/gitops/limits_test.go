package gitops

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
)

// nested returns a document whose mapping a8 holds a0 9 to the power of 8 times. how
// returns how one mapping includes others.
func nested(how func(refs []string) string) string {
	text := "a0: &a0 {x: 1}\n"
	for i := 1; i <= 12; i++ {
		var refs []string
		for range 9 {
			refs = append(refs, fmt.Sprintf("*a%d", i-1))
		}
		text += fmt.Sprintf("a%d: &a%d %s\n", i, i, how(refs))
	}
	return text
}

// TestAliasBombs: a file of a few lines that stands for millions of values takes no
// time.
func TestAliasBombs(t *testing.T) {
	keys := nested(func(refs []string) string {
		var pairs []string
		for i, r := range refs {
			pairs = append(pairs, fmt.Sprintf("k%d: %s", i, r))
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	})
	merges := nested(func(refs []string) string { return "{<<: [" + strings.Join(refs, ", ") + "]}" })
	const workload = "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 2}\n"
	diamonds := []File{{Path: "l14/d.yaml", Data: []byte(workload + "metadata: {name: vllm, namespace: a}\n")}}
	for i := range 15 {
		text := "resources: [" + strings.Repeat(fmt.Sprintf("../l%d, ", i+1), 9) + "]\n"
		if i == 14 {
			text = "resources: [d.yaml]\n"
		}
		diamonds = append(diamonds, File{Path: fmt.Sprintf("l%d/kustomization.yaml", i), Data: []byte(text)})
	}
	for name, tt := range map[string]struct {
		files []File
		want  fault.Reason
		say   string
	}{
		"merge keys": {[]File{{Path: "a.yaml", Data: []byte(merges + workload + "metadata: {name: vllm, <<: *a12}\n")}}, "", ""},
		"itself":     {[]File{{Path: "a.yaml", Data: []byte(workload + "metadata: &m {name: vllm, <<: [*m, *m, *m, *m, *m, *m, *m, *m, *m]}\n")}}, "", ""},
		"patched": {[]File{
			{Path: "a.yaml", Data: []byte(keys + workload + "metadata: {name: vllm, namespace: a}\n")},
			{Path: "p.yaml", Data: []byte(keys + workload + "metadata: {name: vllm}\n")},
			{Path: "kustomization.yaml", Data: []byte("resources: [a.yaml]\npatches: [{path: p.yaml}]\n")},
		}, fault.Invalid, ": is too large to be merged"},
		"merge keys patched": {[]File{
			{Path: "a.yaml", Data: []byte(merges + workload + "metadata: {name: vllm, namespace: a, labels: *a12}\n")},
			{Path: "p.yaml", Data: []byte(workload + "metadata: {name: vllm, labels: {y: z}}\n")},
			{Path: "kustomization.yaml", Data: []byte("resources: [a.yaml]\npatches: [{path: p.yaml}]\n")},
		}, "", ""},
		"diamonds": {diamonds, fault.OutOfBounds, "include each other and their resources more than 100000 times"},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := Locate(tt.files, deployment, Variable{Replicas: true})
			if reason(err) != tt.want || err != nil && !strings.Contains(err.Error(), tt.say) {
				t.Errorf("%v, want %s: %s", err, tt.want, tt.say)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

package gitops

import (
	"strings"
	"testing"
)

// TestPlain: the API server is asked about objects that are deployed as they are
// written, and about no others.
func TestPlain(t *testing.T) {
	const object = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: chat\nspec:\n  replicas: 2\n"
	const other = "apiVersion: v1\nkind: Service\nmetadata:\n  name: chat\n"
	target := Target{Kind: "Deployment", Namespace: "serving", Name: "chat", Path: "apps/chat"}
	changed := strings.Replace(object, "2", "3", 1)
	for name, tt := range map[string]struct {
		before, after []File
		want          string // lines and objects
		all           bool
	}{
		"one object": {
			[]File{{"apps/chat/a.yaml", []byte(object)}}, []File{{"apps/chat/a.yaml", []byte(changed)}}, "1 Deployment chat", true,
		},
		"the second document": {
			[]File{{"apps/chat/a.yaml", []byte(other + "---\n" + object)}}, []File{{"apps/chat/a.yaml", []byte(other + "---\n" + changed)}}, "5 Deployment chat", true,
		},
		"a kustomization": {
			[]File{{"apps/chat/a.yaml", []byte(object)}, {"apps/chat/kustomization.yaml", []byte("resources: [a.yaml]\nnamePrefix: x-\n")}},
			[]File{{"apps/chat/a.yaml", []byte(changed)}, {"apps/chat/kustomization.yaml", []byte("resources: [a.yaml]\nnamePrefix: x-\n")}},
			"", false,
		},
		"values of a chart": {
			[]File{{"apps/chat/Chart.yaml", []byte("name: c\n")}, {"apps/chat/values.yaml", []byte("a: 1\n")}},
			[]File{{"apps/chat/Chart.yaml", []byte("name: c\n")}, {"apps/chat/values.yaml", []byte("a: 2\n")}},
			"", false,
		},
		"values beside an object": {
			[]File{{"apps/chat/a.yaml", []byte(object)}, {"apps/chat/v.yaml", []byte("a: 1\n")}},
			[]File{{"apps/chat/a.yaml", []byte(changed)}, {"apps/chat/v.yaml", []byte("a: 2\n")}},
			"1 Deployment chat", false,
		},
		"elsewhere": {
			[]File{{"apps/other/a.yaml", []byte(object)}}, []File{{"apps/other/a.yaml", []byte(changed)}}, "", false,
		},
		"a new one": {nil, []File{{"apps/chat/a.yaml", []byte(object)}}, "1 Deployment chat", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, all := Plain(tt.before, tt.after, target)
			var names []string
			for _, m := range got {
				names = append(names, string(rune('0'+m.Line))+" "+m.Object)
				if (m.Before == nil) != (tt.before == nil) || len(m.Before) > 0 && !strings.Contains(string(m.Before), "replicas: 2") {
					t.Errorf("before it was %q", m.Before)
				}
			}
			if strings.Join(names, ", ") != tt.want || all != tt.all {
				t.Errorf("%q, all of it: %t; want %q, %t", names, all, tt.want, tt.all)
			}
		})
	}
}

// TestOverrideDecides: an override decides what it sets, and not what stands beside it.
func TestOverrideDecides(t *testing.T) {
	value := Touch{Variable: "--max-num-seqs", Path: "servingEngineSpec.modelSpec[0].vllmConfig.maxNumSeqs"}
	replicas := Touch{Variable: "replicas", Path: "spec.replicas", Kind: "Deployment", Name: "chat"}
	for _, tt := range []struct {
		o    Override
		t    Touch
		want bool
	}{
		{Override{Values: "servingEngineSpec.modelSpec[0].vllmConfig.maxNumSeqs"}, value, true},
		{Override{Values: "servingEngineSpec.modelSpec"}, value, true},
		{Override{Values: "servingEngineSpec.modelSpec[1].vllmConfig.maxNumSeqs"}, value, false},
		{Override{Values: "servingEngineSpec.modelSpec[0].vllmConfig.maxModelLen"}, value, false},
		{Override{Values: "image.tag"}, value, false},
		{Override{Values: "decode.containers[0].args[3]"}, Touch{Path: "decode.containers[vllm].args[--max-num-seqs]"}, true},
		{Override{Field: "spec.source.kustomize.patches"}, value, false},
		{Override{Replicas: "chat"}, replicas, true},
		{Override{Replicas: "other"}, replicas, false},
		{Override{Values: "spec.replicas"}, replicas, false},
	} {
		if got := tt.o.Decides(tt.t); got != tt.want {
			t.Errorf("%+v decides %s: %t, want %t", tt.o, tt.t.Path, got, tt.want)
		}
	}
}

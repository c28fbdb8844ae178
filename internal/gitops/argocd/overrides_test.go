package argocd

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestOverrides: everything that a spec sets in addition to its manifests is named, and
// no value of it: some are secrets.
func TestOverrides(t *testing.T) {
	jsonnet := &v1alpha1.ApplicationSourceDirectory{Jsonnet: v1alpha1.ApplicationSourceJsonnet{Libs: []string{"lib"}}}
	spec := v1alpha1.ApplicationSpec{
		Sources: v1alpha1.ApplicationSources{
			{Helm: &v1alpha1.ApplicationSourceHelm{
				Parameters:   []v1alpha1.HelmParameter{{Name: "maxNumSeqs", Value: "s3cret"}},
				ValuesObject: &runtime.RawExtension{Raw: []byte(`{"vllm":{"env":[{"value":"s3cret"}],"tag":"s3cret"}}`)}, Values: "ignored: true",
			}},
			{Helm: &v1alpha1.ApplicationSourceHelm{Values: "a: {b: s3cret}\n"}},
			{Helm: &v1alpha1.ApplicationSourceHelm{Values: "a: [\n"}},
			{Kustomize: &v1alpha1.ApplicationSourceKustomize{
				Replicas: v1alpha1.KustomizeReplicas{{Name: "chat"}}, Patches: v1alpha1.KustomizePatches{{Patch: "s3cret"}}, Images: v1alpha1.KustomizeImages{"a=b"},
			}},
			{Directory: jsonnet, Plugin: &v1alpha1.ApplicationSourcePlugin{Name: "cue"}},
		},
		SyncPolicy:        &v1alpha1.SyncPolicy{SyncOptions: v1alpha1.SyncOptions{"RespectIgnoreDifferences=true"}},
		IgnoreDifferences: v1alpha1.IgnoreDifferences{{Kind: "Deployment", JSONPointers: []string{"/spec/replicas"}}},
	}
	var got []string
	for _, o := range overrides(spec) {
		if strings.Contains(o.Field, "s3cret") {
			t.Errorf("%q shows a value", o.Field)
		}
		got = append(got, strings.Join([]string{o.Field, o.Values, o.Replicas}, "|"))
	}
	want := []string{
		"spec.sources[0].helm.parameters[maxNumSeqs]|maxNumSeqs|",
		"spec.sources[0].helm.valuesObject[vllm.env]|vllm.env|",
		"spec.sources[0].helm.valuesObject[vllm.tag]|vllm.tag|",
		"spec.sources[1].helm.values[a.b]|a.b|",
		"spec.sources[2].helm.values||",
		"spec.sources[3].kustomize.images||",
		"spec.sources[3].kustomize.patches||",
		"spec.sources[3].kustomize.replicas[chat]||chat",
		"spec.sources[4].plugin||",
		"spec.sources[4].directory.jsonnet||",
		"spec.ignoreDifferences[Deployment /spec/replicas]||",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not as wanted (-want +got):\n%s", diff)
	}
	spec.SyncPolicy = nil
	if all := overrides(spec); strings.Contains(all[len(all)-1].Field, "ignoreDifferences") {
		t.Error("differences that are only not shown decide nothing")
	}
	if all := overrides(v1alpha1.ApplicationSpec{Source: &v1alpha1.ApplicationSource{}}); len(all) > 0 {
		t.Errorf("a plain source has %v", all)
	}
}

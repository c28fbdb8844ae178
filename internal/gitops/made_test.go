package gitops

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
)

// TestMade: whose values go back is told by what Flux lists, or by the names that the
// charts give, and never by the labels of the target.
func TestMade(t *testing.T) {
	const release = `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: rel, namespace: serving}
spec:
  chart: {spec: {chart: CHART, sourceRef: {kind: HelmRepository, name: charts}}}
  values: VALUES
`
	const stack, llmd = `{servingEngineSpec: {modelSpec: [{name: chat}, {name: off, enabled: false}, {name: ray, raySpec: {enabled: true}}]}}`, `{decode: {replicas: 2}, prefill: {create: false}}`
	const nodes = `{servingEngineSpec: {modelSpec: [{name: chat, lwsSpec: {enabled: true}}]}}`
	for name, tt := range map[string]struct {
		values, kind, workload string
		chart                  string
		listed, refused        bool
	}{
		"a model":                            {values: stack, workload: "rel-chat-deployment-vllm"},
		"a model of another release":         {values: stack, workload: "other-chat-deployment-vllm", refused: true},
		"a longer name":                      {values: stack, workload: "a-rel-chat-deployment-vllm", refused: true},
		"the name of another kind":           {values: stack, kind: "StatefulSet", workload: "rel-chat-deployment-vllm", refused: true},
		"a model that is off":                {values: stack, workload: "rel-off-deployment-vllm", refused: true},
		"a model of Ray":                     {values: stack, workload: "rel-ray-deployment-vllm", refused: true},
		"no engine":                          {values: strings.Replace(stack, "{modelSpec", "{enableEngine: false, modelSpec", 1), workload: "rel-chat-deployment-vllm", refused: true},
		"a model of several nodes":           {values: nodes, kind: "LeaderWorkerSet", workload: "rel-chat-lws"},
		"a model of several nodes, a copy":   {values: nodes, workload: "rel-chat-deployment-vllm", refused: true},
		"the other kind's name":              {values: stack, kind: "LeaderWorkerSet", workload: "rel-chat-lws", refused: true},
		"off in another word":                {values: strings.Replace(stack, "false", "No", 1), workload: "rel-off-deployment-vllm", refused: true},
		"a part of another chart":            {values: "{stack: " + stack + "}", workload: "rel-chat-deployment-vllm", refused: true},
		"another chart":                      {chart: "media", values: stack, workload: "rel-chat-deployment-vllm", refused: true},
		"another chart, listed":              {chart: "media", values: stack, workload: "rel-chat-deployment-vllm", listed: true},
		"decode":                             {values: llmd, workload: "rel-llm-d-modelservice-decode"},
		"decode of a part of another chart":  {values: "{audio: " + llmd + "}", workload: "rel-audio-decode", refused: true},
		"decode of a chart within its name":  {values: strings.Replace(llmd, "{", "{nameOverride: re, ", 1), workload: "rel-decode"},
		"decode that is a StatefulSet":       {values: strings.Replace(llmd, "{", "{workloadKind: StatefulSet, ", 1), workload: "rel-llm-d-modelservice-decode", refused: true},
		"decode by a name of its own":        {values: strings.Replace(llmd, "{", "{fullnameOverride: chat, ", 1), workload: "chat-decode"},
		"decode of several nodes":            {values: strings.Replace(llmd, "{", "{multinode: true, ", 1), kind: "LeaderWorkerSet", workload: "rel-llm-d-modelservice-decode"},
		"decode of several nodes, a copy":    {values: strings.Replace(llmd, "{", "{multinode: true, ", 1), workload: "rel-llm-d-modelservice-decode", refused: true},
		"decode of another release":          {values: llmd, workload: "other-llm-d-modelservice-decode", refused: true},
		"prefill that is not made":           {values: llmd, workload: "rel-llm-d-modelservice-prefill", refused: true},
		"a chart that nobody knows":          {values: "{replicas: 2}", workload: "rel", refused: true},
		"a chart that nobody knows, listed":  {values: "{replicas: 2}", workload: "rel", listed: true},
		"a model of another release, listed": {values: stack, workload: "other-chat-deployment-vllm", listed: true},
	} {
		target := Target{Kind: tt.kind, Namespace: "serving", Name: tt.workload, HelmRelease: "serving/rel", Release: "rel", Listed: tt.listed}
		if target.Kind == "" {
			target.Kind = "Deployment"
		}
		if tt.chart == "" {
			tt.chart = "vllm-stack"
		}
		files := []File{{Path: "rel.yaml", Data: []byte(strings.NewReplacer("CHART", tt.chart, "VALUES", tt.values).Replace(release))}}
		err := Made(files, target)
		if (err != nil) != tt.refused || err != nil && reason(err) != fault.Owned {
			t.Errorf("%s: %v", name, err)
		}
	}
}

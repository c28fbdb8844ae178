package sandbox

import (
	"slices"
	"time"
)

// onSGLang returns a service with SGLang in place of vLLM, whose histograms have other
// bounds. TPOT is judged by the time between tokens there.
func onSGLang(s serviceSpec) serviceSpec {
	s.service.Engine, s.service.Container = "sglang", "sglang"
	s.service.SLOs = slices.Clone(s.service.SLOs)
	s.service.SLOs[0].Threshold, s.service.SLOs[1].Threshold = 0.6, 0.1
	s.revisions = slices.Clone(s.revisions)
	for i := range s.revisions {
		s.revisions[i].fields = map[string]string{
			"containers[sglang].image":                              "lmsysorg/sglang:v0.5.15-cu130",
			"containers[sglang].args[--model-path]":                 "meta-llama/Llama-3.3-70B-Instruct",
			"containers[sglang].args[--served-model-name]":          "llama-70b",
			"containers[sglang].args[--tp-size]":                    "4",
			"containers[sglang].args[--chunked-prefill-size]":       "2048",
			"containers[sglang].args[--max-running-requests]":       "24",
			"containers[sglang].args[--enable-metrics]":             "",
			"containers[sglang].resources.limits[nvidia.com/gpu]":   "4",
			"containers[sglang].resources.requests[nvidia.com/gpu]": "4",
		}
	}
	return s
}

// stuckEngine is one engine that answers its health check, runs requests and takes no
// step. Its clients try again elsewhere.
func stuckEngine() scenario {
	chat := onSGLang(chatService())
	chat.sick = []sickness{{from: -6 * time.Minute, pod: 1, stuck: true}}
	return scenario{
		Scenario: Scenario{
			Name:        "stuck-engine",
			Title:       "One engine holds requests and takes no step",
			Description: "Six minutes ago one of four engines stood still. Its health check answers, and its clients wait. Replacing the replica repairs it.",
			Cause:       "an engine stands still",
			Fix:         "kube.replace_pod",
		},
		seed: 34, age: 6 * time.Minute, engineAlerts: true,
		services: []serviceSpec{chat, codeService()},
		nodes:    gpuNodes(),
	}
}

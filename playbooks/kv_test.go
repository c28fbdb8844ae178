package playbooks

import (
	"maps"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestKVDecisions: what is found of a full KV cache leads to the runbook's lever for
// it, and what is not known leads to people.
func TestKVDecisions(t *testing.T) {
	usual := map[string]string{
		"slo":     `{"status":"breached","ending":false,"worst":"ttft","since":"2026-01-01T11:58:00Z","stuck_replicas":0}`,
		"engine":  `{"bound":"kv","replicas_short":2,"running":60.0,"ready":4}`,
		"fit":     `{"status":"over","max_num_seqs":11,"running":20.0,"gpu_memory_utilization":0.9,"max_num_seqs_at_utilization":13}`,
		"spread":  `{"scope":"all","pod":"","node":""}`,
		"gpus":    `{"verdict":"busy","throttle":"","hot_nodes":0,"unread_nodes":0,"reset":false,"rma":false}`,
		"pods":    `{"ready":4,"desired":4,"bad_nodes":0,"oom_killed":0,"restarts":0,"waiting":[]}`,
		"changes": `{"changed":false,"ours":false,"suspect":false,"age_seconds":90000}`,
		"fleet":   `{"shared_by":"","key":"","why":"nobody else breaches"}`,
	}
	inGit := playbook.Service{Engine: "vllm", GitOps: playbook.GitOps{Application: "chat"}}
	tests := []struct {
		name    string
		service playbook.Service
		changed map[string]string // empty: the check did not answer
		want    string
	}{
		{"more sequences than fit", inGit, nil, "cap-concurrency"},
		{"more sequences than fit, flags are not in Git", playbook.Service{Engine: "vllm"}, nil, "scale"},
		{"another engine", playbook.Service{Engine: "sglang", GitOps: inGit.GitOps}, nil, "scale"},
		{"they fit, and there is memory", inGit, map[string]string{"fit": `{"status":"fits","max_num_seqs":30,"running":20.0,"gpu_memory_utilization":0.9,"max_num_seqs_at_utilization":33}`}, "headroom"},
		{"they fit, and there is no more memory", inGit, map[string]string{"fit": `{"status":"fits","max_num_seqs":30,"running":20.0,"gpu_memory_utilization":0.94}`}, "scale"},
		{"what fits is not known", inGit, map[string]string{"fit": `{"status":"unknown"}`}, "scale"},
		{"one replica", inGit, map[string]string{"spread": `{"scope":"one_replica","pod":"chat-1","node":"a"}`}, "replace"},
		{"a suspect release", inGit, map[string]string{"changes": `{"changed":true,"ours":false,"suspect":true,"age_seconds":1200}`}, "rollback"},
		{"changed since the alert began", inGit, map[string]string{"changes": `{"changed":true,"ours":false,"suspect":true,"age_seconds":60}`}, "escalated"},
		{"a GPU fails", inGit, map[string]string{"gpus": `{"verdict":"failing","throttle":"","hot_nodes":0,"unread_nodes":0,"reset":true,"rma":false}`}, "gpu-fault"},
		{"a hot node", inGit, map[string]string{"gpus": `{"verdict":"throttled","throttle":"thermal","hot_nodes":1,"unread_nodes":0,"reset":false,"rma":false}`}, "thermal-emergency"},
		{"an agent does not answer", inGit, map[string]string{"gpus": `{"verdict":"unknown","throttle":"","hot_nodes":0,"unread_nodes":1,"reset":false,"rma":false}`}, "escalated"},
		{"replicas crash", inGit, map[string]string{"pods": `{"ready":3,"desired":4,"bad_nodes":0,"oom_killed":0,"restarts":9,"waiting":["CrashLoopBackOff"]}`}, "out-of-memory"},
		{"replicas load", inGit, map[string]string{"pods": `{"ready":3,"desired":4,"bad_nodes":0,"oom_killed":0,"restarts":0,"waiting":[]}`}, "loading"},
		{"the cache is not what limits it", inGit, map[string]string{"engine": `{"bound":"queue","replicas_short":2,"running":60.0,"ready":4}`}, "scale"},
		{"nothing limits the engine", inGit, map[string]string{"engine": `{"bound":"none","replicas_short":0,"running":6.0,"ready":4}`}, "escalated"},
		{"a replica stands still", inGit, map[string]string{"slo": `{"status":"breached","ending":false,"stuck_replicas":1}`}, "stuck"},
		{"killed for memory weeks ago", inGit, map[string]string{"pods": `{"ready":4,"desired":4,"bad_nodes":0,"oom_killed":1,"restarts":1,"waiting":[]}`}, "cap-concurrency"},
		{"more memory makes room for no more", inGit, map[string]string{"fit": `{"status":"fits","max_num_seqs":30,"running":20.0,"gpu_memory_utilization":0.93,"max_num_seqs_at_utilization":30}`}, "scale"},
		{"the engine says nothing", inGit, map[string]string{"engine": ""}, "escalated"},
		{"within its SLO", inGit, map[string]string{"slo": `{"status":"met","ending":false}`}, "not-confirmed"},
		{"ends by itself", inGit, map[string]string{"slo": `{"status":"breached","ending":true}`}, "easing"},
		{"others breach for the same reason", inGit, map[string]string{"fleet": `{"shared_by":"gateway","key":"gateway a","why":"all are behind a"}`}, "shared"},
		{"the cluster does not answer", inGit, map[string]string{"pods": ""}, "escalated"},
	}
	p := load(t).ByName("kv-cache-thrash")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := maps.Clone(usual)
			maps.Copy(found, test.changed)
			maps.DeleteFunc(found, func(_, data string) bool { return data == "" })
			alert := playbook.Alert{
				Status: playbook.Firing, Labels: map[string]string{"alertname": "InferencePreemptionThrash"},
				StartsAt: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
			}
			if got := walk(t, p, test.service, "triage", alert, found); got != test.want {
				t.Errorf("came to %s, want %s", got, test.want)
			}
		})
	}
}

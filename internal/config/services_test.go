package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/inference-responder/responder/internal/playbook"
)

const services = `
auth: {insecure: true}
services:
- name: chat
  namespace: serving
  workload: {kind: StatefulSet, name: inference-chat}
  container: vllm
  engine: vllm
  model: llama-70b
  endpoint: http://inference-chat.serving:8000
  slos:
    - {name: ttft, objective: 0.99, window: 28d, threshold: 0.5}
    - {name: whole, indicator: e2e, objective: 0.95, window: 7d, threshold: 30, model: llama-70b, route: chat, by: pod}
  load_time: 12m
  recovery: 1h
  gitops: {application: argocd/chat, repository: https://git.example/chat, branch: main, path: prod, object: {kind: InferenceService, name: chat}, component: decode}
  owners: [user:ada, group:ml-platform]
  autonomy: suggest
  min_ready: 2
  max_scale: 8
  match:
    - '{team="chat", alertname=~"Inference.*"}'
- namespace: serving
  workload: {name: embed}
`

func TestServices(t *testing.T) {
	c, err := Parse("responder.yaml", []byte(services))
	if err != nil {
		t.Fatal(err)
	}
	want := []playbook.Service{
		{
			Name: "chat", Namespace: "serving", Workload: playbook.Workload{Kind: "StatefulSet", Name: "inference-chat"},
			Container: "vllm", Engine: "vllm", Model: "llama-70b", Endpoint: "http://inference-chat.serving:8000",
			SLOs: []playbook.SLO{
				{Name: "ttft", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.5},
				{Name: "whole", Indicator: "e2e", Objective: 0.95, Window: 7 * 24 * time.Hour, Threshold: 30, Model: "llama-70b", Route: "chat", By: "pod"},
			},
			LoadTime: 12 * time.Minute, Recovery: time.Hour,
			GitOps: playbook.GitOps{
				Application: "argocd/chat", Repository: "https://git.example/chat", Branch: "main", Path: "prod",
				Object: playbook.Workload{Kind: "InferenceService", Name: "chat"}, Component: "decode",
			},
			Owners: []string{"user:ada", "group:ml-platform"}, Autonomy: playbook.Suggest, MinReady: 2, MaxScale: 8,
			Selector: `namespace="serving",service="inference-chat"`,
		},
		{ // what is not said is the safe thing: observe, no scaling up, judged by the defaults
			SLOs: []playbook.SLO{
				{Name: "ttft", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.5},
				{Name: "tpot", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.05},
			},
			Recovery: 30 * time.Minute,
			Name:     "serving/embed", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "embed"},
			Selector: `namespace="serving",service="embed"`,
		},
	}
	var got []playbook.Service
	for _, e := range c.CatalogEntries() {
		got = append(got, e.Service)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestServicesNamePlaceAndRemedy(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"unknown field", "- {namespace: a, workload: {name: b}, ownrs: [user:x]}", "c.yaml:3:39: services[0]: unknown field \"ownrs\" (did you mean \"owners\"? allowed: name,"},
		{"no namespace", "- {workload: {name: b}}", "c.yaml:3:3: services[0].namespace: is missing"},
		{"kind", "- {namespace: a, workload: {kind: DaemonSet, name: b}}", `c.yaml:3:35: services[0].workload.kind: unknown kind "DaemonSet" (one of Deployment, StatefulSet, Rollout)`},
		{"warm beside a Rollout", "- {namespace: a, workload: {kind: Rollout, name: b}, warm: {route: {name: r}, backend: x, workload: {name: y}}}", "services[0].warm: has no meaning for a Rollout"},
		{"kind of groups", "- {namespace: a, workload: {kind: LeaderWorkerSet, name: b}}", `c.yaml:3:35: services[0].workload.kind: unknown kind "LeaderWorkerSet" (use kind StatefulSet and the same name: it creates the leaders, and its groups are counted as the replicas)`},
		{"number as name", "- {name: 1e3, namespace: a, workload: {name: b}}", "c.yaml:3:10: services[0].name: must be a string, not the number 1e3 (put it in quotes"},
		{"negative window", "- {namespace: a, workload: {name: b}, slos: [{name: ttft, objective: 0.99, window: -5m}]}", "c.yaml:3:84: services[0].slos[0].window: not a duration"},
		{"objective", "- {namespace: a, workload: {name: b}, slos: [{name: ttft, objective: 99, window: 28d}]}", "services[0].slos[0].objective: 99 is not between 0 and 1 (0.99 means 99 %)"},
		{"credentials", "- {namespace: a, workload: {name: b}, endpoint: 'http://u:hunter2@h'}", "services[0].endpoint: holds credentials"},
		{"git credentials", "- {namespace: a, workload: {name: b}, gitops: {repository: 'https://u:hunter2@h/x'}}", "c.yaml:3:60: services[0].gitops.repository: holds credentials"},
		{"git path", "- {namespace: a, workload: {name: b}, gitops: {repository: 'https://h/x', path: ../etc}}", `services[0].gitops.path: "../etc" is not below`},
		{"half an object", "- {namespace: a, workload: {name: b}, gitops: {object: {kind: LLMInferenceService}}}", "services[0].gitops.object: needs both"},
		{"git injection", "- {namespace: a, workload: {name: b}, gitops: {branch: \"main\\nx\"}}", "services[0].gitops.branch: has white space"},
		{"selector injection", `- {namespace: a, workload: {name: b}, selector: 'x="y"} or vector(1) or up{a="b"'}`, "is not a list of label matchers"},
		{"owner", "- {namespace: a, workload: {name: b}, owners: [ada]}", "services[0].owners[0]: \"ada\" is neither user:NAME nor group:NAME (write user:ada"},
		{"match anything", "- {namespace: a, workload: {name: b}, match: ['{x=~\".*\"}']}", "services[0].match[0]: matches alerts without any label"},
		{"two of a name", "- {name: c, namespace: a, workload: {name: b}}\n- {name: c, namespace: a, workload: {name: d}}", `c.yaml:4:10: services[1].name: duplicate name "c", also at c.yaml:3`},
		{"repeated field", "- namespace: a\n  namespace: b\n  workload: {name: b}", `services[0].namespace: set twice, first on line 3`},
		{"ceiling below floor", "- {namespace: a, workload: {name: b}, min_ready: 3, max_scale: 2}", "services[0].max_scale: 2 is below min_ready 3"},
		{"no indicator", "- {namespace: a, workload: {name: b}, slos: [{name: latency, objective: 0.99, window: 28d, threshold: 1}]}", `services[0].slos[0].indicator: is missing, and "latency" is not one (one of ttft, tpot, itl`},
		{"another indicator", "- {namespace: a, workload: {name: b}, slos: [{name: x, indicator: speed, objective: 0.99, window: 28d, threshold: 1}]}", `services[0].slos[0].indicator: must be one of ttft`},
		{"no threshold", "- {namespace: a, workload: {name: b}, slos: [{name: ttft, objective: 0.99, window: 28d}]}", "services[0].slos[0].threshold: is missing"},
		{"threshold of errors", "- {namespace: a, workload: {name: b}, slos: [{name: errors, objective: 0.99, window: 28d, threshold: 1}]}", "services[0].slos[0].threshold: is of no use for errors"},
		{"label injection", "- {namespace: a, workload: {name: b}, slos: [{name: errors, objective: 0.99, window: 28d, by: 'a) or (b'}]}", "services[0].slos[0].by: "},
		{"two of an objective", "- {namespace: a, workload: {name: b}, slos: [{name: errors, objective: 0.99, window: 28d}, {name: errors, objective: 0.9, window: 28d}]}", `services[0].slos[1].name: duplicate name "errors"`},
		{"long load", "- {namespace: a, workload: {name: b}, load_time: 48h}", "services[0].load_time: 48h0m0s is not between 0 and 24h"},
		{"alias", "- &a {namespace: a, workload: {name: b}}\n- *a", "c.yaml:3:3: anchors are not allowed"},
		{"two of a workload", "- {name: c, namespace: a, workload: {name: b}}\n- {name: d, namespace: a, workload: {name: b}}", "c.yaml:4:27: services[1].workload: duplicate workload, also at c.yaml:3"},
		{"match nothing", "- {namespace: a, workload: {name: b}, match: {}}", "services[0].match: is empty"},
		{"match without a value", "- {namespace: a, workload: {name: b}, match: {team: ''}}", "services[0].match.team: is not a label with a value"},
		{"not a list", "  namespace: a", "services: must be a list, not a mapping"},
		{"alias", "- {namespace: a, workload: *b}", "unknown anchor"},
		{"text as number", "- {namespace: a, workload: {name: b}, min_ready: two}", `c.yaml:3:50: services[0].min_ready: must be a whole number, not "two"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("c.yaml", []byte("auth: {insecure: true}\nservices:\n"+tt.doc))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error = %v\nwant it to contain %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("the error repeats a password")
			}
		})
	}
}

// What a file has wrong is reported at once: what cannot be read, and what the rest
// gets wrong. What may only follow from the first is left out.
func TestProblemsOfTwoKindsAreReportedAtOnce(t *testing.T) {
	_, err := Parse("c.yaml", []byte(`auth: {tokens: [{name: ada, file: t, scopes: [root]}]}
listen: nowhere
lsiten: ":80"
receiver: {max_body: lots}
services:
- {namespace: a, workload: {nam: b}, max_scale: -1}
- {namespace: a, workload: {name: c}, engine: triton}
`))
	want := `c.yaml:1:47: auth.tokens[0].scopes[0]: must be one of intake, metrics, read, admin, sessions, approve, cancel, pause, unpause, resolve, release, promote, start, not "root"
c.yaml:2:9: listen: "nowhere" is not an address (write it like 127.0.0.1:8080 or :8080)
c.yaml:3:1: unknown field "lsiten" (did you mean "listen"?
c.yaml:4:22: receiver.max_body: "lots": not a size: write 16MiB, 512KiB, 1GiB or a number of bytes
c.yaml:6:29: services[0].workload: unknown field "nam" (did you mean "name"? allowed: kind, name)
c.yaml:6:49: services[0].max_scale: is negative (0 (no lever may scale up) or more replicas)
c.yaml:7:47: services[1].engine: unknown engine "triton" (one of vllm, sglang, dynamo, kserve)`
	var got []string
	for line := range strings.Lines(fmt.Sprint(err)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " allowed: listen")
		got = append(got, line)
	}
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestServiceDefaults: the operator's objectives hold where a service declares none.
func TestServiceDefaults(t *testing.T) {
	c, err := Parse("c.yaml", []byte(`auth: {insecure: true}
slo:
  defaults:
    - {name: first, indicator: ttft, objective: 0.999, window: 7d, threshold: 2.5}
loans: {recovery: 10m}
services:
- {namespace: a, workload: {name: b}, engine: sglang}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := c.CatalogEntries()[0].Service
	want := []playbook.SLO{{Name: "first", Indicator: "ttft", Objective: 0.999, Window: 7 * 24 * time.Hour, Threshold: 2}} // SGLang has buckets at 2 s and 4 s
	if diff := cmp.Diff(want, got.SLOs); diff != "" || got.Recovery != 10*time.Minute {
		t.Errorf("recovery %v, objectives (-want +got):\n%s", got.Recovery, diff)
	}
	for doc, want := range map[string]string{
		"slo: {defaults: []}":             "slo.defaults: is empty",
		"slo: {defaults: [{name: ttft}]}": "slo.defaults[0].objective: 0 is not between 0 and 1",
		"loans: {recovery: 1s}":           "loans.recovery: 1s is not between 1m and 24h",
	} {
		if _, err := Parse("c.yaml", []byte("auth: {insecure: true}\n"+doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
}

// FuzzParse: no input makes the parser panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(services))
	f.Add([]byte("auth: {insecure: true}\nservices: [{namespace: a, workload: {name: b}}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := Parse("c.yaml", data); err == nil && len(c.CatalogEntries()) != len(c.Services) {
			t.Error("a service was lost")
		}
	})
}

package playbooks

import (
	"maps"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// found is evidence by its name; an empty one is of a check that did not answer.
type found map[string]string

// decide checks to which state the first one of a playbook leads, with the usual
// evidence but for what a test changes.
func decide(t *testing.T, name, alertname string, usual found, tests map[string]struct {
	changed found
	want    string
},
) {
	t.Helper()
	p := load(t).ByName(name)
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			all := maps.Clone(usual)
			maps.Copy(all, test.changed)
			maps.DeleteFunc(all, func(_, data string) bool { return data == "" })
			alert := playbook.Alert{
				Status: playbook.Firing, Labels: map[string]string{"alertname": alertname},
				StartsAt: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
			}
			if got := walk(t, p, playbook.Service{}, "triage", alert, all); got != test.want {
				t.Errorf("came to %s, want %s", got, test.want)
			}
		})
	}
}

const (
	gpusWell   = `{"verdict":"busy","throttle":"","hot_nodes":0,"unread_nodes":0,"reset":false,"rma":false}`
	gpusFail   = `{"verdict":"failing","throttle":"","hot_nodes":0,"unread_nodes":0,"reset":true,"rma":false}`
	released   = `{"changed":true,"ours":false,"suspect":true,"age_seconds":1200}`
	beingMade  = `{"changed":true,"ours":false,"suspect":true,"age_seconds":60}`
	noRelease  = `{"changed":false,"ours":false,"suspect":false,"age_seconds":90000}`
	nobodyElse = `{"shared_by":"","key":"","why":"nobody else breaches"}`
)

// TestStuckDecisions: one stuck replica is replaced, several are for people.
func TestStuckDecisions(t *testing.T) {
	usual := found{
		"progress": `{"why":"1 of 4 is stuck","stuck_replicas":1,"unknown_replicas":0,"pod":"chat-1"}`,
		"slo":      `{"status":"breached"}`,
		"gpus":     gpusWell,
		"pods":     `{"ready":4,"desired":4,"bad_nodes":0}`,
		"changes":  noRelease,
		"fleet":    nobodyElse,
	}
	decide(t, "stuck-engine", "InferenceStalled", usual, map[string]struct {
		changed found
		want    string
	}{
		"one of four":                   {nil, "replace"},
		"the only one":                  {found{"pods": `{"ready":1,"desired":1,"bad_nodes":0}`}, "several"},
		"two of four":                   {found{"progress": `{"why":"2","stuck_replicas":2,"unknown_replicas":0,"pod":""}`}, "several"},
		"since a release":               {found{"changes": released}, "rollback"},
		"somebody is at it":             {found{"changes": beingMade}, "escalated"},
		"a GPU fails":                   {found{"gpus": gpusFail}, "gpu-fault"},
		"an agent does not answer":      {found{"gpus": `{"verdict":"unknown","throttle":"","hot_nodes":0,"unread_nodes":1}`}, "escalated"},
		"none any more":                 {found{"progress": `{"why":"","stuck_replicas":0,"unknown_replicas":0,"pod":""}`, "slo": `{"status":"met"}`}, "not-confirmed"},
		"none, and it breaches":         {found{"progress": `{"why":"","stuck_replicas":0,"unknown_replicas":0,"pod":""}`}, "inference-slo-breach"},
		"one is not known":              {found{"progress": `{"why":"","stuck_replicas":0,"unknown_replicas":1,"pod":""}`}, "again"},
		"it is not known which are":     {found{"progress": `{"why":"","stuck_replicas":1,"unknown_replicas":-1,"pod":"chat-1"}`}, "escalated"},
		"the engine says nothing":       {found{"progress": ""}, "escalated"},
		"the cluster does not answer":   {found{"pods": ""}, "escalated"},
		"others suffer for that reason": {found{"fleet": `{"shared_by":"node","key":"node a","why":"node a"}`}, "shared"},
	})
}

// TestColdStartDecisions: replicas that load are waited for, those that cannot start
// are not.
func TestColdStartDecisions(t *testing.T) {
	usual := found{
		"pods":    `{"ready":2,"desired":4,"unschedulable":0,"waiting":["ContainerCreating"],"bad_nodes":0,"nodes":[{"name":"a"}]}`,
		"gpus":    gpusWell,
		"changes": noRelease,
		"fleet":   nobodyElse,
	}
	const noImage = `{"ready":2,"desired":4,"unschedulable":0,"waiting":["ImagePullBackOff"],"bad_nodes":0,"nodes":[{"name":"a"}]}`
	decide(t, "cold-start", "InferenceColdStart", usual, map[string]struct {
		changed found
		want    string
	}{
		"they load":                   {nil, "say"},
		"they load since a release":   {found{"changes": released}, "say"},
		"they do not become ready":    {found{"loading": `{"ready":2,"desired":4}`}, "escalated"},
		"all are ready":               {found{"pods": `{"ready":4,"desired":4,"unschedulable":0,"waiting":[],"bad_nodes":0,"nodes":[{"name":"a"}]}`}, "not-confirmed"},
		"no image":                    {found{"pods": noImage}, "stays-out"},
		"no image since a release":    {found{"pods": noImage, "changes": released}, "rollback"},
		"no image, being changed":     {found{"pods": noImage, "changes": beingMade}, "escalated"},
		"no node":                     {found{"pods": `{"ready":2,"desired":4,"unschedulable":2,"waiting":[],"bad_nodes":0,"nodes":[{"name":"a"}]}`}, "stays-out"},
		"a GPU fails":                 {found{"gpus": gpusFail}, "gpu-fault"},
		"the cluster does not answer": {found{"pods": ""}, "escalated"},
		"one registry":                {found{"fleet": `{"shared_by":"model","key":"model r","why":"all pull from r"}`}, "shared"},
	})
}

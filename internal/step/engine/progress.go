package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// ProgressKind declares engine.progress.
func ProgressKind() playbook.Kind {
	return playbook.Kind{
		Name: "engine.progress",
		Role: playbook.RoleCheck,
		Doc: `Reports for each replica whether it makes progress. A replica is ` + "`stuck`" + ` when it has kept requests running for two minutes while its counters of steps
and tokens stand still, ` + "`saturated`" + ` when its queue, its batch or its KV cache limits it, as ` + "`engine.snapshot`" + ` has it, ` + "`idle`" + ` when it has no requests, and
` + "`serving`" + ` otherwise. It is ` + "`unknown`" + ` without a sample of the last two minutes, without two samples of a counter of steps in them, and while it has taken
no step for less than two minutes. Neither its readiness nor /health counts: a stuck engine answers both. A ready pod
without series is unknown too, where series have the label pod; stale series of a pod that is gone do not count.`,
		With: step.Fields[progressWith](),
		Out:  step.Fields[progressOut](),
	}
}

type progressWith struct {
	Window step.Duration `json:"window" default:"2m" doc:"Over which steps are counted. It must hold two scrapes."`
}

type progressOut struct {
	Why       string        `json:"why" doc:"How many replicas there are of each state, and which ones are stuck."`
	Stuck     int           `json:"stuck_replicas" unit:"replicas" doc:"Replicas that run requests and take no step."`
	Saturated int           `json:"saturated_replicas" unit:"replicas" doc:"Replicas that take steps, and are limited by their queue, batch or KV cache."`
	Serving   int           `json:"serving_replicas" unit:"replicas" doc:"Replicas that take steps and have room."`
	Idle      int           `json:"idle_replicas" unit:"replicas" doc:"Replicas without requests."`
	Unknown   int           `json:"unknown_replicas" unit:"replicas" doc:"Replicas of which it cannot be told; -1: it is not known which replicas there are."`
	Pod       string        `json:"pod" doc:"The stuck replica, if it is one; empty otherwise."`
	Replicas  []progressing `json:"replicas" doc:"What each replica does, at most 20: stuck ones first, then those of which it cannot be told."`
}

type progressing struct {
	Name    string   `json:"name" doc:"Pod, else instance."`
	State   string   `json:"state" enum:"stuck,saturated,serving,idle,unknown" doc:"What it does."`
	Why     string   `json:"why" doc:"Why it is unknown; empty otherwise."`
	Running *float64 `json:"running,omitempty" unit:"requests" doc:"Requests that it computes."`
	Waiting *float64 `json:"waiting,omitempty" unit:"requests" doc:"Requests in its queue."`
	Steps   *float64 `json:"steps,omitempty" doc:"Steps or tokens that its counter grew by within the window."`
}

// Values of progressing.State.
const (
	isStuck     = "stuck"
	isSaturated = "saturated"
	isServing   = "serving"
	isIdle      = "idle"
	isUnknown   = "unknown"
)

type progress struct {
	q step.Querier
	w step.Workloads
}

// NewProgress returns the check engine.progress.
func NewProgress(d step.Deps) step.Check { return progress{d.Querier, d.Workloads} }

// Run implements [step.Check].
func (c progress) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[progressWith](ProgressKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	ask, err := asked(c.q, ProgressKind().Name, in)
	if err != nil {
		return step.Finding{}, err
	}
	q, window := step.Patient(c.q), time.Duration(with.Window)
	view, err := slo.Views(ctx, q, ask.Service, ask.Progress, in.Now, window)
	if err != nil {
		return step.Finding{}, err
	}
	copies, lacks := view.Copies, []string(nil)
	switch {
	case view.Why != "":
		lacks = append(lacks, view.Why)
	case math.IsNaN(copies):
		copies, lacks = 1, append(lacks, "some replicas are scraped more often than others: their requests and steps are counted as often")
	}
	shown, none, err := slo.Replicas(ctx, q, ask.Service, ask.Progress, in.Now, window, copies)
	if err != nil {
		return step.Finding{}, err
	}
	still, err := slo.StandStill(ctx, q, ask.Service, ask.Progress, in.Now)
	if err != nil {
		return step.Finding{}, err
	}
	if still.Note != "" {
		lacks = append(lacks, still.Note)
	}
	var dark []progressing
	if c.w != nil && none == "" {
		w, err := c.w.Workload(ctx, step.RefOf(in.Service))
		if err != nil {
			lacks = append(lacks, "which pods there are is not known: "+err.Error())
		}
		var note string
		if shown, dark, note = match(shown, w.Pods); note != "" {
			lacks = append(lacks, note)
		}
	}
	all := append(states(shown, still, window), dark...)
	out, facts := tally(all, none)
	return step.Finding{Out: out, Facts: slices.Concat([]string{out.Why}, facts, lacks)}, nil
}

// match leaves out what is stale of pods that are gone, and returns the ready pods
// without series. note says why those are not known; empty: they are.
func match(shown []slo.Shown, pods []kube.Pod) (kept []slo.Shown, dark []progressing, note string) {
	there, seen := map[string]bool{}, map[string]bool{}
	named, unnamed := false, false
	for _, r := range shown {
		seen[r.Name], unnamed = true, unnamed || !r.IsPod
	}
	for _, p := range pods {
		there[p.Name] = true
		named = named || seen[p.Name]
	}
	switch {
	case len(pods) == 0:
		return shown, nil, ""
	case len(shown) > 0 && !named:
		return shown, nil, "no series has the name of a pod in its label pod: pods without series are not seen"
	}
	for _, r := range shown {
		if r.Fresh() || there[r.Name] || !r.IsPod {
			kept = append(kept, r)
		}
	}
	if unnamed {
		return kept, nil, "series without the label pod: which pods have no series is not known"
	}
	for _, p := range pods {
		if p.Ready && !seen[p.Name] {
			dark = append(dark, progressing{Name: p.Name, State: isUnknown, Why: "it is ready, and none of its series exists"})
		}
	}
	return kept, dark, ""
}

// states returns the state of every replica.
func states(shown []slo.Shown, still slo.Still, window time.Duration) []progressing {
	var out []progressing
	for _, r := range shown {
		p := progressing{Name: r.Name}
		p.State, p.Why = stateOf(r, still, window)
		if r.Fresh() {
			p.Running, p.Waiting, p.Steps = known(r.Running), known(r.Waiting), known(r.Steps)
		}
		out = append(out, p)
	}
	return out
}

// stateOf returns the state of one replica, and why it is unknown. Its steps are those
// of the window.
func stateOf(r slo.Shown, still slo.Still, window time.Duration) (state, why string) {
	stuck := slices.ContainsFunc(still.Stuck, func(s slo.Replica) bool { return s.Name == r.Name })
	switch limit := boundOf(r); {
	case !r.Fresh():
		return isUnknown, fmt.Sprintf("its newest sample is %s old", r.Age.Round(time.Second))
	case stuck:
		return isStuck, ""
	case math.IsNaN(r.Running) || math.IsNaN(r.Waiting):
		return isUnknown, "its gauges of requests are missing or no numbers"
	case r.Running == 0 && r.Waiting == 0:
		return isIdle, ""
	case math.IsNaN(r.Steps):
		return isUnknown, "its counter of steps is missing, or has fewer than two samples in the window"
	case r.Running == 0:
		return isUnknown, "requests wait and none is computed"
	case !still.Told[r.Name]:
		return isUnknown, "whether it stands still is not known: " + cmp.Or(still.Note, "its counter of steps has fewer than two samples within two minutes")
	case !(r.Steps > 0) && window < slo.StuckAfter:
		return isUnknown, fmt.Sprintf("it took no step for %s, a stuck replica takes none for two minutes", window)
	case !(r.Steps > 0):
		return isUnknown, "it takes no step, but has not run requests for two minutes"
	case limit != boundNone:
		return isSaturated, ""
	}
	return isServing, ""
}

// tally counts the states, and returns lines for people. none says why it is not known
// which replicas there are; empty: it is, if there are any.
func tally(all []progressing, none string) (out progressOut, facts []string) {
	rank := []string{isStuck, isUnknown, isSaturated, isServing, isIdle}
	slices.SortStableFunc(all, func(a, b progressing) int {
		return cmp.Or(cmp.Compare(slices.Index(rank, a.State), slices.Index(rank, b.State)), -cmp.Compare(value(a.Waiting), value(b.Waiting)), strings.Compare(a.Name, b.Name))
	})
	count := map[string]int{}
	var names, doubts []string
	for _, r := range all {
		count[r.State]++
		switch r.State {
		case isStuck:
			names = append(names, fmt.Sprintf("%s (%.0f in flight)", r.Name, value(r.Running)+max(0, value(r.Waiting))))
			out.Pod = r.Name
		case isUnknown:
			doubts = append(doubts, r.Name+": "+r.Why)
		}
	}
	if len(names) > 1 {
		out.Pod = ""
	}
	out.Stuck, out.Saturated, out.Serving, out.Idle, out.Unknown = count[isStuck], count[isSaturated], count[isServing], count[isIdle], count[isUnknown]
	out.Replicas = append([]progressing{}, all[:min(len(all), maxReplicas)]...)
	if len(all) == 0 {
		out.Unknown = -1
		out.Why = "it is not known which replicas there are: " + cmp.Or(none, "none of their series exists")
		return out, nil
	}
	var words []string
	for _, state := range rank {
		if count[state] > 0 {
			words = append(words, fmt.Sprintf("%d %s", count[state], state))
		}
	}
	out.Why = fmt.Sprintf("of %d replicas %s", len(all), strings.Join(words, ", "))
	if len(names) > 0 {
		facts = append(facts, "runs requests and takes no step: "+step.FirstOf(names, 5, ", "))
	}
	if len(doubts) > 0 {
		facts = append(facts, "not known: "+step.FirstOf(doubts, 5, "; "))
	}
	return out, facts
}

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// EventsKind declares kube.events.
func EventsKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.events",
		Role: playbook.RoleCheck,
		Doc: `Reads the events of the service's workload, its ReplicaSets and pods, those that are gone included, and of the nodes that its pods run on: warnings and
normal ones, as of scaling, scheduling, pulled images and killed containers. Kubernetes forgets events after an hour, unless it is set up otherwise. Credentials in
messages are redacted. At most 20,000 events of the namespace are read, 500 per request, and
those of at most ten nodes.`,
		With: step.Fields[eventsWith](),
		Out:  step.Fields[eventsOut](),
	}
}

const maxEventsOut = 50

type eventsWith struct {
	Window step.Duration `json:"window" default:"1h" doc:"How long ago an event counts."`
}

type eventsOut struct {
	Warnings int          `json:"warnings" doc:"Warnings, repetitions not counted."`
	Reasons  []string     `json:"reasons" doc:"Reasons of the warnings, each once: BackOff, FailedScheduling, NodeNotReady, ..."`
	Events   []happenedAt `json:"events" doc:"Warnings first, then the others, each newest first; at most 50."`
	Missing  string       `json:"missing" doc:"What was not read; empty: nothing."`
}

type happenedAt struct {
	Reason  string  `json:"reason" doc:"Reason, e.g. Killing."`
	Object  string  `json:"object" doc:"Kind/name that it is about."`
	Message string  `json:"message" doc:"Message."`
	Warning bool    `json:"warning" doc:"It is a warning."`
	Count   int     `json:"count" doc:"How often."`
	Age     float64 `json:"age_seconds" unit:"seconds" doc:"Since it happened last."`
}

type kubeEvents struct{ e step.Events }

// NewEvents returns the check kube.events.
func NewEvents(d step.Deps) step.Check { return kubeEvents{d.Events} }

// Run implements [step.Check].
func (c kubeEvents) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[eventsWith](EventsKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if c.e == nil {
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	window := time.Duration(with.Window)
	all, missing, err := c.e.Events(ctx, step.RefOf(in.Service), in.Now.Add(-window))
	if err != nil {
		return step.Finding{}, err
	}
	slices.SortStableFunc(all, func(a, b kube.EventCount) int {
		switch {
		case a.Normal == b.Normal:
			return 0
		case a.Normal:
			return 1
		}
		return -1
	})
	out := eventsOut{Reasons: []string{}, Events: []happenedAt{}, Missing: strings.Join(missing, "; ")}
	var warnings []eventOut
	for i, e := range all {
		if !e.Normal {
			out.Warnings++
			warnings = append(warnings, eventOut{e.Reason, e.Object, e.Message, e.Count})
			if !slices.Contains(out.Reasons, e.Reason) {
				out.Reasons = append(out.Reasons, e.Reason)
			}
		}
		if i < maxEventsOut {
			out.Events = append(out.Events, happenedAt{e.Reason, e.Object, e.Message, !e.Normal, e.Count, max(in.Now.Sub(e.Last).Seconds(), 0)})
		}
	}
	facts := eventFacts(warnings, nil)
	if len(facts) == 0 {
		facts = append(facts, fmt.Sprintf("no warnings within %s, %d other events", step.DurationText(window), len(all)))
	}
	if out.Missing != "" {
		facts = append(facts, "not read: "+out.Missing)
	}
	return step.Finding{Out: out, Facts: facts}, nil
}

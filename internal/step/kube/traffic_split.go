package kube

import (
	"context"
	"fmt"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// SplitKind declares traffic.split.
func SplitKind() playbook.Kind {
	return playbook.Kind{
		Name: split,
		Role: playbook.RoleCheck,
		Doc: `Looks at the warm revision of the service (` + "`warm`" + ` in its entry of the catalog): does it serve, does it run another release, how many of the
requests does it get, and how many would its ready replicas take? A service without one has ` + "`ready: false`" + `.`,
		With: step.Fields[splitWith](),
		Out:  step.Fields[splitOut](),
	}
}

const split = "traffic.split"

type splitWith struct {
	Left     string `json:"left" doc:"Hash of the release that the requests left, as a loan has it: for stays."`
	Replicas int    `json:"replicas" min:"0" unit:"replicas" doc:"Replicas of the service when they left it: for stays."`
}

type splitOut struct {
	Ready    bool   `json:"ready" doc:"There is a warm revision, and traffic.shift would move more requests to it."`
	Percent  int    `json:"percent" unit:"percent" doc:"Of the requests that the warm revision gets now."`
	Most     int    `json:"most" unit:"percent" doc:"Of the requests that its ready replicas take: each as many as a replica of the service, or what warm.percent_per_replica says."`
	Replicas int    `json:"replicas" unit:"replicas" doc:"Ready replicas of the warm revision."`
	Stays    string `json:"stays" doc:"Why no requests may go back to the service now; empty: some may, or none left."`
	Why      string `json:"why" doc:"In a sentence."`
}

type trafficSplit struct{ trafficShift }

// NewSplit returns the check traffic.split.
func NewSplit(d step.Deps) step.Check { return trafficSplit{newShift(d)} }

// Run implements [step.Check].
func (c trafficSplit) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[splitWith](SplitKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if in.Service.Warm == (playbook.Warm{}) {
		out := splitOut{Why: "no warm revision is kept (warm in the service's entry of the catalog)"}
		return step.Finding{Out: out, Facts: []string{out.Why}}, nil
	}
	if c.w == nil || c.r == nil {
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	s, err := warmOf(ctx, split, c.w, c.r, in.Service)
	if err != nil {
		return step.Finding{}, err
	}
	out := splitOut{Percent: s.percent, Most: s.most, Replicas: s.warm.Ready, Why: s.unfit()}
	if s.percent > 0 {
		_, _, out.Stays = s.home(0, with.Left, with.Replicas)
	}
	if out.Why == "" && s.percent >= s.most {
		out.Why = fmt.Sprintf("%s gets %d %% of the requests, and its ready replicas take %d %%", step.RefText(s.warm.Ref), s.percent, s.most)
	}
	if out.Why == "" {
		if out.Why, err = c.unmovable(ctx, in, s); err != nil {
			return step.Finding{}, err
		}
	}
	if out.Ready = out.Why == ""; out.Ready {
		out.Why = fmt.Sprintf("%s is warm: it gets %d %% of the requests, and its %d ready replicas take %d %%", step.RefText(s.warm.Ref), s.percent, s.warm.Ready, s.most)
	}
	facts := []string{out.Why}
	if with != (splitWith{}) && out.Stays != "" {
		facts = append(facts, "no requests go back: "+out.Stays)
	}
	return step.Finding{Out: out, Facts: facts}, nil
}

// unmovable returns why traffic.shift would be refused; empty: it would not.
func (c trafficSplit) unmovable(ctx context.Context, in step.Input, s sides) (string, error) {
	err := c.notOwned(ctx, s.route)
	if err == nil {
		_, err = c.moves(ctx, in, s)
	}
	for _, r := range []fault.Reason{fault.Owned, fault.NothingToDo, fault.OutOfBounds} {
		if step.HasReason(err, r) {
			return step.AsError(err).Message, nil
		}
	}
	return "", err
}

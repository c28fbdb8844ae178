package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ShiftKind declares traffic.shift.
func ShiftKind() playbook.Kind {
	return playbook.Kind{
		Name: shift,
		Role: playbook.RoleLever, Class: playbook.ClassTraffic,
		Doc: `Moves requests to the warm revision of the service (` + "`warm`" + ` in its entry of the catalog), at once, while a rollback would load models first: it sets the
weights of an HTTPRoute's backends, or canaryTrafficPercent of KServe's InferenceService. The service's other backends keep their proportions. Undo sets the
former weights. Requests in flight stay where they are.

Never more than the warm revision's ready replicas take: each as many as a replica of the service has, or what ` + "`warm.most`" + ` says. Refused if the warm
revision does not serve, rolls out, or runs the same release while the service serves; if the route's gateway does not accept it; if the service's series do not show the warm
revision's pods, because the proof would look at what is left; and where Argo CD or Flux would set the weights back. An application of Argo CD that ignores
them (spec.ignoreDifferences with RespectIgnoreDifferences=true) leaves them alone.`,
		OneOf: [][]string{{"percent", "by"}},
		Steps: &playbook.Stepping{Param: "by", Relative: true},
		// Applied on the planned generation only: a second time is a conflict.
		Idempotent: true,
		With:       step.Fields[shiftWith](),
	}
}

const shift = "traffic.shift"

type shiftWith struct {
	Percent *int   `json:"percent" min:"0" max:"100" unit:"percent" doc:"Of the requests that the warm revision is to get. Exactly one of percent and by."`
	By      *int   `json:"by" min:"1" max:"100" unit:"percent" doc:"Of the requests to move to it beside those that it gets; stops at what it takes."`
	Back    bool   `json:"back" doc:"Only takes requests from the warm revision: if it gets that few already, there is nothing to do. A loan is returned so."`
	Left    string `json:"left" doc:"Revision that the requests left: as long as the service runs it, none go back to it."`
}

type trafficShift struct {
	w    step.Workloads
	r    step.Routes
	q    step.Querier
	apps step.Applications
}

// NewShift returns the lever traffic.shift.
func NewShift(d step.Deps) step.Lever { return newShift(d) }

func newShift(d step.Deps) trafficShift {
	return trafficShift{d.Workloads, d.Routes, d.Querier, d.Applications}
}

// shiftPayload is the payload of a plan of traffic.shift.
type shiftPayload struct {
	From []kube.RouteRule `json:"from"`
	To   []kube.RouteRule `json:"to"`
}

// Plan implements [step.Lever].
func (l trafficShift) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[shiftWith](ShiftKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if l.w == nil || l.r == nil {
		return machine.Plan{}, step.NotConfigured("cluster", "kubernetes")
	}
	s, err := warmOf(ctx, shift, l.w, l.r, in.Service)
	if err != nil {
		return machine.Plan{}, err
	}
	if err := l.notOwned(ctx, s.route); err != nil {
		return machine.Plan{}, err
	}
	to, note, err := s.target(with)
	if err != nil {
		return machine.Plan{}, err
	}
	if to < s.percent {
		err = s.returns(with.Left)
	} else {
		err = l.moves(ctx, in, s)
	}
	if err != nil {
		return machine.Plan{}, err
	}
	rules, err := s.weighed(shift, to)
	if err != nil {
		return machine.Plan{}, err
	}
	_, err = l.r.SetRoute(ctx, kube.RouteChange{
		Ref: s.route.Ref, Rules: rules, DryRun: true, Run: in.Run, Key: in.Key, Pre: kube.Precondition{UID: s.route.UID, Generation: s.route.Generation},
	})
	lacks, err := step.LackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	plan := s.plan(in, to, rules)
	plan.Lacks = lacks
	if note != "" {
		plan.Notes = append([]string{note}, plan.Notes...)
	}
	return plan, nil
}

// notOwned refuses a route whose weights somebody would set back.
func (l trafficShift) notOwned(ctx context.Context, r kube.Route) error {
	field := "weight"
	if r.Ref.Kind == kube.InferenceService {
		field = "canaryTrafficPercent"
	}
	for _, o := range r.Owners {
		refused := &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s: %s belongs to %s (%s), which would change it back", shift, step.RefText(r.Ref), step.OwnerName(o), o.Why)}
		if o.Kind != "ArgoCD" {
			return refused
		}
		group, _, _ := strings.Cut(r.APIVersion, "/")
		refused.Message += fmt.Sprintf("; let the application leave %s of %s %s alone: spec.ignoreDifferences by group, kind and the path of the field, and the sync option RespectIgnoreDifferences=true", field, group, r.Ref.Kind)
		if l.apps == nil {
			return refused
		}
		app, err := l.apps.Application(ctx, o.Name)
		if err != nil {
			return err
		}
		if !app.Ignores(group, r.Ref.Kind, r.Ref.Namespace, r.Ref.Name, field) {
			return refused
		}
	}
	return nil
}

// target returns the percent to set. A relative change stops at what the warm revision
// takes; an absolute one beyond that is refused.
func (s *sides) target(with shiftWith) (to int, note string, err error) {
	refuse := func(r fault.Reason, format string, args ...any) (int, string, error) {
		return 0, "", &fault.Error{Reason: r, Message: shift + ": " + fmt.Sprintf(format, args...)}
	}
	if with.By != nil {
		to = min(100, s.percent+*with.By)
	} else {
		to = *with.Percent
	}
	switch why := s.unfit(); {
	case to == s.percent || with.Back && to > s.percent:
		return refuse(fault.NothingToDo, "the warm revision gets %d %% of the requests already", s.percent)
	case to < s.percent:
		return to, "", nil
	case why != "":
		return refuse(fault.OutOfBounds, "%s", why)
	case s.percent >= s.most:
		return refuse(fault.OutOfBounds, "the warm revision gets %d %% of the requests, and its %d ready replicas take %d %%: add replicas to it first", s.percent, s.warm.Ready, s.most)
	case to > s.most && with.By == nil:
		return refuse(fault.OutOfBounds, "%d %% of the requests are more than the %d %% that the warm revision's %d ready replicas take", to, s.most, s.warm.Ready)
	case to > s.most:
		return s.most, fmt.Sprintf("stops at %d %%, what the warm revision's ready replicas take, instead of %d %%", s.most, to), nil
	}
	return to, "", nil
}

// returns refuses the way back to what the requests left.
func (s *sides) returns(left string) error {
	refuse := func(format string, args ...any) error {
		return &fault.Error{Reason: fault.OutOfBounds, Message: shift + ": " + fmt.Sprintf(format, args...)}
	}
	switch {
	case left != "" && left == s.revision():
		return refuse("the service still runs revision %s, which the requests left: take it back or replace it first", left)
	case s.main.Ready < s.main.Replicas || s.main.RollingOut():
		return refuse("%d of %d replicas of %s are ready: requests go back to it when all are", s.main.Ready, s.main.Replicas, step.RefText(s.main.Ref))
	}
	return nil
}

// moves refuses what would not help the service: the same release, or a proof that does
// not see the requests that were moved.
func (l trafficShift) moves(ctx context.Context, in step.Input, s sides) error {
	same, err := sameRelease(ctx, l.w, s.main.Ref, s.warm.Ref)
	if err != nil {
		return err
	}
	if same && s.main.Ready > 0 {
		return &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s runs the same release as %s: requests would meet the same there", shift, step.RefText(s.warm.Ref), step.RefText(s.main.Ref))}
	}
	return l.seen(ctx, in, s)
}

// seen refuses a change whose proof would not see the warm revision: its pods have no
// series with the service's selector, while the service's own have.
func (l trafficShift) seen(ctx context.Context, in step.Input, s sides) error {
	if l.q == nil {
		return nil // nor is there a proof
	}
	names := func(w kube.Workload) []string {
		var out []string
		for _, p := range w.Pods {
			if p.Ready {
				out = append(out, p.Name)
			}
		}
		return out
	}
	main, warm := names(s.main), names(s.warm)
	expr := fmt.Sprintf("count by (pod) ({%s,pod=~%q})", in.Service.Selector, strings.Join(slices.Concat(main, warm), "|"))
	got, err := l.q.Instant(ctx, expr, in.Now)
	if err != nil {
		return err
	}
	mains, warms := false, false
	for _, sample := range got.Samples {
		mains = mains || slices.Contains(main, sample.Labels["pod"])
		warms = warms || slices.Contains(warm, sample.Labels["pod"])
	}
	if mains && !warms {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
			"%s: no series with {%s} is of a pod of %s: the proof would not see the requests that are moved; set a selector of the service that covers both", shift, in.Service.Selector, step.RefText(s.warm.Ref))}
	}
	return nil
}

// revision names the release that the service runs now.
func (s *sides) revision() string {
	if s.route.Ref.Kind == kube.InferenceService {
		return s.route.Rules[0].Backends[0].Name
	}
	return fmt.Sprint(s.main.Revision)
}

// plan puts the plan together.
func (s *sides) plan(in step.Input, to int, rules []kube.RouteRule) machine.Plan {
	r := s.route
	plan := machine.Plan{
		Step: shift,
		Target: machine.Target{
			APIVersion: r.APIVersion, Kind: r.Ref.Kind, Namespace: r.Ref.Namespace, Name: r.Ref.Name, UID: r.UID, Generation: r.Generation,
		},
		Summary: fmt.Sprintf("move requests of %s: %s gets %d %% instead of %d %%", in.Service.Name, step.RefText(s.warm.Ref), to, s.percent),
		Diff:    weightChanges(r, rules), Undo: fmt.Sprintf("set the former weights: %s gets %d %%", step.RefText(s.warm.Ref), s.percent),
		Locks: step.Locks(in.Service), Payload: step.EncodeJSON(shiftPayload{From: r.Rules, To: rules}),
		Risk: machine.RiskMedium, Why: "requests meet another revision; nothing restarts",
		Capacity: machine.Capacity{ReadyNow: s.main.Ready, LowestReady: s.main.Ready, ReadyAfter: s.main.Ready},
		Back:     s.back(),
		Notes: []string{
			fmt.Sprintf("%s has %d ready replicas of revision %d, which take %d %% of the requests", step.RefText(s.warm.Ref), s.warm.Ready, s.warm.Revision, s.most),
			"its prefix cache is cold for the requests that come to it: first tokens take longer at first",
		},
	}
	if to < s.percent {
		plan.Class, plan.Back = playbook.ClassReturn, nil
		plan.Notes = []string{"requests go back to " + step.RefText(s.main.Ref) + ", revision " + s.revision()}
	}
	if n := len(r.Rules) - len(s.rules); n > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("%d of %d rules of %s have no backend %s: their requests stay where they are", n, len(r.Rules), step.RefText(r.Ref), s.backend))
	}
	return plan
}

// back returns the parameters that move the requests back after the incident. None go
// back to a revision that served and had to be left. One of which no replica was ready
// only has to become ready.
func (s *sides) back() map[string]any {
	if s.main.Ready == 0 {
		return map[string]any{"percent": s.percent, "back": true}
	}
	return map[string]any{"percent": s.percent, "back": true, "left": s.revision()}
}

// weightChanges returns the weights that change.
func weightChanges(r kube.Route, to []kube.RouteRule) []machine.FieldChange {
	var out []machine.FieldChange
	for i, rule := range to {
		for j, b := range rule.Backends {
			was := r.Rules[i].Backends[j]
			switch {
			case was == b, r.Ref.Kind == kube.InferenceService && j > 0:
			case r.Ref.Kind == kube.InferenceService:
				from, value := fmt.Sprint(was.Weight), fmt.Sprint(b.Weight)
				if was.Unset {
					from = ""
				}
				if b.Unset {
					value = ""
				}
				out = append(out, machine.FieldChange{Path: rule.Path, From: from, To: value})
			default:
				out = append(out, machine.FieldChange{Path: fmt.Sprintf("%s[%s].weight", rule.Path, b.Name), From: fmt.Sprint(was.Weight), To: fmt.Sprint(b.Weight)})
			}
		}
	}
	return out
}

// Apply implements [step.Lever].
func (l trafficShift) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[shiftPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	receipt, err := l.set(ctx, in, plan, machine.ActionApply, p.To, plan.Target.Generation)
	if err != nil && step.HasReason(err, fault.Conflict) {
		o, readErr := l.Observe(ctx, in, plan, nil, false)
		if readErr != nil || o.Applied {
			e := *step.AsError(err)
			e.Unknown = true
			err = &e
		}
	}
	return receipt, err
}

// Undo implements [step.Lever].
func (l trafficShift) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := step.Payload[shiftPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	left, err := step.LeftAt(plan, receipt)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = step.Undone(ctx, l, in, plan, receipt, func() error {
		var err error
		out, err = l.set(ctx, in, plan, machine.ActionUndo, p.From, left)
		return err
	})
	return out, err
}

func (l trafficShift) set(ctx context.Context, in step.Input, plan machine.Plan, action machine.Action, rules []kube.RouteRule, generation int64) (json.RawMessage, error) {
	if l.r == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	r, err := l.r.SetRoute(ctx, kube.RouteChange{
		Ref: step.RefOfTarget(plan.Target), Rules: rules, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: plan.Target.UID, Generation: generation},
	})
	if err != nil {
		return nil, err
	}
	return step.EncodeJSON(step.ChangeReceipt{Action: action, UID: r.UID, Generation: r.Generation}), nil
}

// Observe implements [step.Lever]. Every write of the route's spec moves its generation
// by one, so that a third party's write never goes unseen.
func (l trafficShift) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	p, err := step.Payload[shiftPayload](plan.Step, plan.Payload)
	if err != nil {
		return step.Observation{}, err
	}
	if l.r == nil {
		return step.Observation{}, step.NotConfigured("cluster", "kubernetes")
	}
	ref := step.RefOfTarget(plan.Target)
	r, err := l.r.Route(ctx, ref)
	foreign := func(format string, args ...any) (step.Observation, error) {
		return step.Observation{Foreign: true, Progress: step.RefText(ref) + ": " + fmt.Sprintf(format, args...)}, nil
	}
	switch {
	case step.HasReason(err, fault.NotFound):
		return foreign("someone deleted it")
	case err != nil:
		return step.Observation{}, err
	case r.UID != plan.Target.UID:
		return foreign("it was deleted and recreated")
	}
	planned, action, want, before := plan.Target.Generation, machine.ActionApply, p.To, p.From
	if undo {
		// An apply is one write after the plan, its undo the one after that.
		planned, action = planned+1, machine.ActionUndo
		want, before = before, want
	}
	mine := kube.Workload{UID: r.UID, Generation: r.Generation, Annotations: r.Annotations}
	switch {
	case r.Generation == planned && kube.SameWeights(r.Rules, before):
		return step.Observation{Progress: "the weights are as before"}, nil
	case r.Generation != planned+1 || !kube.SameWeights(r.Rules, want) || !step.Mine(mine, in, action, receipt):
		return foreign("someone else changed it, it is at generation %d", r.Generation)
	}
	o := step.Observation{
		Applied: true, Receipt: step.EncodeJSON(step.ChangeReceipt{Action: action, UID: r.UID, Generation: r.Generation}),
		Settled: r.Waits == "" && r.Refused == "", Degraded: r.Refused != "", Progress: "the gateway splits the requests by the new weights",
	}
	switch {
	case r.Refused != "":
		o.Progress = r.Refused
	case r.Waits != "":
		o.Progress = r.Waits
	}
	return o, nil
}

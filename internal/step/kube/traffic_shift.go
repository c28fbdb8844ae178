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

Never more than the warm revision's ready replicas take: each as many as a replica of the service has, or what ` + "`warm.percent_per_replica`" + ` says. Refused if the warm
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
	Percent  *int   `json:"percent" min:"0" max:"100" unit:"percent" doc:"Of the requests that the warm revision is to get. Exactly one of percent and by."`
	By       *int   `json:"by" min:"1" max:"100" unit:"percent" doc:"Of the requests to move to it beside those that it gets; stops at what it takes."`
	Release  bool   `json:"release" default:"true" doc:"The requests leave a release: when they go back, the service has to run another. false: its replicas only have to become ready."`
	Back     bool   `json:"back" doc:"Moves requests back only; none are moved to the warm revision. A loan is returned so."`
	Left     string `json:"left" doc:"With back: hash of the release that the requests left. None go back while the service runs it."`
	Replicas int    `json:"replicas" min:"0" unit:"replicas" doc:"With back: replicas of the service when the requests left it. Its ready ones take their share of them. 0: as many as it has now."`
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
	From    []kube.RouteRule `json:"from"`
	To      []kube.RouteRule `json:"to"`
	Backend string           `json:"backend"` // the warm revision's
	Mark    string           `json:"mark"`    // of the last shift before, as it was planned on
	Main    kube.Ref         `json:"main"`
	Warm    kube.Ref         `json:"warm"`
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
	unseen := ""
	if to > s.percent {
		if unseen, err = l.moves(ctx, in, s); err != nil {
			return machine.Plan{}, err
		}
	}
	rules, err := s.weighed(shift, to)
	if err != nil {
		return machine.Plan{}, err
	}
	_, err = l.r.SetRoute(ctx, kube.RouteChange{
		Ref: s.route.Ref, Rules: rules, Backend: s.backend, DryRun: true, Run: in.Run, Key: in.Key, Pre: kube.Precondition{UID: s.route.UID, Generation: s.route.Generation},
	})
	lacks, err := step.LackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	plan := s.plan(in, to, rules, with.Release)
	plan.Lacks = lacks
	for _, n := range []string{unseen, note} {
		if n != "" {
			plan.Notes = append([]string{n}, plan.Notes...)
		}
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
		if o.Kind != kube.ArgoCD {
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

// moves refuses what would not help the service: the same release, or a proof that does
// not see the requests that were moved. note says what of that is not known.
func (l trafficShift) moves(ctx context.Context, in step.Input, s sides) (note string, err error) {
	if s.release == s.warmRelease && s.main.Ready > 0 {
		return "", &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s runs the same release as %s: requests would meet the same there", shift, step.RefText(s.warm.Ref), step.RefText(s.main.Ref))}
	}
	return l.seen(ctx, in, s)
}

// seen refuses a change whose proof would not see the warm revision: its pods have no
// series with the service's selector. Where the service's own ready pods have none either,
// the series may be those of a gateway, which sees both: the note says so.
func (l trafficShift) seen(ctx context.Context, in step.Input, s sides) (note string, err error) {
	if l.q == nil {
		return "", nil // nor is there a proof
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
	var gauges []string
	for _, p := range step.Objectives(in.Service).Progress {
		gauges = append(gauges, p.Running)
	}
	main, warm := names(s.main), names(s.warm)
	expr := fmt.Sprintf("count by (pod) ({%s,pod=~%q", in.Service.Selector, strings.Join(slices.Concat(main, warm), "|"))
	if len(gauges) > 0 {
		expr += fmt.Sprintf(",__name__=~%q", strings.Join(gauges, "|"))
	}
	got, err := l.q.Instant(ctx, expr+"})", in.Now)
	if err != nil {
		return "", err
	}
	mains, warms := len(main) == 0, false // none tells that the series have pods
	for _, sample := range got.Samples {
		mains = mains || slices.Contains(main, sample.Labels["pod"])
		warms = warms || slices.Contains(warm, sample.Labels["pod"])
	}
	switch {
	case mains && !warms:
		return "", &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
			"%s: no series with {%s} is of a pod of %s: the proof would not see the requests that are moved; set a selector of the service that covers both", shift, in.Service.Selector, step.RefText(s.warm.Ref))}
	case !warms:
		return fmt.Sprintf("whether the proof sees the requests that are moved is not known: no series with {%s} names a pod of either workload", in.Service.Selector), nil
	}
	return "", nil
}

// plan puts the plan together.
func (s *sides) plan(in step.Input, to int, rules []kube.RouteRule, release bool) machine.Plan {
	r := s.route
	plan := machine.Plan{
		Step: shift,
		Target: machine.Target{
			APIVersion: r.APIVersion, Kind: r.Ref.Kind, Namespace: r.Ref.Namespace, Name: r.Ref.Name, UID: r.UID, Generation: r.Generation,
		},
		Summary: fmt.Sprintf("move requests of %s: %s gets %d %% instead of %d %%", in.Service.Name, step.RefText(s.warm.Ref), to, s.percent),
		Diff:    weightChanges(r, rules), Undo: fmt.Sprintf("set the former weights: %s gets %d %%", step.RefText(s.warm.Ref), s.percent),
		Locks: step.Locks(in.Service), Payload: step.EncodeJSON(shiftPayload{From: r.Rules, To: rules, Backend: s.backend, Mark: r.Annotations[kube.ShiftMark(s.backend)], Main: s.main.Ref, Warm: s.warm.Ref}),
		Risk: machine.RiskMedium, Why: "requests meet another revision; nothing restarts",
		Capacity: machine.Capacity{ReadyNow: s.main.Ready, LowestReady: s.main.Ready, ReadyAfter: s.main.Ready},
		Back:     s.back(release),
		Notes: []string{
			fmt.Sprintf("%s has %d ready replicas of revision %d, which take %d %% of the requests", step.RefText(s.warm.Ref), s.warm.Ready, s.warm.Revision, s.most),
			"its prefix cache is cold for the requests that come to it: first tokens take longer at first",
		},
	}
	if to < s.percent {
		plan.Class, plan.Back = playbook.ClassReturn, nil
		plan.Notes = []string{fmt.Sprintf("requests go back to %s, revision %d", step.RefText(s.main.Ref), s.main.Revision)}
	}
	if n := len(r.Rules) - len(s.rules); n > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("%d of %d rules of %s have no backend %s: their requests stay where they are", n, len(r.Rules), step.RefText(r.Ref), s.backend))
	}
	return plan
}

// back returns the parameters that move the requests back after the incident.
func (s *sides) back(release bool) map[string]any {
	out := map[string]any{"percent": s.percent, "back": true, "replicas": s.main.Replicas}
	if release {
		out["left"] = s.release
	}
	return out
}

// Apply implements [step.Lever].
func (l trafficShift) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[shiftPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	receipt, err := l.set(ctx, in, plan, machine.ActionApply, p, p.To, plan.Target.Generation)
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

// Undo implements [step.Lever]. Rules of the route that the plan did not touch are left
// as somebody else set them since.
func (l trafficShift) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := step.Payload[shiftPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if l.r == nil || l.w == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	var out json.RawMessage
	err = step.Undone(ctx, l, in, plan, receipt, func() error {
		if err := l.serves(ctx, p, plan); err != nil {
			return err
		}
		r, err := l.r.Route(ctx, step.RefOfTarget(plan.Target))
		if err != nil {
			return err
		}
		if !p.stands(r, p.To) || !p.mine(r, in, machine.ActionApply) {
			return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: the weights of %s changed since the look", shift, step.RefText(r.Ref))}
		}
		rules := slices.Clone(r.Rules)
		for _, i := range p.touched() {
			rules[i] = p.From[i]
		}
		out, err = l.set(ctx, in, plan, machine.ActionUndo, p, rules, r.Generation)
		return err
	})
	return out, err
}

// serves refuses to take requests from a warm revision that serves while the service
// itself has no ready replica.
func (l trafficShift) serves(ctx context.Context, p shiftPayload, plan machine.Plan) error {
	if plan.Class == playbook.ClassReturn {
		return nil // its undo moves them to the warm revision
	}
	main, err := l.w.Workload(ctx, p.Main)
	if err != nil {
		return err
	}
	warm, err := l.w.Workload(ctx, p.Warm)
	if err != nil {
		return err
	}
	if main.Ready == 0 && warm.Ready > 0 {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
			"%s: %s has no ready replica, and %s serves: the requests stay there", shift, step.RefText(p.Main), step.RefText(p.Warm))}
	}
	return nil
}

func (l trafficShift) set(ctx context.Context, in step.Input, plan machine.Plan, action machine.Action, p shiftPayload, rules []kube.RouteRule, generation int64) (json.RawMessage, error) {
	if l.r == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	r, err := l.r.SetRoute(ctx, kube.RouteChange{
		Ref: step.RefOfTarget(plan.Target), Rules: rules, Backend: p.Backend, Run: in.Run, Key: in.Key,
		Pre: kube.Precondition{UID: plan.Target.UID, Generation: generation},
	})
	if err != nil {
		return nil, err
	}
	return step.EncodeJSON(step.ChangeReceipt{Action: action, UID: r.UID}), nil
}

// touched returns the indexes of the rules that the plan changes.
func (p shiftPayload) touched() []int {
	var out []int
	for i := range p.To {
		if !slices.Equal(p.From[i].Backends, p.To[i].Backends) {
			out = append(out, i)
		}
	}
	return out
}

// stands reports whether the rules that the plan changes are as in want.
func (p shiftPayload) stands(r kube.Route, want []kube.RouteRule) bool {
	for _, i := range p.touched() {
		if i >= len(r.Rules) || !slices.Equal(r.Rules[i].Backends, want[i].Backends) {
			return false
		}
	}
	return true
}

// mine reports whether the last recorded shift of the backend was made by this run's
// visit of this state, as the given action.
func (p shiftPayload) mine(r kube.Route, in step.Input, action machine.Action) bool {
	return step.OursKey(r.Annotations[kube.ShiftMark(p.Backend)], in, action)
}

// Observe implements [step.Lever]. The weights count, with the mark of who set them last:
// others may change other rules of the route.
func (l trafficShift) Observe(ctx context.Context, in step.Input, plan machine.Plan, _ json.RawMessage, undo bool) (step.Observation, error) {
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
	action, want, before := machine.ActionApply, p.To, p.From
	untouched := r.Annotations[kube.ShiftMark(p.Backend)] == p.Mark
	if undo {
		action, want, before = machine.ActionUndo, before, want
		untouched = p.mine(r, in, machine.ActionApply)
	}
	switch {
	case untouched && p.stands(r, before):
		return step.Observation{Progress: "the weights are as before"}, nil
	case !p.stands(r, want) || !p.mine(r, in, action):
		return foreign("someone else changed it, it is at generation %d", r.Generation)
	}
	o := step.Observation{
		Applied: true, Receipt: step.EncodeJSON(step.ChangeReceipt{Action: action, UID: r.UID}),
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

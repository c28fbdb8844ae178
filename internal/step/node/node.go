package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// node holds what all levers on a node share: one edit, made under the
// precondition that nobody changed the node's scheduling since the plan, and
// recorded in an annotation by which it is recognised after a crash.
type node struct {
	n step.Nodes
	c step.NodeChanger
	w step.Workloads

	services func() []playbook.Service
	owners   step.NodeOwners // nil: nobody but the services' owners is known
	gpus     step.GPUs       // nil: what they say is not known
	xids     step.XIDs       // nil: only what gpus remember is known
	querier  step.Querier    // of probes; nil: none can be asked
	now      func() time.Time
}

func newNode(d step.Deps) node {
	l := node{n: d.Nodes, c: d.NodeChanger, w: d.Workloads, services: d.Services, owners: d.NodeOwners, gpus: d.GPUs, xids: d.XIDs, querier: d.Querier, now: d.Now}
	if l.services == nil {
		l.services = func() []playbook.Service { return nil }
	}
	return l
}

// nodePayload is the payload of a plan on a node.
type nodePayload struct {
	Mark  string        `json:"mark"`  // annotation that records it
	Stamp string        `json:"stamp"` // of the node when it was planned
	Do    kube.NodeEdit `json:"do"`
	Back  kube.NodeEdit `json:"back"`

	Cordoned bool `json:"cordoned,omitempty"` // Responder's cordon was there before, and everything rests on it

	Pool []string `json:"pool,omitempty"` // nodes of the pool that took no pods when it was planned
	Pods []podRef `json:"pods,omitempty"` // to be evicted

	Grace  string `json:"grace,omitempty"`
	Within string `json:"within,omitempty"`
	AtOnce int    `json:"at_once,omitempty"` // 0: as many as their budgets let go
	Whole  bool   `json:"whole,omitempty"`   // the node is to be empty, not only without these pods
	Judged bool   `json:"judged,omitempty"`  // the plan was judged for all whose pods are on the node
}

// holds reports whether the node is as the apply left it. A cordon by Responder
// from before has to stay, too: whoever lifts it wants pods there.
func (p nodePayload) holds(n kube.NodeState) bool {
	return p.Do.Holds(n) && (!p.Cordoned || kube.NodeEdit{Cordon: new(true)}.Holds(n))
}

// podRef identifies one pod by its UID.
type podRef struct {
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Counted   bool   `json:"counted,omitempty"` // its replica was ready, or may have been: what its loss costs is in the plan
}

// String names a pod: namespace/name.
func (p podRef) String() string { return p.Namespace + "/" + p.Name }

// ready returns an error if no cluster is configured.
func (l node) ready() error {
	if l.n == nil || l.c == nil {
		return step.NotConfigured("cluster", "kubernetes")
	}
	return nil
}

// unclaimed refuses a node that another controller or person has claimed.
func unclaimed(kind string, n kube.NodeState) error {
	if len(n.Claims) == 0 {
		return nil
	}
	return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
		"%s: node %s belongs to %s: Responder leaves it alone until that claim is removed", kind, n.Name, owners(n))}
}

// free returns a node that nobody else has claimed.
func (l node) free(ctx context.Context, kind, name string) (kube.NodeState, error) {
	if err := l.ready(); err != nil {
		return kube.NodeState{}, err
	}
	n, err := l.n.Node(ctx, name)
	if err != nil {
		return kube.NodeState{}, err
	}
	return n, unclaimed(kind, n)
}

// freeView returns a node that nobody else has claimed, with its pods, its pool
// and what serves on it.
func (l node) freeView(ctx context.Context, kind, name string) (kube.NodeView, error) {
	if err := l.ready(); err != nil {
		return kube.NodeView{}, err
	}
	v, err := l.n.NodeView(ctx, name)
	if err != nil {
		return kube.NodeView{}, err
	}
	return v, unclaimed(kind, v.Node)
}

// claimed reports whether somebody else has claimed the node since. The
// receiver of a request for a reset is expected to.
func claimed(n kube.NodeState, p nodePayload) bool {
	return len(n.Claims) > 0 && p.Mark != kube.MarkReset
}

// owners joins the names of all who claim a node.
func owners(n kube.NodeState) string {
	var whose []string
	for _, c := range n.Claims {
		whose = append(whose, c.String())
	}
	return strings.Join(whose, " and to ")
}

// plan returns the part of a plan that all levers on a node share. The edit is
// tried as a server-side dry-run.
func (l node) plan(ctx context.Context, in step.Input, kind string, n kube.NodeState, p nodePayload) (machine.Plan, error) {
	if err := ordinary(kind, n); err != nil && p.Mark != kube.MarkEvict { // which leaves the node as it is
		return machine.Plan{}, err
	}
	p.Stamp = n.Stamp()
	_, err := l.c.ChangeNode(ctx, kube.NodeChange{
		Name: n.Name, UID: n.UID, Stamp: p.Stamp, Edit: p.Do, Mark: p.Mark, Key: in.Key, At: in.Now, DryRun: true,
	})
	lacks, err := step.LackedRight(err)
	if err != nil {
		return machine.Plan{}, err
	}
	plan := machine.Plan{
		Step: kind, Target: machine.Target{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}, Lacks: lacks,
		Locks: append(step.Locks(in.Service), "node:"+n.Name), Payload: step.EncodeJSON(p),
	}
	l.owned(&plan, n, in.Service)
	return plan, nil
}

// owned adds to a plan who owns the node.
func (l node) owned(plan *machine.Plan, n kube.NodeState, svc playbook.Service) {
	if l.owners == nil {
		return
	}
	pool, owners := l.owners(n.Labels)
	plan.NodeOwners = &machine.NodeOwners{Pool: pool, Owners: owners}
	note := fmt.Sprintf("node pool %s belongs to %s", pool, strings.Join(owners, ", "))
	if pool == "" {
		note = fmt.Sprintf("node %s is in no node pool: the owners of service %s decide for it", n.Name, svc.Name)
	}
	plan.Notes = append(plan.Notes, note)
}

// Apply makes the edit, once.
func (l node) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[nodePayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if err := l.ready(); err != nil {
		return nil, err
	}
	if err := cmp.Or(l.poolStill(ctx, plan, p), l.touchesStill(ctx, in, plan, p)); err != nil {
		return nil, l.ran(ctx, in, plan, p.Mark, machine.ActionApply, err)
	}
	edit, err := l.remembering(ctx, p, plan.Target.Name)
	if err != nil {
		return nil, err
	}
	return l.write(ctx, in, plan, edit, p.Mark, p.Stamp, machine.ActionApply)
}

// poolStill refuses to take a node out if other nodes of its pool went out
// since the guards counted them.
func (l node) poolStill(ctx context.Context, plan machine.Plan, p nodePayload) error {
	if plan.Pool == nil {
		return nil
	}
	v, err := l.n.NodeView(ctx, plan.Target.Name)
	if err != nil {
		return err
	}
	known := map[string]bool{plan.Target.Name: true}
	for _, name := range p.Pool {
		known[name] = true
	}
	for _, n := range v.Pool {
		if n.Out() && !known[n.Name] {
			return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: node %s of the same pool went out since it was planned", plan.Step, n.Name)}
		}
	}
	return nil
}

// write makes one edit.
func (l node) write(ctx context.Context, in step.Input, plan machine.Plan, edit kube.NodeEdit, mark, stamp string, action machine.Action) (json.RawMessage, error) {
	_, err := l.c.ChangeNode(ctx, kube.NodeChange{
		Name: plan.Target.Name, UID: plan.Target.UID, Stamp: stamp, Edit: edit, Mark: mark, Key: in.Key, At: in.Now,
	})
	if err != nil {
		return nil, l.ran(ctx, in, plan, mark, action, err)
	}
	return step.EncodeJSON(step.ChangeReceipt{Action: action, UID: plan.Target.UID}), nil
}

// ran returns the error for a write that failed. If our own change, made by an
// attempt whose answer was lost, is in place, it must not be reported as not
// made.
func (l node) ran(ctx context.Context, in step.Input, plan machine.Plan, mark string, action machine.Action, err error) error {
	if !step.HasReason(err, fault.Conflict) {
		return err
	}
	n, readErr := l.n.Node(ctx, plan.Target.Name)
	if readErr == nil && !oursOn(n, mark, in, action) {
		return err
	}
	e := *step.AsError(err)
	e.Unknown = true
	return &e
}

// oursOn reports whether the mark records this run's visit of this state, as
// the given action.
func oursOn(n kube.NodeState, mark string, in step.Input, action machine.Action) bool {
	key, _ := kube.ParseMark(n.Annotations[mark])
	return step.OursKey(key, in, action)
}

// Observe tells whether the edit is on the node. Whoever replaced our mark, or
// what it stands for, changed it since.
func (l node) Observe(ctx context.Context, in step.Input, plan machine.Plan, _ json.RawMessage, undo bool) (step.Observation, error) {
	o, _, _, err := l.look(ctx, in, plan, undo)
	return o, err
}

func (l node) look(ctx context.Context, in step.Input, plan machine.Plan, undo bool) (step.Observation, kube.NodeState, nodePayload, error) {
	p, err := step.Payload[nodePayload](plan.Step, plan.Payload)
	if err != nil {
		return step.Observation{}, kube.NodeState{}, p, err
	}
	if err := l.ready(); err != nil {
		return step.Observation{}, kube.NodeState{}, p, err
	}
	n, err := l.n.Node(ctx, plan.Target.Name)
	switch {
	case step.HasReason(err, fault.NotFound):
		return step.Observation{Foreign: true, Progress: "node " + plan.Target.Name + " is gone: someone deleted it"}, n, p, nil
	case err != nil:
		return step.Observation{}, n, p, err
	case n.UID != plan.Target.UID:
		return foreignNode(n, p.Mark, "it was deleted and recreated"), n, p, nil
	}
	return edited(in, n, p, undo), n, p, nil
}

// edited observes the edit on the node itself. Whoever claims the node after
// the edit owns it from then on: no plan is made on a claimed node. An edit
// that was undone stays undone, whoever came after.
func edited(in step.Input, n kube.NodeState, p nodePayload, undo bool) step.Observation {
	applied, undone := oursOn(n, p.Mark, in, machine.ActionApply), oursOn(n, p.Mark, in, machine.ActionUndo)
	receipt := func(a machine.Action) json.RawMessage {
		return step.EncodeJSON(step.ChangeReceipt{Action: a, UID: n.UID})
	}
	switch {
	case applied && p.holds(n) && claimed(n, p):
		return foreignNode(n, p.Mark, "since then it belongs to "+owners(n))
	case applied && !undo, undone && undo:
		holds, action := p.holds(n), machine.ActionApply
		if undo {
			holds, action = p.Back.Holds(n), machine.ActionUndo
		}
		if !holds {
			return foreignNode(n, p.Mark, "someone changed it since: "+nodeFacts(n))
		}
		return step.Observation{Applied: true, Settled: true, Receipt: receipt(action), Progress: nodeFacts(n)}
	case applied && p.holds(n):
		return step.Observation{Progress: nodeFacts(n) + ", not put back"}
	case !undo && n.Stamp() == p.Stamp:
		return step.Observation{Progress: nodeFacts(n) + ", as before"}
	default:
		return foreignNode(n, p.Mark, "someone else changed it: "+nodeFacts(n))
	}
}

// Undo puts the edit back, if the node still is as the apply left it.
func (l node) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	var out json.RawMessage
	err := step.Undone(ctx, l, in, plan, receipt, func() error {
		o, n, p, err := l.look(ctx, in, plan, false)
		switch {
		case err != nil:
			return err
		case !o.Applied:
			return &fault.Error{Reason: fault.Conflict, Message: o.Progress}
		}
		out, err = l.write(ctx, in, plan, p.Back, p.Mark, n.Stamp(), machine.ActionUndo)
		return err
	})
	return out, err
}

// Plan is each lever's own.
func (l node) Plan(context.Context, step.Input) (machine.Plan, error) {
	panic("step: a lever on a node without a plan") // unreachable: every lever that embeds node has its own
}

// foreignNode returns the observation of a change of a node by someone else.
func foreignNode(n kube.NodeState, mark, what string) step.Observation {
	by := ""
	if key, _ := kube.ParseMark(n.Annotations[mark]); key != "" {
		by = "; the last change recorded there is " + key
	}
	return step.Observation{Foreign: true, Progress: "node " + n.Name + ": " + what + by}
}

// nodeFacts describes the state of a node.
func nodeFacts(n kube.NodeState) string {
	facts := []string{"takes pods"}
	if n.Unschedulable {
		facts[0] = "cordoned"
		if n.CordonedBy != kube.FieldManager {
			facts[0] += " by " + orSomebody(n.CordonedBy)
		}
	}
	if !n.Ready {
		facts = append(facts, "not ready")
	}
	return "node " + n.Name + " " + strings.Join(facts, ", ")
}

func orSomebody(who string) string {
	if who == "" {
		return "somebody unknown"
	}
	return who
}

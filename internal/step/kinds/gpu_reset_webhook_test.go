package kinds_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// repairServer accepts repair requests and records their keys.
type repairServer struct {
	once bool
	fail []error // answers still to come; nil: it is taken
	lost bool    // what fails has arrived all the same
	keys []string
	last step.RepairRequest
}

func (d *repairServer) Where() string { return "https://tickets.example" }
func (d *repairServer) Once() bool    { return d.once }

func (d *repairServer) Ask(_ context.Context, r step.RepairRequest) (string, error) {
	var err error
	if len(d.fail) > 0 {
		err, d.fail = d.fail[0], d.fail[1:]
	}
	if err == nil || d.lost {
		d.keys, d.last = append(d.keys, r.Key), r
	}
	return "OPS-1", err
}

// between lets something happen to the cluster while a request is answered.
type between struct {
	*repairServer
	then func()
}

func (b between) Ask(ctx context.Context, r step.RepairRequest) (string, error) {
	b.then()
	return b.repairServer.Ask(ctx, r)
}

// resetTrial drives gpu.reset_request by webhook.
func resetTrial(t *testing.T, d *repairServer, with map[string]any) *nodeTrial {
	all := map[string]any{"gpus": "GPU-8f6d", "reason": "a row could not be remapped"}
	for k, v := range with {
		all[k] = v
	}
	x := newNodeTrial(t, "gpu.reset_request", all)
	if d != nil {
		x.deps.Repairs = d
	}
	return x
}

func (x *nodeTrial) node(t *testing.T) kube.NodeState {
	t.Helper()
	n, err := x.deps.Nodes.Node(t.Context(), "node-0")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (x *nodeTrial) again(t *testing.T, a machine.Action, plan *machine.Plan, receipt json.RawMessage, observe bool) machine.Outcome {
	t.Helper()
	return kinds.New(x.deps).Do(t.Context(), machine.Effect{
		Key: "r-1/fix#1/" + string(a) + "#1", Run: "r-1", State: "fix", Action: a, Step: x.kind, With: x.with,
		Service: service("Deployment"), Plan: plan, Receipt: receipt, Attempt: 1, Observe: observe,
	})
}

// TestResetByWebhook: asked for once, kept while it stands, and withdrawn.
func TestResetByWebhook(t *testing.T) {
	d := &repairServer{}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	if !plan.Unrepeatable || plan.Risk != machine.RiskLow || plan.Target.Name != "node-0" || !strings.Contains(plan.Summary, "https://tickets.example") || len(d.keys) > 0 {
		t.Errorf("plan %+v after requests %v", plan, d.keys)
	}
	o := x.again(t, machine.ActionApply, plan, nil, false)
	want := step.RepairRequest{Key: "r-1/fix#1/request", Node: "node-0", GPUs: []string{"GPU-8f6d"}, Reason: "a row could not be remapped", Run: "r-1", Service: "serving/chat"}
	if o.Status != machine.StatusOK || !reflect.DeepEqual(d.last, want) {
		t.Fatalf("%s %s: asked %+v, want %+v", o.Status, o.Message, d.last, want)
	}
	if n := x.node(t); n.Labels["responder.dev/gpu-reset"] != "requested" || n.Annotations["responder.dev/gpu-reset-ticket"] != "OPS-1" {
		t.Errorf("the node has the labels %v and annotations %v", n.Labels, n.Annotations)
	}
	if s := x.again(t, machine.ActionSettle, plan, o.Data, false); s.Status != machine.StatusOK || !strings.Contains(s.Message, "OPS-1") {
		t.Errorf("settle: %s %s", s.Status, s.Message)
	}
	if s := x.again(t, machine.ActionSettle, plan, nil, false); !strings.Contains(s.Message, "OPS-1") {
		t.Errorf("settle without a receipt: %s %s", s.Status, s.Message)
	}
	u := x.again(t, machine.ActionUndo, plan, nil, false)
	want.Key, want.Withdraw, want.Ticket = "r-1/fix#1/withdraw", want.Key, "OPS-1"
	if u.Status != machine.StatusOK || !reflect.DeepEqual(d.last, want) {
		t.Fatalf("%s %s: asked %+v, want %+v", u.Status, u.Message, d.last, want)
	}
	if w := x.again(t, machine.ActionUnwind, plan, u.Data, false); w.Status != machine.StatusOK || !strings.Contains(w.Message, "withdrawn as OPS-1") {
		t.Errorf("unwind: %s %s", w.Status, w.Message)
	}
	if n := x.node(t); n.Labels["responder.dev/gpu-reset"]+n.Annotations["responder.dev/gpu-reset-ticket"] != "" {
		t.Errorf("the node still has the labels %v and annotations %v", n.Labels, n.Annotations)
	}
}

// TestResetByWebhookHoldsTheNode: as long as a request is open, whatever its way,
// the node stays out and nobody is asked twice; who closes it takes the label away.
func TestResetByWebhookHoldsTheNode(t *testing.T) {
	d := &repairServer{}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusOK {
		t.Fatalf("%s %s", o.Status, o.Message)
	}
	if o := x.do(t, machine.ActionPlan, nil, ""); o.Reason != fault.NothingToDo || !strings.Contains(o.Message, "responder.dev/gpu-reset=requested already") {
		t.Errorf("a second request: %s %s", o.Status, o.Message)
	}
	x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
		delete(n["metadata"].(map[string]any)["labels"].(map[string]any), "responder.dev/gpu-reset")
	})
	if o := x.again(t, machine.ActionSettle, plan, nil, false); o.Status != machine.StatusOK || !strings.Contains(o.Message, "was taken up") {
		t.Errorf("settle when it was closed: %s %s", o.Status, o.Message)
	}
	if o := x.again(t, machine.ActionUndo, plan, nil, false); o.Reason != fault.ForeignChange || len(d.keys) != 1 {
		t.Errorf("undo of what was closed: %s %s %s after requests %v", o.Status, o.Reason, o.Message, d.keys)
	}
}

// TestResetAfterAnother: the ticket of a request that was closed is not that of the next.
func TestResetAfterAnother(t *testing.T) {
	x := resetTrial(t, nil, nil)
	x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
		n["metadata"].(map[string]any)["annotations"] = map[string]any{"responder.dev/gpu-reset-ticket": "OLD-9"}
	})
	plan := x.plan(t)
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusOK {
		t.Fatalf("%s %s", o.Status, o.Message)
	}
	if s := x.again(t, machine.ActionSettle, plan, nil, false); s.Status != machine.StatusOK || strings.Contains(s.Message, "OLD-9") {
		t.Errorf("settle: %s %s", s.Status, s.Message)
	}
}

// TestResetOfANodeThatMoved: nobody is asked about a node that is not as it was
// planned, and what was asked for is labelled whatever came between.
func TestResetOfANodeThatMoved(t *testing.T) {
	touch := func(x *nodeTrial) {
		x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
			n["metadata"].(map[string]any)["annotations"] = map[string]any{"responder.dev/other": "yes"}
		})
	}
	d := &repairServer{}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	touch(x)
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Reason != fault.Conflict || len(d.keys) > 0 {
		t.Errorf("%s %s %s after requests %v", o.Status, o.Reason, o.Message, d.keys)
	}
	plan = x.plan(t)
	x.deps.Repairs = between{d, func() {
		x.Change(kubetest.NodePath("node-0"), func(n map[string]any) { n["spec"].(map[string]any)["unschedulable"] = true })
	}}
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusOK || x.node(t).Labels["responder.dev/gpu-reset"] != "requested" {
		t.Errorf("%s %s", o.Status, o.Message)
	}
}

// TestResetOfSeveral: each is named, once.
func TestResetOfSeveral(t *testing.T) {
	d := &repairServer{}
	x := resetTrial(t, d, map[string]any{"gpus": "GPU-1, GPU-2,, GPU-1 3"})
	plan := x.plan(t)
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusOK || !slices.Equal(d.last.GPUs, []string{"GPU-1", "GPU-2", "3"}) {
		t.Errorf("%s %s: asked for %q", o.Status, o.Message, d.last.GPUs)
	}
	const want = "GPUs GPU-1, GPU-2, 3: a row could not be remapped"
	if got := x.node(t).Annotations["responder.dev/gpu-reset-requested"]; got != want || plan.Diff[0].To != want || !strings.Contains(plan.Summary, "reset of GPUs GPU-1, GPU-2, 3 of node") {
		t.Errorf("annotation %q, want %q; summary %q", got, want, plan.Summary)
	}
}

// TestResetWhoseAnswerIsLost: what may have arrived is unknown, and is sent again
// only to who takes it once.
func TestResetWhoseAnswerIsLost(t *testing.T) {
	for _, once := range []bool{false, true} {
		lost := &fault.Error{Reason: fault.Timeout, Message: "no answer", Unknown: true}
		d := &repairServer{once: once, fail: []error{lost}, lost: true}
		x := resetTrial(t, d, nil)
		plan := x.plan(t)
		if plan.Unrepeatable == once {
			t.Errorf("once %t: unrepeatable %t", once, plan.Unrepeatable)
		}
		if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusUnknown {
			t.Errorf("once %t: apply %s %s", once, o.Status, o.Message)
		}
		o := x.again(t, machine.ActionApply, plan, nil, true)
		if o.Status != machine.StatusFailed || o.Reason != fault.Interrupted || strings.Contains(o.Message, "takes it once") != once {
			t.Errorf("once %t: looked %s %s %s", once, o.Status, o.Reason, o.Message)
		}
		if !once {
			if o = x.do(t, machine.ActionPlan, nil, ""); o.Reason != fault.NothingToDo || !strings.Contains(o.Message, "if nobody has the request, remove the label") {
				t.Errorf("planned again: %s %s %s", o.Status, o.Reason, o.Message)
			}
			continue
		}
		if o = x.again(t, machine.ActionApply, x.plan(t), nil, false); o.Status != machine.StatusOK || !slices.Equal(d.keys, []string{"r-1/fix#1/request", "r-1/fix#1/request"}) {
			t.Errorf("once %t: again %s with keys %v, want the same key", once, o.Status, d.keys)
		}
	}
}

// TestResetThatIsRefused: what the receiver does not take was not asked for, and
// what it does not give back stands.
func TestResetThatIsRefused(t *testing.T) {
	no := &fault.Error{Reason: fault.Invalid, Message: "422"}
	d := &repairServer{fail: []error{no, nil, no}}
	x := resetTrial(t, d, nil)
	plan := x.plan(t)
	if o := x.again(t, machine.ActionApply, plan, nil, false); o.Status != machine.StatusFailed || len(d.keys) > 0 {
		t.Errorf("apply: %s %s", o.Status, o.Message)
	}
	applied := x.again(t, machine.ActionApply, plan, nil, false)
	if o := x.again(t, machine.ActionUndo, plan, applied.Data, false); o.Status != machine.StatusFailed || o.Reason.Retryable() || !strings.Contains(o.Message, "cannot be withdrawn") {
		t.Errorf("undo: %s %s %s", o.Status, o.Reason, o.Message)
	}
}

// TestWayOfAReset: the webhook where there is one, unless the playbook says
// otherwise.
func TestWayOfAReset(t *testing.T) {
	tests := []struct {
		name string
		desk *repairServer
		with map[string]any
		want string // in the plan's summary, or the refusal
	}{
		{"no webhook", nil, nil, "ask for a reset of GPU GPU-8f6d of node node-0"},
		{"the label all the same", &repairServer{}, map[string]any{"via": "label"}, "ask for a reset of GPU GPU-8f6d of node node-0"},
		{"all of them", &repairServer{}, map[string]any{"gpus": ""}, "ask https://tickets.example for a reset of all GPUs of node node-0"},
		{"a webhook that is not there", nil, map[string]any{"via": "webhook"}, "set gpu.repairs"},
		{"neither", &repairServer{}, map[string]any{"via": "mail"}, `"mail"; allowed are label, webhook`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := resetTrial(t, tt.desk, tt.with).do(t, machine.ActionPlan, nil, "")
			got := o.Message
			if o.Plan != nil {
				got = o.Plan.Summary
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s %q, want %q", o.Status, got, tt.want)
			}
		})
	}
	t.Run("somebody else's node", func(t *testing.T) {
		x := resetTrial(t, &repairServer{}, nil)
		x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
			n["metadata"].(map[string]any)["labels"].(map[string]any)["dgxc.nvidia.com/nvsentinel-state"] = "quarantined"
		})
		if o := x.do(t, machine.ActionPlan, nil, ""); o.Status != machine.StatusRefused || o.Reason != fault.Owned {
			t.Errorf("%s %s %s", o.Status, o.Reason, o.Message)
		}
	})
}

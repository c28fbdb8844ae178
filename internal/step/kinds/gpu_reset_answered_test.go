package kinds_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step/kinds"
)

const resetAnswered = "responder.dev/gpu-reset-answered"

// twice is a node that is out, of which requests are made one after another. Each
// is one of another run.
type twice struct {
	*nodeTrial
	d    *repairServer
	runs int
}

func (x *twice) run(n int) string { return "r-" + string(rune('0'+n)) }

// does carries out an action of the newest request.
func (x *twice) does(t *testing.T, a machine.Action, plan *machine.Plan, receipt json.RawMessage) machine.Outcome {
	t.Helper()
	run := x.run(x.runs)
	return kinds.New(x.deps).Do(t.Context(), machine.Effect{
		Key: run + "/ask#1/" + string(a) + "#1", Run: run, State: "ask", Action: a, Step: "gpu.reset_request", With: x.with,
		Service: service("Deployment"), Plan: plan, Receipt: receipt, Attempt: 1,
	})
}

// asks makes a request for GPUs, and says what became of it.
func (x *twice) asks(t *testing.T, gpus string) (*machine.Plan, machine.Outcome) {
	t.Helper()
	x.runs++
	x.with = map[string]any{"node": "node-0", "gpus": gpus, "reason": "XID 95"}
	planned := x.does(t, machine.ActionPlan, nil, nil)
	if planned.Status != machine.StatusOK {
		t.Fatalf("plan for %q: %s %s %s", gpus, planned.Status, planned.Reason, planned.Message)
	}
	return planned.Plan, x.does(t, machine.ActionApply, planned.Plan, nil)
}

// unlabels is who takes the label away.
func (x *twice) unlabels() {
	x.edit(func(m, _ map[string]any) { delete(m["labels"].(map[string]any), resetLabel) })
}

// answered makes a request that is answered.
func (x *twice) answered(t *testing.T, gpus string) {
	t.Helper()
	if _, o := x.asks(t, gpus); o.Status != machine.StatusOK {
		t.Fatalf("request for %q: %s %s", gpus, o.Status, o.Message)
	}
	x.unlabels()
}

// withdrawn makes a request that is undone.
func (x *twice) withdrawn(t *testing.T, gpus string) {
	t.Helper()
	plan, o := x.asks(t, gpus)
	if u := x.does(t, machine.ActionUndo, plan, o.Data); u.Status != machine.StatusOK {
		t.Fatalf("undo of the request for %q: %s %s", gpus, u.Status, u.Message)
	}
}

// unknown makes a request of which nobody knows whether it arrived; somebody says
// that nobody has it.
func (x *twice) unknown(t *testing.T, gpus string) {
	t.Helper()
	x.d.fail = []error{&fault.Error{Reason: fault.Timeout, Message: "no answer", Unknown: true}}
	if _, o := x.asks(t, gpus); o.Status != machine.StatusUnknown {
		t.Fatalf("request for %q: %s %s", gpus, o.Status, o.Message)
	}
	x.unlabels()
}

// refused makes a request that its receiver does not take.
func (x *twice) refused(t *testing.T, gpus string) {
	t.Helper()
	x.d.fail = []error{&fault.Error{Reason: fault.Invalid, Message: "422"}}
	if _, o := x.asks(t, gpus); o.Status != machine.StatusFailed {
		t.Fatalf("request for %q: %s %s", gpus, o.Status, o.Message)
	}
}

// TestAnsweredRequestsAreRememberedTogether: requests for the GPUs of one node that
// are answered one after another say together what was mended; of a GPU that was
// asked for anew an earlier answer says nothing until the later one is there.
func TestAnsweredRequestsAreRememberedTogether(t *testing.T) {
	type ask struct {
		how  func(*twice, *testing.T, string)
		gpus string
	}
	answered, withdrawn, unknown, refused := (*twice).answered, (*twice).withdrawn, (*twice).unknown, (*twice).refused
	const outA, outAB = " reset=GPU-a", " reset=GPU-a,GPU-b"
	for name, c := range map[string]struct {
		out  string
		asks []ask
		back bool
	}{
		"one after the other":                   {outAB, []ask{{answered, "GPU-a"}, {answered, "GPU-b"}}, true},
		"in three":                              {outAB, []ask{{answered, "GPU-a"}, {answered, "GPU-c"}, {answered, "GPU-b"}}, true},
		"one is missing":                        {outAB, []ask{{answered, "GPU-a"}, {answered, "GPU-c"}}, false},
		"the second was withdrawn":              {outAB, []ask{{answered, "GPU-a"}, {withdrawn, "GPU-b"}}, false},
		"and was not needed":                    {outA, []ask{{answered, "GPU-a"}, {withdrawn, "GPU-b"}}, true},
		"the second was refused":                {outA, []ask{{answered, "GPU-a"}, {refused, "GPU-b"}}, true},
		"nobody has the second":                 {outAB, []ask{{answered, "GPU-a"}, {unknown, "GPU-b"}}, false},
		"nobody has it, it was not needed":      {outA, []ask{{answered, "GPU-a"}, {unknown, "GPU-b"}}, true},
		"asked for anew and withdrawn":          {outA, []ask{{answered, "GPU-a"}, {withdrawn, "GPU-a"}}, false},
		"asked for anew, and nobody has it":     {outA, []ask{{answered, "GPU-a"}, {unknown, "GPU-a"}}, false},
		"asked for anew, answered":              {outA, []ask{{answered, "GPU-a"}, {answered, "GPU-a"}}, true},
		"all, then one":                         {" unseen", []ask{{answered, ""}, {answered, "GPU-b"}}, true},
		"all, then one that was withdrawn":      {" unseen", []ask{{answered, ""}, {withdrawn, "GPU-b"}}, false},
		"one, then all that were withdrawn":     {outA, []ask{{answered, "GPU-a"}, {withdrawn, ""}}, false},
		"one, withdrawn all, then the other":    {outAB, []ask{{answered, "GPU-a"}, {withdrawn, ""}, {answered, "GPU-b"}}, false},
		"none of all of those that were unseen": {outAB + " unseen", []ask{{answered, "GPU-a"}, {answered, "GPU-b"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := &twice{nodeTrial: newNodeTrial(t, "", nil), d: &repairServer{}}
			x.deps.Repairs = x.d
			ourCordon(x.Server)
			x.boots(bootA)
			x.edit(func(m, _ map[string]any) {
				m["annotations"].(map[string]any)[whenOut] = "2026-05-04T11:00:00Z boot=" + bootA + c.out
			})
			for _, a := range c.asks {
				a.how(x, t, a.gpus)
			}
			x.kind, x.with, x.now = "node.uncordon", map[string]any{"node": "node-0", "healthy_for": "10m"}, atNoon().Add(time.Hour)
			x.deps.GPUs = later{agentOf: func(*gpu.GPU) {}, allDay: true}
			o := x.do(t, machine.ActionPlan, nil, "")
			if c.back && o.Status != machine.StatusOK || !c.back && o.Reason != fault.NotMet {
				t.Errorf("%s %s %s; the node has %v", o.Status, o.Reason, o.Message, x.node(t).Annotations)
			}
		})
	}
}

// TestAnswersOfAnEarlierTime: what was answered before the node went out says
// nothing, and neither does what somebody wrote.
func TestAnswersOfAnEarlierTime(t *testing.T) {
	for text, back := range map[string]bool{
		"2026-05-04T11:00:00Z GPU-a": true, "2026-05-04T11:30:00Z all": true,
		"2026-05-04T10:59:59Z GPU-a": false, "2026-05-04T10:59:59Z all": false,
		"all": false, "GPU-a": false, "2026-05-04T11:30:00Z": false, "2026-05-04T11:30:00Z everything": false,
	} {
		x := newNodeTrial(t, "node.uncordon", map[string]any{"healthy_for": "10m"})
		ourCordon(x.Server)
		x.boots(bootA)
		x.deps.GPUs = agentOf(func(*gpu.GPU) {})
		x.edit(func(m, _ map[string]any) {
			m["annotations"].(map[string]any)[whenOut] = "2026-05-04T11:00:00Z boot=" + bootA + " reset=GPU-a"
			m["annotations"].(map[string]any)[resetAnswered] = text
		})
		if o := x.do(t, machine.ActionPlan, nil, ""); (o.Status == machine.StatusOK) != back || !back && o.Reason != fault.NotMet {
			t.Errorf("%q: %s %s %s", text, o.Status, o.Reason, o.Message)
		}
	}
}

// TestOneRequestAtATime: a second one is refused with what is open, and what to do.
func TestOneRequestAtATime(t *testing.T) {
	const open = "node node-0 has the label responder.dev/gpu-reset=requested already (run r-0 at 2026-05-04 11:30 UTC as OPS-9: GPUs GPU-a, GPU-b: XID 95)"
	for name, c := range map[string]struct {
		gpus, label string
		want        []string
	}{
		"another":         {"GPU-a, GPU-c", resetLabel, []string{open, "one request at a time; tell its receiver about GPUs GPU-a, GPU-c, too, or ask again once it is done", "kubectl label node node-0 responder.dev/gpu-reset-"}},
		"all":             {"", resetLabel, []string{open, "tell its receiver about all GPUs, too"}},
		"one of them":     {"GPU-b", resetLabel, []string{open, "it is requested; its receiver removes the label when it is done: kubectl label node node-0 responder.dev/gpu-reset-"}},
		"by other labels": {"GPU-c", "responder.dev/replace", []string{open, "one request at a time"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, "gpu.reset_request", map[string]any{"gpus": c.gpus, "reason": "XID 79", "label": c.label})
			x.edit(func(m, _ map[string]any) {
				m["labels"].(map[string]any)[resetLabel] = "requested"
				for k, v := range map[string]string{kube.MarkReset: "r-0/ask#1/apply#1 2026-05-04T11:30:00Z", "responder.dev/gpu-reset-requested": "GPUs GPU-a, GPU-b: XID 95", resetTicket: "OPS-9"} {
					m["annotations"].(map[string]any)[k] = v
				}
			})
			o := x.do(t, machine.ActionPlan, nil, "")
			for _, want := range c.want {
				if o.Status != machine.StatusRefused || o.Reason != fault.NothingToDo || !strings.Contains(o.Message, want) {
					t.Errorf("%s %s %s, want %q", o.Status, o.Reason, o.Message, want)
				}
			}
		})
	}
}

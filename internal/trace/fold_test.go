package trace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	proto "go.opentelemetry.io/proto/otlp/trace/v1"
	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// tree is a trace as an outline: a line for each span, with what matters of it.
func tree(spans []span) string {
	depth := map[string]int{}
	var b strings.Builder
	for _, s := range spans {
		d := 0
		if len(s.ParentSpanId) > 0 {
			d = depth[string(s.ParentSpanId)] + 1
		}
		depth[string(s.SpanId)] = d
		fmt.Fprintf(&b, "%s%s %s", strings.Repeat("  ", d), s.Name, time.Duration(s.EndTimeUnixNano-s.StartTimeUnixNano))
		for _, kv := range s.Attributes {
			switch name := strings.TrimPrefix(kv.Key, "responder."); name {
			case "outcome", "verdict", "result", "decision", "by", "reason", "consequence":
				fmt.Fprintf(&b, " %s=%s", name, kv.Value.GetStringValue())
			case "attempt":
				if n := kv.Value.GetIntValue(); n > 1 {
					fmt.Fprintf(&b, " %s=%d", name, n)
				}
			}
		}
		if s.Status.GetCode() == proto.Status_STATUS_CODE_ERROR {
			fmt.Fprintf(&b, " FAILED(%s)", s.Status.Message)
		}
		for _, l := range s.Links {
			fmt.Fprintf(&b, " %s", l.Attributes[0].Value.GetStringValue())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The outline of a trace is what its reader sees first.
func TestFold(t *testing.T) {
	all := lives(t)
	for name, want := range map[string]string{
		"held": `run slow 1h3m23s outcome=resolved
  look 1s
    check test.look 1s
  turn 1h3m22s verdict=verified
    plan test.turn 1s
    guard 1s result=passed
    apply test.turn 2m18s attempt=9 reason=unreachable FAILED(unreachable)
    held 1h0m0s FAILED(unknown)
    notify 1h0m0s
    settle test.turn 1s
    verify test.turn 1m1s verdict=verified
  resolved 0s
`,
		"undone": `run slow 1m13s outcome=escalated reason=no_data FAILED(no_data)
  look 1s
    check test.look 1s
  turn 1m8s verdict=worse consequence=undo
    plan test.turn 1s
    guard 1s result=passed
    apply test.turn 1s
    settle test.turn 1s
    verify test.turn 1m1s verdict=worse consequence=undo
    undo test.turn 1s
    unwind test.turn 2s
  look 4s FAILED(no_data)
    check test.look 2s
    notify 2s
`,
		"denied": `run slow 5m4s outcome=escalated FAILED(escalated)
  look 1s
    check test.look 1s
  turn 5m2s
    plan test.turn 1s
    guard 1s result=passed
    gate 5m0s result=decided decision=deny by=user:ada
  people 1s
    notify 1s
`,
		"diverted": `run slow 1s outcome=diverted diverted_into
  look 1s
    check test.look 1s
  hot 0s
`,
		"other": `run other 2m11s outcome=resolved diverted_from
  look 1s
    check test.look 1s
  stands 2m4s
    check test.look 2m4s attempt=3
  tell 2s
    notify 2s
  question 4s
    guard 2s result=passed
    gate 1s result=decided decision=approve by=user:ada
    guard 1s result=passed
  done 0s
`,
	} {
		if d := cmp.Diff(want, tree(fold(all[name].state.Playbook, all[name].events))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestOutcomes: every outcome that the machine decides has a trace that says it.
func TestOutcomes(t *testing.T) {
	all := lives(t)
	var seen []string
	for name, l := range all {
		spans := fold(l.state.Playbook, l.events)
		if len(spans) == 0 {
			t.Fatalf("%s has no trace: %s", name, l.state.Phase)
		}
		whole(t, l.events, spans)
		for _, kv := range spans[0].Attributes {
			if kv.Key == "responder.outcome" {
				seen = append(seen, kv.Value.GetStringValue())
			}
		}
		if got := fmt.Sprintf("%+v", spans); strings.Contains(got, secret) {
			t.Errorf("%s: the trace has text of evidence, plans, people or alerts:\n%s", name, got)
		}
	}
	for _, want := range machine.Outcomes() {
		if want != machine.OutcomeReleased && !slices.Contains(seen, string(want)) {
			t.Errorf("no run ended %s: %v", want, slices.Sorted(maps.Keys(all)))
		}
	}
}

// A run that goes on has no trace yet, and what happens after its end is not in it.
func TestFoldEnds(t *testing.T) {
	l := lives(t)["resolved"]
	p := l.state.Playbook
	if got := fold(p, l.events[:len(l.events)-1]); got != nil {
		t.Errorf("an open run has a trace: %v", got)
	}
	late := machine.Event{Kind: machine.DecisionIgnored, At: l.now.Add(time.Hour), Decision: ada(true)}
	if d := cmp.Diff(tree(fold(p, l.events)), tree(fold(p, append(slices.Clone(l.events), late)))); d != "" {
		t.Error(d)
	}
}

// TestFoldAnyRun holds what is true of every trace, whatever happened to the run.
func TestFoldAnyRun(t *testing.T) {
	set := loadPlaybooks(t)
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.SampledFrom([]playbook.Autonomy{playbook.Auto, playbook.Suggest, playbook.Observe}).Draw(t, "level")
		l := begin(set, "r-1", rapid.SampledFrom([]string{"slow", "slow", "other"}).Draw(t, "playbook"), level)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			// Clocks of machines are corrected, also backwards.
			l.now = l.now.Add(time.Duration(rapid.SampledFrom([]int{-30, 0, 1, 60, 900}).Draw(t, "seconds")) * time.Second)
			anything(t, l)
		}
		l.now = l.now.Add(time.Minute)
		l.do(machine.Command{Kind: machine.CmdUnpause})
		l.do(machine.Command{Kind: machine.CmdCancel, Decision: ada(false)})
		for range 40 {
			l.now = l.now.Add(time.Hour)
			l.do(machine.Command{Kind: machine.CmdTick})
			l.do(machine.Command{Kind: machine.CmdResolve, Decision: ada(false)})
			l.answer(ok)
		}
		if l.state.Phase != machine.PhaseEnded {
			t.Fatalf("it has not ended: %s", l.state.Phase)
		}
		whole(t, l.events, fold(l.state.Playbook, l.events))
	})
}

// anything happens to a run.
func anything(t *rapid.T, l *life) {
	switch rapid.IntRange(0, 12).Draw(t, "what") {
	case 0:
		l.do(machine.Command{Kind: machine.CmdDecide, Decision: ada(rapid.Bool().Draw(t, "approve"))})
	case 1:
		l.do(machine.Command{Kind: machine.CmdPause, Message: "why"})
	case 2:
		l.do(machine.Command{Kind: machine.CmdUnpause})
	case 3:
		l.do(machine.Command{Kind: machine.CmdResume})
	case 4:
		l.do(machine.Command{Kind: machine.CmdResolve, Decision: ada(rapid.Bool().Draw(t, "applied"))})
	case 5:
		l.do(machine.Command{Kind: machine.CmdTick})
	case 6:
		l.do(machine.Command{Kind: machine.CmdReplan, Decision: ada(true)})
	case 7:
		l.answer(failed(
			rapid.SampledFrom([]machine.Status{machine.StatusFailed, machine.StatusRefused, machine.StatusUnknown, machine.StatusPending, machine.StatusForeign}).Draw(t, "status"),
			rapid.SampledFrom([]fault.Reason{fault.Timeout, fault.Forbidden, fault.Panic, fault.Degraded}).Draw(t, "reason"),
		))
	case 8:
		l.answer(sampled(rapid.SampledFrom([]machine.Verdict{
			machine.VerdictWatching, machine.VerdictWorse, machine.VerdictInconclusive, machine.VerdictFailed, machine.VerdictRecovering,
		}).Draw(t, "verdict")))
	default:
		l.answer(ok)
	}
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// whole holds the rules of traces: one root, each effect of the journal one span,
// no span ends before it begins, children and events within their spans.
func whole(t fataler, events []machine.Event, spans []span) {
	t.Helper()
	effects := map[string]bool{}
	for _, e := range events {
		if e.Kind == machine.EffectStarted {
			effects[e.Effect] = true
		}
	}
	byID, actions := map[string]span{}, 0
	for i, s := range spans {
		if _, twice := byID[string(s.SpanId)]; twice {
			t.Fatalf("span %s has the identifier of another: %x", s.Name, s.SpanId)
		}
		byID[string(s.SpanId)] = s
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Fatalf("span %s ends before it begins: %v", s.Name, s)
		}
		for _, e := range s.Events {
			if e.TimeUnixNano < s.StartTimeUnixNano || e.TimeUnixNano > s.EndTimeUnixNano {
				t.Fatalf("event %s of %s is outside of it", e.Name, s.Name)
			}
		}
		for _, kv := range s.Attributes {
			if kv.Key == "responder.action" && s.Name != "held" {
				actions++
			}
		}
		parent, found := byID[string(s.ParentSpanId)]
		switch {
		case i == 0 && len(s.ParentSpanId) > 0:
			t.Fatalf("the root has a parent")
		case i > 0 && !found:
			t.Fatalf("span %s has no parent before it", s.Name)
		case i > 0 && (s.StartTimeUnixNano < parent.StartTimeUnixNano || s.EndTimeUnixNano > parent.EndTimeUnixNano):
			t.Fatalf("span %v is not within %v", s, parent)
		}
	}
	if actions != len(effects) {
		t.Fatalf("the journal has %d effects, and the trace %d:\n%s", len(effects), actions, tree(spans))
	}
}

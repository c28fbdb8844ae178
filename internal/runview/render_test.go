package runview

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// eventKinds reads the kinds of events from the machine's source, so that a new
// one cannot be forgotten here.
func eventKinds(t *testing.T) []machine.EventKind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "internal", "executor", "machine", "event.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []machine.EventKind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "EventKind" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, machine.EventKind(value))
		}
		return true
	})
	if len(kinds) < 30 {
		t.Fatalf("found only %d kinds of events", len(kinds))
	}
	return kinds
}

// A person reads words, whatever happens in a run; and an event that lacks what
// its kind promises is no reason to crash.
func TestEveryEventHasWords(t *testing.T) {
	for _, kind := range eventKinds(t) {
		what, _ := DescribeEvent(machine.Event{Kind: kind})
		if what == string(kind) {
			t.Errorf("%s is shown as its stored name", kind)
		}
		r := NewRenderer(&strings.Builder{})
		r.Event(machine.Event{Kind: kind, Sample: &machine.Sample{}, Plan: &machine.Plan{}, Guards: []machine.GuardVerdict{{}}})
		if r.Err != nil {
			t.Errorf("%s: %v", kind, r.Err)
		}
	}
}

// A level that the configuration sets in place of the playbook's own is shown with
// its setting, in the head of the run and where it began.
func TestOverrideIsShown(t *testing.T) {
	level := playbook.Auto
	start := machine.Start{Run: "r-1", Playbook: "p", Autonomy: playbook.Auto, Override: &playbook.Override{Levels: playbook.Levels{
		Level: &level, States: map[string]playbook.Autonomy{"rollback": playbook.Suggest}, By: "playbooks.autonomy of responder.yaml",
	}}}
	const want = "auto, rollback suggest, by playbooks.autonomy of responder.yaml"
	if what, _ := DescribeEvent(machine.Event{Kind: machine.RunStarted, Start: &start}); !strings.HasSuffix(what, "; of the playbook: "+want) {
		t.Errorf("it began as %q", what)
	}
	var b strings.Builder
	NewRenderer(&b).Head(machine.State{Start: start})
	if !strings.Contains(b.String(), "\nautonomy  "+want+"\n") {
		t.Errorf("the head is\n%s", b.String())
	}
	start.Override.OfService = &playbook.Levels{States: map[string]playbook.Autonomy{"scale": playbook.Auto}, By: "services[0].autonomy_of of responder.yaml"}
	b.Reset()
	NewRenderer(&b).Head(machine.State{Start: start})
	if text := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(text, "autonomy scale auto, by services[0].autonomy_of of responder.yaml; else "+want+" ") {
		t.Errorf("the head is\n%s", b.String())
	}
}

// People see how far a change is on its way, and how it came to that.
func TestProgressIsShown(t *testing.T) {
	facts := []string{"15:04:05Z argocd/chat: apps/Deployment serving/chat: Waiting for rollout to finish: 1 out of 3 new replicas have been updated"}
	for _, kind := range []machine.EventKind{machine.Settling, machine.Settled, machine.Unwound} {
		if _, details := DescribeEvent(machine.Event{Kind: kind, Message: "now", Facts: facts}); len(details) != 1 || details[0] != facts[0] {
			t.Errorf("%s says %q", kind, details)
		}
	}
	if what, _ := DescribeEvent(machine.Event{Kind: machine.Settling, Message: "2 out of 3"}); what != "taking effect: 2 out of 3" {
		t.Errorf("it stands at %q", what)
	}
}

// Of looks that repeat each other a person sees what is new, and now and then that
// the run still looks.
func TestLooksAreNotRepeated(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lines := Timeline{Brief: true}
	for i, c := range []struct {
		after time.Duration
		kind  machine.EventKind
		facts []string
		want  string
	}{
		{0, machine.WaitLooked, []string{"4 of 5 ready", "142x Unhealthy"}, "does not hold yet: 4 of 5 ready, 142x Unhealthy"},
		{30 * time.Second, machine.WaitLooked, []string{"4 of 5 ready", "148x Unhealthy"}, ""},
		{60 * time.Second, machine.WaitLooked, []string{"5 of 5 ready", "154x Unhealthy"}, "does not hold yet: 5 of 5 ready"},
		{70 * time.Second, machine.WaitLooked, []string{"5 of 5 ready"}, "does not hold yet: "}, // a line is gone
		{80 * time.Second, machine.WaitLooked, []string{"5 of 5 ready"}, ""},
		{90 * time.Second, machine.WaitLooked, []string{"4 of 5 ready"}, "does not hold yet: 4 of 5 ready"}, // as before, and not as it was last
		{2 * time.Minute, machine.WaitLooked, []string{"4 of 5 ready"}, "does not hold yet: 4 of 5 ready"},
		{3 * time.Minute, machine.WaitLooked, []string{"4 of 5 ready"}, ""},
		{4 * time.Minute, machine.WaitLooked, []string{"4 of 5 ready"}, "does not hold yet: 4 of 5 ready"},
		{5 * time.Minute, machine.StateEntered, nil, "state : "},
		{6 * time.Minute, machine.Settling, []string{"in flight: unknown, 24s left"}, "taking effect: in flight: unknown, 24s left"},
		{6 * time.Minute, machine.Settling, []string{"in flight: unknown, 19s left"}, ""},
		{7 * time.Minute, machine.Settling, []string{"in flight: 3, 19s left"}, "taking effect: in flight: 3, 19s left"},
		{7 * time.Minute, machine.Settling, []string{"took 0.2s"}, "taking effect: took 0.2s"},
		{7 * time.Minute, machine.Settling, []string{"took 25s"}, "taking effect: took 25s"},
		{7 * time.Minute, machine.Applied, nil, "APPLIED: "},
		{7 * time.Minute, machine.Settling, []string{"took 25s"}, "taking effect: took 25s"},
	} {
		line, shown := lines.Line(machine.Event{At: at.Add(c.after), Kind: c.kind, Facts: c.facts})
		if got := line.What + ": " + strings.Join(line.Details, ", "); shown != (c.want != "") || shown && got != c.want {
			t.Errorf("%d: shown %v %q, want %q", i, shown, got, c.want)
		}
	}
}

// What a person must be able to tell from a held run: why, and what to type. That comes
// before what the run is about.
func TestHeldRun(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	NewRenderer(&b).Head(machine.State{
		Start: machine.Start{
			Run: "r-1", Playbook: "pb", Digest: "sha256:0123456789abcdef0123", Service: playbook.Service{Name: "serving/chat"},
			Alert: playbook.Alert{Labels: map[string]string{"alertname": "X", "b": "2", "a": "\x1b[2Jevil"}},
		},
		Phase: machine.PhaseHeld, Current: "scale", Updated: at,
		Held: &machine.Hold{Action: machine.ActionApply, Effect: "r-1/scale#1/apply#1", Message: "the answer was cut off"},
	})
	want := `run       r-1
status    held in state scale since 2026-03-01 12:00:00 UTC
held      apply of r-1/scale#1/apply#1: the answer was cut off
          look which is true, then one of:
  responder runs resolve r-1 --applied --reason TEXT
  responder runs resolve r-1 --not-applied --reason TEXT
service   serving/chat
playbook  pb sha256:0123456789ab
alert     X{a="\x1b[2Jevil", b="2"}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What a person must be able to tell from a run that was quarantined: since when
// and why, what it keeps others from, and what to type.
func TestRunSetAside(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := machine.State{
		Start: machine.Start{Run: "r-1", Playbook: "pb", Service: playbook.Service{Name: "chat"}, Alert: playbook.Alert{Labels: map[string]string{"alertname": "X"}}},
		Phase: machine.PhaseHeld, Current: "scale", Updated: at, Lever: &machine.Lever{Plan: &machine.Plan{}},
		Quarantine: &machine.Quarantine{Message: "its playbook no longer compiles", At: at},
	}
	var b strings.Builder
	NewRenderer(&b).Head(s)
	want := `run       r-1
status    quarantined in state scale
quarantine since 2026-03-01 12:00:00 UTC: its playbook no longer compiles
          it holds service:chat; nothing is decided about it any more
          look what it left behind, then:
  responder runs release r-1 --reason TEXT
service   chat
playbook  pb -
alert     X{}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The chart shows the recovery, and a gap as a gap.
func TestCurves(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	var samples []machine.Sample
	for _, v := range []*float64{value(0.8), value(0.4), nil, value(0.1), value(0.05)} {
		samples = append(samples, machine.Sample{Values: []machine.Reading{{Name: "error ratio", Value: v, Limit: 0.1, Op: "<", OK: v != nil && *v < 0.1}}})
	}
	want := []string{"error ratio", "  █▅·▂▁  0.05 < 0.1 ok"}
	if diff := cmp.Diff(want, Curves(samples)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A person who looks at a run sees who is needed, who has said yes, and who is
// told when nobody does.
func TestGateInFull(t *testing.T) {
	opened := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	g := machine.Gate{
		ID: "g", Digest: "sha256:1", Opened: opened, Deadline: opened.Add(15 * time.Minute), OnExpiry: playbook.ExpiryEscalate,
		Needs: []machine.Need{
			{Rule: "playbook bad-rollout, state rollback", From: []string{"user:ada"}, Quorum: 1},
			{Rule: "policy two, policy.yaml:4", From: []string{"group:oncall"}, Quorum: 2, Strong: true},
		},
		BreakGlass: []string{"group:captains"}, NotBy: "user:eve", RemindAt: opened.Add(5 * time.Minute),
		Tiers: []machine.Tier{{After: time.Minute, To: []string{"pager"}}, {After: 10 * time.Minute, To: []string{"boss", "pager"}}}, Told: 1,
		Votes: []machine.Decision{{By: "user:ada", Approve: true, Person: true}, {By: "user:bob", Approve: true, Person: true, Strong: true, Groups: []string{"oncall"}}},
	}
	var b strings.Builder
	r := NewRenderer(&b)
	r.gate("r-1", g, true)
	want := `gate      user:ada (playbook bad-rollout, state rollback) and 2 of group:oncall through strong authentication (policy two, policy.yaml:4), until 2026-11-21 08:15:00 UTC, else escalate
          needs user:ada (playbook bad-rollout, state rollback): user:ada approved
          needs 2 of group:oncall through strong authentication (policy two, policy.yaml:4): user:bob approved
          user:eve started the run and cannot approve it
          people are reminded at 2026-11-21 08:05:00 UTC
          tier 1: pager was told after 1m
          tier 2: boss, pager is told at 2026-11-21 08:10:00 UTC
gate ID   g
next      one of:
  responder approve r-1
  responder deny r-1 --reason TEXT
  responder replan r-1   # a fresh plan
alone     group:captains, by:
  responder approve r-1 --break-glass --reason TEXT
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What a check asked and what a proof measures is said in words; the query
// behind them is for those who want it.
func TestQueriesAreForThoseWhoWantThem(t *testing.T) {
	started := machine.Event{Kind: machine.EffectStarted, Action: machine.ActionCheck, With: map[string]any{"query": "sum(\n  slow\n)", "asks": "slow requests"}}
	found := machine.Event{Kind: machine.CheckCompleted, Facts: []string{"slow requests: 3"}}
	for _, wide := range []bool{false, true} {
		var b strings.Builder
		r := NewRenderer(&b)
		r.Wide = wide
		r.Event(started)
		r.Event(found)
		got := b.String()
		if !strings.Contains(got, "slow requests: 3\n") || strings.Contains(got, "query  sum( slow )\n") != wide {
			t.Errorf("wide %t:\n%s", wide, got)
		}
	}
}

// breaksOfLines end a line for some reader.
var breaksOfLines = []string{"\n", "\r\n", "\r", "\v", "\f", "\u0085", "\u2028", "\u2029"}

// No label, name or message begins a line of its own: not in the head of a run, not
// among its events, not in the timeline that the page shows.
func TestTextFromOutsideForgesNoLine(t *testing.T) {
	for _, br := range breaksOfLines {
		evil := "x" + br + "status    resolved after 3m"
		alert := playbook.Alert{Labels: map[string]string{"alertname": evil, "a" + br + "status    resolved": evil}}
		s := machine.State{
			Start: machine.Start{Run: "r-1", Playbook: "pb", Service: playbook.Service{Name: evil}, Alert: alert}, Current: evil, Paused: evil,
			Held: &machine.Hold{Effect: "e", Message: evil}, Gate: &machine.Gate{Text: evil, NotBy: evil, Needs: []machine.Need{{Rule: evil}}},
		}
		var whole strings.Builder
		r := NewRenderer(&whole)
		r.Head(s)
		decision := &machine.Decision{By: evil, Reason: evil}
		for _, e := range []machine.Event{
			{Kind: machine.EpisodeJoined, Alert: &alert},
			{Kind: machine.EdgeTaken, To: evil, Message: evil, Examined: []machine.Examined{{Edge: evil, Why: evil, Values: []string{evil}}}},
			{Kind: machine.CheckCompleted, Facts: []string{evil}, Gathered: []machine.Gathered{{Name: "a", Facts: []string{evil}}}},
			{Kind: machine.Applied, Message: evil, Waits: evil},
			{Kind: machine.GateDecided, Decision: decision},
			{Kind: machine.GuardsRefused, Guards: []machine.GuardVerdict{{Guard: "g", Why: evil}}},
			{Kind: machine.PlanCompleted, Plan: &machine.Plan{Summary: evil, Notes: []string{evil}, Diff: []machine.FieldChange{{Path: "p", From: evil, To: evil}}}},
		} {
			r.Event(e)
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		for line := range strings.Lines(whole.String()) {
			if strings.HasPrefix(line, "status    resolved") || strings.ContainsAny(line, "\r\v\f\u0085\u2028\u2029") {
				t.Errorf("%q forges the line %q", br, line)
			}
		}
		var timeline Timeline
		line, _ := timeline.Line(machine.Event{Kind: machine.CheckCompleted, Facts: []string{evil}, Message: evil})
		if strings.Contains(line.What+strings.Join(line.Details, ""), br) {
			t.Errorf("%q is left in %+v", br, line)
		}
	}
}

func FuzzInline(f *testing.F) {
	for _, br := range breaksOfLines {
		f.Add("a" + br + "b")
	}
	f.Add("\u202edeliver\u2066 \x1b[2J \U000e0041 \ufeff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Inline(s) {
			if r == '\n' || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
				t.Errorf("%q is shown with %q", s, r)
			}
		}
	})
}

// A question whether a change is taken back has a digest of its own, which people name
// outside a terminal: it is there, whole, wherever the question is.
func TestTakeBackShowsItsDigest(t *testing.T) {
	digest := "undo:sha256:" + strings.Repeat("0123456789abcdef", 4)
	g := &machine.Gate{ID: "r-1/scale#1/gate#2", Undo: true, Digest: digest, Text: "scale out: no effect. Take it back?"}
	s := machine.State{Start: machine.Start{Run: "r-1"}, Gate: g, Lever: &machine.Lever{Plan: &machine.Plan{Summary: "scale out"}}}
	for name, write := range map[string]func(r *Renderer){
		"asked":   func(r *Renderer) { r.Question(s) },
		"watched": func(r *Renderer) { r.Event(machine.Event{Kind: machine.GateOpened, Gate: g}) },
	} {
		var out strings.Builder
		r := NewRenderer(&out)
		r.Width = Width
		write(r)
		if !strings.Contains(out.String(), " "+digest+"\n") || r.Err != nil {
			t.Errorf("%s (%v):\n%s", name, r.Err, out.String())
		}
	}
}

// TestExpiredQuestion: a question that one of two people approved in time does not read as
// one that nobody answered.
func TestExpiredQuestion(t *testing.T) {
	ada := machine.Decision{By: "user:ada", Approve: true, Reason: "so"}
	gate := machine.Gate{Needs: []machine.Need{{From: []string{"user:ada", "user:bob"}, Quorum: 2}}}
	voted := gate
	voted.Votes = []machine.Decision{ada}
	for want, e := range map[string]machine.Event{
		"nobody decided in time": {Kind: machine.GateExpired, Gate: &gate},
		"1 approved in time, still needed was 2 of user:ada, user:bob": {Kind: machine.GateExpired, Gate: &voted},
		"approved by user:ada: so; others are still needed":            {Kind: machine.GateVoted, Decision: &ada},
	} {
		if what, _ := DescribeEvent(e); what != want {
			t.Errorf("%s: %q, want %q", e.Kind, what, want)
		}
	}
}

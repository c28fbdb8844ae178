package demo

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/slo"
)

var demoMorning = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func TestChart(t *testing.T) {
	at := func(minutes float64) time.Time { return demoMorning.Add(time.Duration(minutes * float64(time.Minute))) }
	c := chart{from: at(0), to: at(10), ascii: true, marks: []mark{{at(4), "a", "alert"}, {at(7), "f", "fix"}, {at(60), "x", "outside"}}}
	for i := range 41 {
		m := float64(i) / 4
		v := 0.0
		switch {
		case m >= 9:
			v = math.NaN()
		case m >= 3 && m < 7:
			v = 1
		case m >= 7 && m < 8:
			v = 0.5
		}
		c.points = append(c.points, slo.Point{At: at(m), Value: v})
	}
	got := strings.Join(c.lines(), "\n")
	for _, want := range []string{" 100% |", "  50% |", "a 09:04 alert  f 09:07 fix", "09:00"} {
		if !strings.Contains(got, want) {
			t.Errorf("the chart has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "outside") {
		t.Errorf("a mark outside of the chart is shown:\n%s", got)
	}
	lines := c.lines()
	top, bottom := lines[0], lines[chartRows-1]
	column := func(line string, minutes float64) byte {
		i := detailIndent + 7 + c.column(at(minutes))
		if i >= len(line) {
			return ' '
		}
		return line[i]
	}
	for _, p := range []struct {
		minutes     float64
		top, bottom byte
	}{{1, ' ', '.'}, {5, '#', '#'}, {7.5, ' ', '#'}, {8.5, ' ', '.'}, {9.75, ' ', ' '}} {
		if column(top, p.minutes) != p.top || column(bottom, p.minutes) != p.bottom {
			t.Errorf("at minute %v the chart shows %q over %q, want %q over %q:\n%s",
				p.minutes, column(top, p.minutes), column(bottom, p.minutes), p.top, p.bottom, got)
		}
	}
	if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r > 127 }) {
		t.Error("a chart for a plain terminal has characters beyond ASCII")
	}
}

func TestRepairSplitsTheTimeByWhatIsWaitedFor(t *testing.T) {
	at := func(s int) time.Time { return demoMorning.Add(time.Duration(s) * time.Second) }
	events := []machine.Event{
		{Kind: machine.RunStarted, At: at(100), Start: &machine.Start{Alert: playbook.Alert{StartsAt: at(60)}}},
		{Kind: machine.GateOpened, At: at(110)},
		{Kind: machine.GateDecided, At: at(140)},
		{Kind: machine.EffectStarted, Action: machine.ActionApply, At: at(141)},
		{Kind: machine.Settled, At: at(200)},
		{Kind: machine.VerifyEnded, At: at(260)},
		{Kind: machine.EffectStarted, Action: machine.ActionUndo, At: at(261)},
		{Kind: machine.Unwound, At: at(300)},
		{Kind: machine.RunEnded, At: at(304)},
	}
	want := []runview.Phase{{Name: "detect", Took: 60 * time.Second}, {Name: "notify", Took: 40 * time.Second}, {Name: "decide", Took: 15 * time.Second}, {Name: "approval", Took: 30 * time.Second}, {Name: "act", Took: 60 * time.Second}, {Name: "verify", Took: 60 * time.Second}, {Name: "undo", Took: 39 * time.Second}}
	if diff := cmp.Diff(want, runview.Phases(at(0), events)); diff != "" {
		t.Errorf("where the time went (-want +got):\n%s", diff)
	}
}

// What a run hands over was told and waited for once.
func TestReportOfAHandover(t *testing.T) {
	at := func(s int) time.Time { return demoMorning.Add(time.Duration(s) * time.Second) }
	alert := playbook.Alert{StartsAt: at(60), Labels: map[string]string{"alertname": "InferenceTTFTFastBurn"}}
	events := []machine.Event{
		{Kind: machine.RunStarted, At: at(100), Start: &machine.Start{Alert: alert}},
		{Kind: machine.RunEnded, At: at(200), Ending: &machine.Ending{Outcome: machine.OutcomeDiverted, Divert: "gpu-fault"}},
		{Kind: machine.RunStarted, At: at(201), Start: &machine.Start{Alert: alert, Playbook: "gpu-fault", DivertedFrom: "r-1"}},
		{Kind: machine.RunEnded, At: at(301), Ending: &machine.Ending{Outcome: machine.OutcomeResolved}},
	}
	want := []runview.Phase{{Name: "detect", Took: 60 * time.Second}, {Name: "notify", Took: 40 * time.Second}, {Name: "decide", Took: 200 * time.Second}}
	if diff := cmp.Diff(want, runview.Phases(at(0), events)); diff != "" {
		t.Errorf("where the time went (-want +got):\n%s", diff)
	}
	w, err := sandbox.New("gpu-fault", sandbox.NewManualClock(demoMorning))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, m := range timeline(w, events) {
		told = append(told, m.What)
	}
	text := strings.Join(told, "\n")
	if strings.Count(text, "fires") != 1 || !strings.Contains(text, "the run of playbook gpu-fault starts") {
		t.Errorf("the timeline says\n%s", text)
	}
}

func TestWrapKeepsWithinTheWidth(t *testing.T) {
	got := runview.Wrap("a fact "+strings.Repeat("x", 30)+" and more", 12)
	for _, l := range got {
		if utf8.RuneCountInString(l) > 12 {
			t.Errorf("%q is wider than 12", l)
		}
	}
	if strings.ReplaceAll(strings.Join(got, ""), " ", "") != "afact"+strings.Repeat("x", 30)+"andmore" {
		t.Errorf("wrapping lost text: %q", got)
	}
}

// Text from outside must not steer the terminal.
func TestScreenIsPlainAndSafe(t *testing.T) {
	var b bytes.Buffer
	s := newScreen(&b, func(string) string { return "" })
	s.at(demoMorning, red, "an alert\x1b[2J says %s", strings.Repeat("much ", 40))
	s.detail(plain, "fact\x07")
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > runview.Width {
			t.Errorf("%d columns: %q", n, line)
		}
		if strings.ContainsAny(line, "\x1b\x07") {
			t.Errorf("a control character reached the terminal: %q", line)
		}
	}
}

// Whoever decides has seen the evidence, the change, its risk, the guards, how it
// is proven and what undoes it before the question.
func TestTheQuestionComesAfterWhatADecisionNeeds(t *testing.T) {
	t.Parallel()
	clock, err := sandbox.NewClock(time.Now(), 40)
	if err != nil {
		t.Fatal(err)
	}
	w, err := sandbox.New("bad-rollout", clock)
	if err != nil {
		t.Fatal(err)
	}
	_, shown := playDemo(t, w)
	before, _, asked := strings.Cut(shown, "Approval needed: Rollback")
	if !asked {
		t.Fatalf("nobody is asked:\n%s", shown)
	}
	for _, want := range []string{
		"state triage: Triage", "runs revision 3, changed", "release 2026.47", "containers[vllm].args", "- 512", "+ 8192", "risk    medium: ", "ready   4 now", "ok      cooldown: ",
		"verify  ", "ttft: 99 % of requests good, within 0.5 s", "worse: it is taken back at once", "undo    ", "asks group:ml-platform", "else escalate",
	} {
		if !strings.Contains(before, want) {
			t.Errorf("%q is not shown before the question:\n%s", want, before)
		}
	}
}

func TestAnswererTakesYesAndNoOnly(t *testing.T) {
	for in, want := range map[string]bool{"y\n": true, "what?\n\nYES\n": true, "n\n": false} {
		a := newAnswerer(newScreen(&bytes.Buffer{}, func(string) string { return "" }), strings.NewReader(in))
		got, err := a.ask(t.Context())
		if err != nil || got.approve != want {
			t.Errorf("%q: %+v, %v; want approve %t", in, got, err, want)
		}
	}
	a := newAnswerer(newScreen(&bytes.Buffer{}, func(string) string { return "" }), strings.NewReader("hm\n"))
	if got, err := a.ask(t.Context()); err == nil || got.approve {
		t.Errorf("the end of the input approves: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a = &answerer{screen: newScreen(&bytes.Buffer{}, func(string) string { return "" }), lines: make(chan string)}
	if got, err := a.ask(ctx); err == nil || got.approve {
		t.Errorf("an interrupt approves: %+v, %v", got, err)
	}
}

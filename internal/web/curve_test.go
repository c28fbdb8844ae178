package web

import (
	"context"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

func TestCurveLine(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name   string
		values []float64
		path   string
		words  string
	}{
		{"nothing", nil, "", "no values"},
		{"only gaps", []float64{nan, inf, math.Inf(-1)}, "", "no values"},
		{"one value is a dot", []float64{10}, "M0 0.0h1", "peak 10×, last 10×"},
		{"a gap", []float64{1, 10, nan, 10, 1}, "M0 90.0L50 0.0M150 0.0L200 90.0", "peak 10×, last 1×"},
		{"infinite is a gap", []float64{1, inf, 1}, "M0 90.0h1M100 90.0h1", "peak 1×, last 1×"},
		{"none is the bottom", []float64{0, -3, 0.001}, "M0 180.0L50 180.0L100 180.0", "peak below 0.1×, last below 0.1×"},
		{"a large one fits", []float64{1e6, 1}, "M0 0.0L50 154.3", "peak 1000000×, last 1×"},
	} {
		curve := burning(c.values...)
		l := curve.Lines[0]
		if got := l.path(curve, scaleOf(curve, plotHeight)); got != c.path {
			t.Errorf("%s: path %s, want %s", c.name, got, c.path)
		}
		if got := l.words(curve); got != c.words {
			t.Errorf("%s: %q, want %q", c.name, got, c.words)
		}
		if curve.drawable() != (c.path != "") {
			t.Errorf("%s: drawable is %t", c.name, curve.drawable())
		}
	}
	late := burning(1, 2, 3)
	late.Lines[0].Points = append(late.Lines[0].Points[:1:1], CurvePoint{late.From.Add(-time.Hour), 9}, CurvePoint{late.From.Add(5 * time.Minute), 2}, CurvePoint{late.To.Add(time.Hour), 9})
	if got := late.Lines[0].path(late, scaleOf(late, plotHeight)); strings.Count(got, "M") != 2 {
		t.Errorf("a distance without values is no gap, or values outside are drawn: %s", got)
	}
	late.To = late.From
	if late.drawable() {
		t.Error("a curve over no time is drawn")
	}
}

func TestTicks(t *testing.T) {
	for _, span := range []time.Duration{time.Second, time.Minute, 31 * time.Minute, 90 * time.Minute, 7 * time.Hour, 30 * time.Hour, 9 * 24 * time.Hour, 400 * 24 * time.Hour} {
		s := scale{from: now, span: span}
		ticks := s.ticks()
		if len(ticks) > 7 || span > 5*time.Minute && len(ticks) < 2 {
			t.Errorf("%s: %d ticks", span, len(ticks))
		}
	}
}

// Labels of marks do not cover each other, stay on the page, and are bounded.
func TestMarks(t *testing.T) {
	c := burning(1)
	d := &runData{Run: machine.State{}}
	d.Run.Start.Alert.StartsAt = c.From.Add(3*time.Minute + time.Second)
	for i := range 20 {
		at := c.From.Add(time.Duration(i) * 61 * time.Second)
		d.Changes = append(d.Changes, &change{Applied: at, Settled: at.Add(time.Second), Judged: at.Add(2 * time.Second), Verdict: "no effect", Undone: c.To.Add(time.Hour)})
	}
	marks := marksOf(d, c, scaleOf(c, 1))
	if len(marks) != maxMarks+2 {
		t.Errorf("%d marks", len(marks))
	}
	s := scaleOf(c, 1)
	for i, a := range marks {
		left, right := labelSpan(a, s)
		if left < 0 || right > 100 {
			t.Errorf("%s from %.0f to %.0f", a.Name, left, right)
		}
		for _, b := range marks[:i] {
			if l, r := labelSpan(b, s); a.Row == b.Row && l < right && left < r {
				t.Errorf("%s and %s in row %d", a.Name, b.Name, a.Row)
			}
		}
	}
}

// The bar of the phases says in words what it shows, and has no width where nothing is known.
func TestPhases(t *testing.T) {
	all := recorded(t, "resolved")
	asks := upTo(t, all, machine.GateOpened, 1)
	now := asks[len(asks)-1].At.Add(5 * time.Minute)
	for _, c := range []struct {
		name    string
		events  []machine.Event
		skipped uint64
		want    []string
	}{
		{"open", asks, 0, []string{"notify", "decide", "approval"}},
		{"ended", all, 0, []string{"notify", "decide", "approval", "act", "verify"}},
		{"its beginning is not read", all, 3, nil},
		{"unreadable", nil, 0, nil},
	} {
		got := phases(fold(c.events), c.events, c.skipped, now)
		var names []string
		var total time.Duration
		for _, p := range got {
			names = append(names, p.Name)
			total += p.Took
		}
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.name == "open" && total != now.Sub(asks[0].Start.Alert.StartsAt) {
			t.Errorf("open: %s in all", total)
		}
		var out strings.Builder
		if v := phasesView(&runData{Phases: got}); v != nil {
			if err := v.Render(&out); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(out.String(), "<li>"); n != len(got) {
			t.Errorf("%s: %d of %d phases in words", c.name, n, len(got))
		}
	}
}

// A page is asked for the curve only when somebody sees it, and every picture has a name.
func TestPictures(t *testing.T) {
	events := recorded(t, "resolved")
	h := &house{}
	h.add(fold(events), events...)
	s, asked := site(t, h), 0
	s.o.Curve = func(context.Context, machine.State) (Curve, error) { asked++; return burning(1, 2), nil }
	path := "/runs/" + h.runs[0].Start.Run
	look(t, s, ada, http.MethodHead, path)
	if asked != 0 {
		t.Error("HEAD asks for the curve")
	}
	body := look(t, s, ada, http.MethodGet, path).Body.String()
	for _, tag := range regexp.MustCompile(`<svg class[^>]*>`).FindAllString(body, -1) {
		if !strings.Contains(tag, `role="img" aria-label="`) && !strings.Contains(tag, `aria-hidden="true"`) {
			t.Errorf("a picture without a name: %s", tag)
		}
	}
	if asked != 1 || strings.Count(body, `role="img"`) < 2 {
		t.Errorf("asked %d times, %d pictures", asked, strings.Count(body, `role="img"`))
	}
}

// What the condition of the newest edge read comes first; other lines of a check are folded.
func TestDecidedFirst(t *testing.T) {
	events := upTo(t, recorded(t, "resolved"), machine.GateOpened, 1)
	run := fold(events)
	run.Evidence = map[string]*machine.Evidence{
		"slo":     {Step: "slo.burn", At: now, Facts: []string{"it burns"}},
		"changes": {Step: "service.changes", At: now.Add(time.Minute), Facts: []string{"it began after the release", "two", "three"}},
	}
	events = append(events, machine.Event{Kind: machine.EdgeTaken, At: now, Examined: []machine.Examined{
		{Result: playbook.False, Values: []string{"slo.status = met"}},
		{Result: playbook.True, Values: []string{"changes.found = true"}},
	}})
	h := &house{}
	h.add(run, events...)
	body := look(t, site(t, h), ada, http.MethodGet, "/runs/"+run.Start.Run).Body.String()
	for _, want := range []string{"changes <span", ">decided the way<", "<p>it began after the release</p>", "2 more lines</summary>", "slo <small>", "it burns"} {
		i := strings.Index(body, want)
		if i < 0 {
			t.Fatalf("lacks %q, or has it too early", want)
		}
		body = body[i:]
	}
}

func TestChangeLinks(t *testing.T) {
	const sha = "0123456789abcdef0123456789abcdef01234567"
	got := Links{}.changeLinks([]*change{
		{Receipt: []byte(`{"revision":"3"}`)},
		{Receipt: []byte(`not JSON`)},
		{Receipt: []byte(`{"revision":"` + sha + `"}`)},
		{Waits: "https://forge.example/acme/fleet/pull/7", Receipt: []byte(`{"revision":"` + sha + `"}`)},
		{Waits: "javascript:alert(1)"},
	})
	of := Links{Commit: func(repository, revision string) string { return repository + "/-/commit/" + revision }}
	got = append(got, of.changeLinks([]*change{{Plan: &machine.Plan{Payload: []byte(`{"repository":"https://git.example/fleet"}`)}, Receipt: []byte(`{"revision":"` + sha + `"}`)}})...)
	want := []address{
		{Name: "Commit 012345678", Text: sha},
		{Name: "Pull request 7", URL: "https://forge.example/acme/fleet/pull/7"},
		{Name: "Commit 012345678", Text: sha, URL: "https://forge.example/acme/fleet/commit/" + sha},
		{Name: "Commit 012345678", Text: sha, URL: "https://git.example/fleet/-/commit/" + sha},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

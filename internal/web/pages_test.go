package web

import (
	"context"
	"errors"
	"flag"
	"math"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
)

var update = flag.Bool("update", false, "write the golden files")

// ornament is what is the same on every page: style, script, icon.
var ornament = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<link rel="icon"[^>]*>`)

// blocks are the tags before which a golden file breaks the line; a page is one.
var blocks = regexp.MustCompile(`<(?:(?:/?(?:html|head|body|header|nav|main|section|aside|ul|ol|div|dl|details|form|svg)|path|rect|meta|title|noscript|footer|h\d|p|li|dt|pre|label|textarea|button)[ >]|a class="(?:name|run)")`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name + ".html"
	got = blocks.ReplaceAllString(ornament.ReplaceAllString(got, ""), "\n$0") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// cases are a run in each of the states that people meet it in, and what its
// page has to offer and must not.
func cases(t *testing.T) map[string]struct {
	events  []machine.Event
	change  func(*machine.State, *house)
	visitor Visitor
	has     []string
	lacks   []string
} {
	resolved := recorded(t, "resolved")
	applying := upTo(t, resolved, machine.EffectStarted, 7)
	last := applying[len(applying)-1]
	held := append(applying[:len(applying):len(applying)], machine.Event{
		Kind: machine.RunHeld, At: last.At.Add(time.Minute), State: last.State, Effect: last.Effect, Action: machine.ActionApply, Message: "the answer was cut off",
	})
	type c = struct {
		events  []machine.Event
		change  func(*machine.State, *house)
		visitor Visitor
		has     []string
		lacks   []string
	}
	asks := upTo(t, resolved, machine.GateOpened, 1)
	return map[string]c{
		"open":       {events: asks, visitor: ada, has: []string{`class="bar wait"`, `href="#decide"`, "peak 95×, last 0.2×", `/approve"`, `/deny"`, `/replan"`, `/cancel"`, "0 of 1"}, lacks: []string{"breakGlass", "/resolve", "noscript"}},
		"open_eve":   {events: asks, visitor: eve, has: []string{"You cannot decide this", "Who can: group:ml-platform, user:anonymous", `/cancel"`}, lacks: []string{`/approve"`, `/deny"`}},
		"open_read":  {events: asks, visitor: reader, has: []string{"You cannot decide here", "lacks the right approve on service", "Who can: group:ml-platform"}, lacks: []string{"<form", "<textarea"}},
		"running":    {events: upTo(t, resolved, machine.Sampled, 3), visitor: ada, has: []string{"Newest sample", "Newest sample", "APPLIED", "noscript"}, lacks: []string{`/approve"`}},
		"resolved":   {events: resolved, visitor: ada, has: []string{"resolved", "APPROVED by user:anonymous (cli)", ">verified<", "earlier event"}, lacks: []string{"<form", "noscript", `class="bar`}},
		"denied":     {events: recorded(t, "denied"), visitor: ada, has: []string{"escalated", "DENIED by user:anonymous (cli): the deploy is the cause"}, lacks: []string{"<form"}},
		"held":       {events: held, visitor: ada, has: []string{`class="bar bad"`, `href="#held"`, `/resolve"`, `name="applied" value="false"`, "the answer was cut off"}, lacks: []string{`/approve"`}},
		"held_read":  {events: held, visitor: reader, has: []string{"lacks the right resolve on service"}, lacks: []string{"<form"}},
		"quarantine": {events: asks, change: quarantined, visitor: ada, has: []string{`/release"`, "its playbook no longer compiles"}, lacks: []string{`/approve"`, `/cancel"`}},
		"unreadable": {events: asks, change: unreadable, visitor: ada, has: []string{"cannot be read", "No chart: no answer from Prometheus in time.", "audit verify"}, lacks: []string{"disk went away"}},
	}
}

func quarantined(s *machine.State, _ *house) {
	s.Quarantine = &machine.Quarantine{At: s.Updated, Message: "its playbook no longer compiles"}
}

func unreadable(_ *machine.State, h *house) { h.broken = errors.New("disk went away") }

func TestRunPages(t *testing.T) {
	for name, c := range cases(t) {
		h := &house{}
		run := fold(c.events)
		if c.change != nil {
			c.change(&run, h)
		}
		h.add(run, c.events...)
		s := site(t, h)
		s.o.Curve = func(context.Context, machine.State) (Curve, error) {
			if name == "unreadable" {
				return Curve{}, errors.New("no answer from Prometheus in time")
			}
			return burning(0, 0.5, math.NaN(), 12, 90, 95, 40, 3, 0.2), nil
		}
		w := look(t, s, c.visitor, http.MethodGet, "/runs/"+run.Start.Run)
		body := w.Body.String()
		for _, s := range c.has {
			if !strings.Contains(body, s) {
				t.Errorf("%s: lacks %q", name, s)
			}
		}
		for _, s := range c.lacks {
			if strings.Contains(ornament.ReplaceAllString(body, ""), s) {
				t.Errorf("%s: has %q", name, s)
			}
		}
		golden(t, name, body)
	}
}

// Nothing loads more than a bounded number of runs, events or entries.
func TestBounds(t *testing.T) {
	h := &house{note: "responder\n2\nHASH\n\n— sig\n"}
	for i := range uint64(500) {
		h.entries = append(h.entries, Entry{Seq: i, Stream: "run/r-1", Kind: "k"})
	}
	run := fold(upTo(t, recorded(t, "resolved"), machine.GateOpened, 1))
	run.Head = 5000
	for i := range 500 {
		r := run
		r.Start.Run = "r-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		h.add(r)
	}
	s := site(t, h)
	body := look(t, s, ada, http.MethodGet, "/").Body.String()
	if n := strings.Count(body, `class="run"`); n != maxShown || !strings.Contains(body, "450 more: ") {
		t.Errorf("%d runs", n)
	}
	look(t, s, ada, http.MethodGet, "/history?outcome=resolved")
	if h.asked > readRuns {
		t.Errorf("looks at %d runs", h.asked)
	}
	if look(t, s, ada, http.MethodGet, "/runs/r-a"); h.from != 4000 {
		t.Errorf("reads events from %d of 5000", h.from)
	}
	long := machine.Event{Kind: machine.CheckCompleted, Facts: make([]string, 5000)}
	h.events["r-a"] = append(make([]machine.Event, 4000), long)
	if body := look(t, s, ada, http.MethodGet, "/runs/r-a").Body.String(); !strings.Contains(body, "and 4960 more") || len(body) > 100_000 {
		t.Errorf("evidence of 5000 lines makes a page of %d bytes", len(body))
	}
	for _, c := range []struct{ query, first, last, older, newer string }{
		{"", ">499<", ">450<", "?before=450", ""},
		{"?before=450", ">449<", ">400<", "?before=400", "?before=500"},
		{"?before=20", ">19<", ">0<", "", "?before=70"},
		{"?before=99999999", ">499<", ">450<", "?before=450", ""},
		{"?before=0", "", "", "", "?before=50"},
	} {
		h.read = 0
		body := look(t, s, ada, http.MethodGet, "/audit"+c.query).Body.String()
		for _, want := range []string{c.first, c.last, c.older, c.newer, "— sig"} {
			if !strings.Contains(body, want) {
				t.Errorf("audit%s lacks %q", c.query, want)
			}
		}
		if h.read > pageEntries+1 || c.older == "" && strings.Contains(body, ">Older<") || c.newer == "" && strings.Contains(body, ">Newer<") {
			t.Errorf("audit%s: read %d entries", c.query, h.read)
		}
	}
	h.note, h.read = "", 0
	if body := look(t, s, ada, http.MethodGet, "/audit").Body.String(); !strings.Contains(body, "Part of the log cannot be read") {
		t.Error("a log without a checkpoint looks fine")
	}
}

// HEAD answers with the headers alone, and its tag changes when the page does.
func TestHead(t *testing.T) {
	all := recorded(t, "resolved")
	tags := map[string]bool{}
	for _, events := range [][]machine.Event{upTo(t, all, machine.GateOpened, 1), all} {
		h := &house{}
		h.add(fold(events), events...)
		s := site(t, h)
		path := "/runs/" + h.runs[0].Start.Run
		head, got := look(t, s, ada, http.MethodHead, path), look(t, s, ada, http.MethodGet, path)
		tag := head.Header().Get("ETag")
		if head.Code != 200 || head.Body.Len() > 0 || tag == "" || tag != got.Header().Get("ETag") || !strings.Contains(got.Body.String(), `data-tag="`+strings.Trim(tag, `W/"`)+`"`) {
			t.Errorf("HEAD: %d, %d bytes, %s", head.Code, head.Body.Len(), tag)
		}
		tags[tag] = true
	}
	if len(tags) != 2 {
		t.Errorf("the tag does not change: %v", tags)
	}
	for _, path := range []string{"/", "/history", "/services", "/nodes", "/playbooks", "/alerts", "/audit", "/ladder", "/policy"} {
		if w := look(t, site(t, &house{}), ada, http.MethodHead, path); w.Code != 200 || w.Body.Len() > 0 {
			t.Errorf("HEAD %s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
	}
}

// A table links the runs that it names, and shows nothing else of a cell as markup.
func TestTablesLinkRuns(t *testing.T) {
	body := look(t, site(t, &house{}), ada, http.MethodGet, "/ladder").Body.String()
	if !strings.Contains(body, `<a href="./runs/r-00VHNCZB00N00H1NY9WZ9Q4QAJ">r-00VHNCZB00N00H1NY9WZ9Q4QAJ</a>`) || strings.Contains(body, "<b>chat") {
		t.Error(body)
	}
}

// TestRunByItsBeginning: a part of an ID that was copied from a table or a chat leads to its
// run, and never to one of several.
func TestRunByItsBeginning(t *testing.T) {
	h := &house{}
	for _, id := range []string{"r-01JDXYZBBBBBBBBBBBBBBBBBBB", "r-01JDXYZAAAAAAAAAAAAAAAAAAA", "r-01JAAAAAAAAAAAAAAAAAAAAAAA"} {
		h.runs = append(h.runs, machine.State{Start: machine.Start{Run: id}})
	}
	s := site(t, h)
	for begin, want := range map[string]string{
		"r-01JDXYZB": "./r-01JDXYZBBBBBBBBBBBBBBBBBBB", "r-01jdxyza": "./r-01JDXYZAAAAAAAAAAAAAAAAAAA", "01JA": "./r-01JAAAAAAAAAAAAAAAAAAAAAAA",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if w := look(t, s, ada, method, "/runs/"+begin); w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
				t.Errorf("%s %s: %d to %q, want %q", method, begin, w.Code, w.Header().Get("Location"), want)
			}
		}
	}
	for begin, want := range map[string]string{
		"r-01JDXYZ": "&#34;r-01JDXYZ&#34; is the beginning of several runs, the newest are r-01JDXYZBBBBBBBBBBBBBBBBBBB and r-01JDXYZAAAAAAAAAAAAAAAAAAA: write more of it",
		"r-01JE":    "no run &#34;r-01JE&#34;", "DXYZB": "no run &#34;DXYZB&#34;", "r-01JDXYZBBBBBBBBBBBBBBBBBBBB": "no run",
	} {
		if w := look(t, s, ada, http.MethodGet, "/runs/"+begin); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d, lacks %q: %s", begin, w.Code, want, w.Body)
		}
	}
	if h.asked > readRuns {
		t.Errorf("%d runs are read", h.asked)
	}
}

func TestNowhere(t *testing.T) {
	for _, path := range []string{"/nowhere", "/runs/", "/runs/r-1", "/runs/r-1/approve", "/audit/", "/runs/" + strings.Repeat("x", 5000)} {
		w := look(t, site(t, &house{}), ada, http.MethodGet, path)
		if w.Code != http.StatusNotFound || w.Body.Len() > 20_000 {
			t.Errorf("%.40s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a site that shows nothing is made")
	}
}

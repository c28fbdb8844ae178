package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// received are alerts of every kind.
func received(t *testing.T) *house {
	t.Helper()
	events := recorded(t, "resolved")
	run := fold(events)
	seen := func(ago time.Duration) time.Time { return now.Add(-ago) }
	h := &house{alerts: []api.ReceivedAlert{
		{
			Episode: "8c1f03d2@2026-11-22T00:00:00Z", Firing: true, Starts: seen(10 * time.Minute), Seen: seen(time.Minute), Became: "unmatched", Entry: 7,
			Labels: map[string]string{"alertname": "TTFTHigh", "namespace": "serving", "service": "chat"}, Reason: "no playbook matches", Nearest: "inference-slo-breach",
			Mismatches: []string{`alertname="InferenceTTFTFastBurn": it is "TTFTHigh"`, `severity="page": the alert has none`}, Remedy: "extend the match of one",
			Repeats: 2, Repeated: seen(time.Minute), Source: "https://prometheus.example/graph?g0.expr=x",
		},
		{Episode: "9d@2026-11-22T00:01:00Z", Firing: true, Seen: seen(2 * time.Minute), Became: "run", Labels: run.Start.Alert.Labels, Runs: []string{"r-archived", run.Start.Run}},
		{Episode: "aa@2026-11-22T00:01:00Z", Seen: seen(3 * time.Minute), Resolved: seen(3 * time.Minute), Became: "resolved", Labels: map[string]string{"alertname": "Short"}},
		{Episode: "bb@2026-11-22T00:01:00Z", Firing: true, Seen: seen(4 * time.Minute), Became: "paused", Reason: "everything is paused by user:ada: load test", Labels: map[string]string{"alertname": "InferenceTTFTFastBurn", "service": "Search"}, Remedy: "lift the pause"},
		{Episode: "bb@2026-11-21T00:01:00Z", Seen: seen(time.Hour), Became: "quarantined", Reason: "its notification could not be processed"},
	}}
	h.add(run, events...)
	return h
}

func TestAlertPages(t *testing.T) {
	s := site(t, received(t))
	s.o.Links.Alertmanager = func(uint64) string { return "https://alertmanager.example" }
	golden(t, "alerts", look(t, s, ada, http.MethodGet, "/alerts").Body.String())
	golden(t, "alert_unmatched", look(t, s, ada, http.MethodGet, "/alerts?alert=8c1f03d2").Body.String())
	golden(t, "alert_run", look(t, s, reader, http.MethodGet, "/alerts?alert=9d%402026-11-22T00:01:00Z").Body.String())
	golden(t, "alert_others", look(t, s, ada, http.MethodGet, "/alerts?alert=bb").Body.String())
}

// A search finds what it is for, and tells how far it looked.
func TestAlertSearch(t *testing.T) {
	s := site(t, received(t))
	for query, want := range map[string]struct{ names, says string }{
		"":                                    {"TTFTHigh InferenceTTFTFastBurn Short InferenceTTFTFastBurn bb", "5 alerts, the most recently seen first."},
		"?text=search":                        {"InferenceTTFTFastBurn", "1 alert, the"},
		"?text=8C1F":                          {"TTFTHigh", "1 alert, the"},
		"?text=8c1f03d2@2026-11-22T00:00:00Z": {"TTFTHigh", "1 alert, the"},
		"?text=nothing":                       {"", "No known alert matches."},
		"?became=paused":                      {"InferenceTTFTFastBurn", "1 alert, the"},
		"?became=no+playbook":                 {"TTFTHigh", "1 alert, the"},
		"?became=no+run":                      {"TTFTHigh Short InferenceTTFTFastBurn bb", "4 alerts, the"},
		"?became=no+run&state=firing":         {"TTFTHigh InferenceTTFTFastBurn", "2 alerts, the"},
		"?state=resolved":                     {"Short bb", "2 alerts, the"},
		"?state=resolved&became=joined":       {"", "No known alert matches."},
	} {
		body := look(t, s, ada, http.MethodGet, "/alerts"+query).Body.String()
		var names []string
		for _, part := range strings.Split(body, `<a class="run" href="./alerts?`)[1:] {
			name, _, _ := strings.Cut(part, "</b>")
			names = append(names, name[strings.LastIndex(name, ">")+1:])
		}
		if got := strings.Join(names, " "); got != want.names || !strings.Contains(body, want.says) {
			t.Errorf("%s: found %q, want %q and %q", query, got, want.names, want.says)
		}
	}
	if body := look(t, site(t, &house{}), ada, http.MethodGet, "/alerts").Body.String(); !strings.Contains(body, "No alert was received.") {
		t.Error("an empty list is not said to be one")
	}
}

// Of many alerts a page reads and shows a bounded number, and says so.
func TestAlertBounds(t *testing.T) {
	h := &house{}
	for i := range 2000 {
		h.alerts = append(h.alerts, api.ReceivedAlert{Episode: fmt.Sprintf("%04x@x", i), Seen: now, Became: "unmatched", Labels: map[string]string{"alertname": fmt.Sprintf("n%d", i%100)}})
	}
	s := site(t, h)
	for query, want := range map[string]struct {
		shown int
		says  string
		older string
	}{
		"":                       {50, "50 alerts, the most recently seen first.", "?skip=50"},
		"?skip=50":               {50, "50 alerts, the", "?skip=100"},
		"?skip=1960":             {40, "40 alerts, the", ""},
		"?skip=2000":             {0, "No older alert is known.", ""},
		"?text=n7":               {50, "50 of 475 alerts match. Older looks further back.", "?skip=475&amp;text=n7"},
		"?skip=475&text=n7":      {50, "50 of 433 alerts match.", "?skip=908&amp;text=n7"},
		"?text=n77":              {5, "5 of 500 alerts match. Older looks further back.", "?skip=500&amp;text=n77"},
		"?text=nobody":           {0, "None of these 500 alerts matches. Older looks further back.", "?skip=500&amp;text=nobody"},
		"?text=nobody&skip=1500": {0, "No older alert is known.", ""},
		"?became=paused":         {0, "None of these 500 alerts matches.", "?became=paused&amp;skip=500"},
	} {
		body := look(t, s, ada, http.MethodGet, "/alerts"+query).Body.String()
		older := ""
		if before, _, ok := strings.Cut(body, `">Older<`); ok {
			older = before[strings.LastIndex(before, `"`)+1:]
		}
		if n := strings.Count(body, `<a class="run"`); n != want.shown || !strings.Contains(body, want.says) || older != want.older {
			t.Errorf("%s: %d alerts, Older is %q, want %d, %q and %q", query, n, older, want.shown, want.says, want.older)
		}
	}
	many := make([]string, 500)
	for i := range many {
		many[i] = fmt.Sprintf("r-%d", i)
	}
	h.alerts = []api.ReceivedAlert{{Episode: "a@x", Became: "run", Runs: many}}
	if body := look(t, s, ada, http.MethodGet, "/alerts?alert=a").Body.String(); !strings.Contains(body, "490 older runs of it.") || !strings.Contains(body, "r-499 is not known any more") {
		t.Error("the runs of an alert are not counted")
	}
}

// What cannot be is refused, and what is not there is not found.
func TestAlertPagesRefuse(t *testing.T) {
	s := site(t, received(t))
	for query, want := range map[string]struct {
		as   error
		says string
	}{
		"?became=unmatched":                 {ErrInvalid, `became: "unmatched" is none: it is one of no run, run, joined,`},
		"?state=on":                         {ErrInvalid, `state: "on" is none: it is one of firing, resolved`},
		"?text=" + strings.Repeat("x", 999): {ErrInvalid, "text: 999 characters are too many"},
		"?alert=":                           {ErrNotFound, `no alert "" is known`},
		"?alert=ffff":                       {ErrNotFound, `no alert "ffff" is known. Those of the last 14 days`},
	} {
		err := s.Page(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/alerts"+query, http.NoBody), ada)
		if !errors.Is(err, want.as) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v, want %q", query, err, want.says)
		}
	}
}

// Few pages read many notifications at the same time; the others are told.
func TestAlertsInTurn(t *testing.T) {
	s := site(t, received(t))
	for range pagesAtOnce {
		s.turns <- struct{}{}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	if err := s.Page(w, httptest.NewRequest(http.MethodGet, "/alerts", http.NoBody).WithContext(gone), ada); err != nil || w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "Too many people look through the alerts") {
		t.Errorf("%v, %d", err, w.Code)
	}
	<-s.turns
	if w := look(t, s, ada, http.MethodGet, "/alerts"); w.Code != http.StatusOK {
		t.Errorf("with a turn: %d", w.Code)
	}
}

// The page is behind when an entry of the log is newer, but not for each of many.
func TestAlertsTag(t *testing.T) {
	h := received(t)
	s := site(t, h)
	later := now
	s.o.Now = func() time.Time { return later }
	tag := func() string { return look(t, s, ada, http.MethodHead, "/alerts").Header().Get("ETag") }
	before := tag()
	if before == "" || before != tag() {
		t.Errorf("the tag of an unchanged page: %q", before)
	}
	h.entries = append(h.entries, Entry{Kind: string(machine.RunStarted)})
	if tag() != before {
		t.Error("the tag changes with each entry")
	}
	if later = later.Add(alertsEach); tag() == before {
		t.Error("the tag does not change with the log")
	}
	if tag := look(t, s, ada, http.MethodHead, "/alerts?skip=50").Header().Get("ETag"); tag != "" {
		t.Errorf("an older page has the tag %q", tag)
	}
}

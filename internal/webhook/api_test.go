package webhook

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// get asks as read and decodes a successful answer.
func get[T any](t testing.TB, s *Server, path string) T {
	t.Helper()
	return decoded[T](t, ask(s, http.MethodGet, path, readToken, nil))
}

func decoded[T any](t testing.TB, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if w.Code != http.StatusOK || w.Header().Get("Access-Control-Allow-Origin") != "" || len(w.Result().Cookies()) > 0 {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return v
}

// The door that a decision came through is the route, not what the client calls itself.
func TestDoorOfADecision(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	for path, door := range map[string]string{"/api/v1/runs/r-1/cancel": "api", "/runs/r-1/cancel": "web"} {
		body, kind := `{"reason":"no"}`, "application/json"
		if door == "web" {
			body, kind = "reason=no", "application/x-www-form-urlencoded"
		}
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+decideToken)
		r.Header.Set("Content-Type", kind)
		r.Header.Set("User-Agent", "responder/1.0")
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if n := len(h.commands); n == 0 || h.commands[n-1].Decision.Channel != door {
			t.Errorf("%s: %d commands, the last over %+v", path, n, h.commands)
		}
	}
}

// What is decided comes from the body, who decides from the credential.
func TestDecisions(t *testing.T) {
	plan := machine.Decision{By: "user:decide", Groups: []string{"g-decide"}, Channel: "api"}
	for _, c := range []struct {
		verb, body string
		want       func(*machine.Decision)
		kind       machine.CommandKind
	}{
		{"approve", ``, func(d *machine.Decision) { d.Approve = true }, machine.CmdDecide},
		{"approve", `{"digest":"sha256:1","gate":"g","reason":"fine"}`, func(d *machine.Decision) {
			d.Approve, d.Digest, d.Gate, d.Reason = true, "sha256:1", "g", "fine"
		}, machine.CmdDecide},
		{"approve", `{"breakGlass":true,"reason":"all asleep"}`, func(d *machine.Decision) {
			d.Approve, d.BreakGlass, d.Reason = true, true, "all asleep"
		}, machine.CmdDecide},
		{"replan", ``, func(*machine.Decision) {}, machine.CmdReplan},
		{"replan", `{"gate":"g","digest":"sha256:1","reason":"the node is back"}`, func(d *machine.Decision) {
			d.Digest, d.Gate, d.Reason = "sha256:1", "g", "the node is back"
		}, machine.CmdReplan},
		{"deny", `{"reason":"no"}`, func(d *machine.Decision) { d.Reason = "no" }, machine.CmdDecide},
		{"cancel", `{"reason":"no"}`, func(d *machine.Decision) { d.Reason = "no" }, machine.CmdCancel},
		{"resolve", `{"applied":true,"reason":"seen"}`, func(d *machine.Decision) { d.Approve, d.Reason = true, "seen" }, machine.CmdResolve},
		{"resolve", `{"applied":false,"reason":"seen"}`, func(d *machine.Decision) { d.Reason = "seen" }, machine.CmdResolve},
		{"release", `{"reason":"replicas are 4"}`, func(d *machine.Decision) { d.Reason = "replicas are 4" }, machine.CmdRelease},
	} {
		h := newHouse()
		s := mustNew(t, options(t, h))
		w := ask(s, http.MethodPost, "/api/v1/runs/r-1/"+c.verb, decideToken, strings.NewReader(c.body))
		if got := decoded[api.RunDetail](t, w); got.Run.Run != "r-1" || got.Run.Events != 1 {
			t.Errorf("%s %s: answered %+v, want the run as it is afterwards", c.verb, c.body, got.Run)
		}
		want := plan
		c.want(&want)
		if diff := cmp.Diff([]machine.Command{{Kind: c.kind, Decision: &want}}, h.commands, cmpopts.IgnoreFields(machine.Command{}, "Now")); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.verb, c.body, diff)
		}
		if len(h.commands) > 0 && h.commands[0].Now.IsZero() {
			t.Errorf("%s: no time", c.verb)
		}
	}
}

func TestDecisionsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		path, body string
		refuse     error
		status     int
		message    string
	}{
		{"r-1/deny", ``, nil, 400, "reason: missing"},
		{"r-1/deny", `{"reason":"x","breakGlass":true}`, nil, 400, "breakGlass: only approve takes it: everyone who is asked can deny alone"},
		{"r-1/approve", `{"breakGlass":true}`, nil, 400, "reason: missing"},
		{"r-1/replan", `{"breakGlass":true}`, nil, 400, "replan takes gate, digest and reason only"},
		{"r-1/deny", `{"reason":" \n\t "}`, nil, 400, "reason: missing"},
		{"r-1/cancel", `{}`, nil, 400, "reason: missing"},
		{"r-1/cancel", `{"reason":"  "}`, nil, 400, "reason: missing"},
		{"r-1/cancel", `{"reason":"x","gate":"g"}`, nil, 400, "cancel takes reason only"},
		{"r-1/resolve", `{"reason":"x"}`, nil, 400, "applied: missing: true if the change is made, false if it is not"},
		{"r-1/resolve", `{"applied":true}`, nil, 400, "reason: missing"},
		{"r-1/release", `{}`, nil, 400, "reason: missing"},
		{"r-1/release", `{"reason":"x","applied":true}`, nil, 400, "release takes reason only"},
		{"r-1/approve", `{"applied":true}`, nil, 400, "applied: only resolve takes it"},
		{"r-1/approve", `{"by":"user:root"}`, nil, 400, `body: unknown field "by"`},
		{"r-1/approve", `{"groups":["owners"]}`, nil, 400, `body: unknown field "groups"`},
		{"r-1/cancel", `{"reason":"x","reason":"y"}`, nil, 400, `body: has the field "reason" twice`},
		{"r-1/cancel", `{"reason":"x","ReaSon":"y"}`, nil, 400, `body: has the field "ReaSon" twice`},
		{"r-1/cancel", `{"reason":"x","rea\u017Fon":"y"}`, nil, 400, `body: has the field "reaſon" twice`},
		{"r-1/approve", `{} {}`, nil, 400, "body: has data after the JSON object"},
		{"r-1/approve", `{"reason":"` + "\xff" + `"}`, nil, 400, "body: invalid UTF-8"},
		{"r-1/approve", `{"reason":"\u001b[2J"}`, nil, 400, "reason: has control characters"},
		{"r-1/approve", `{"reason":"` + strings.Repeat("é", 2001) + `"}`, nil, 400, "reason: longer than 2000 characters"},
		{"r-1/approve", `{"reason":"` + strings.Repeat("x", 70000) + `"}`, nil, 413, "the body is larger than 65536 bytes"},
		{"r-9/approve", ``, nil, 404, `no run "r-9"`},
		{"r-1/approve", ``, fmt.Errorf("%w: no gate is open", ErrConflict), 409, "not possible in the present state: no gate is open"},
		{"r-1/approve", ``, fmt.Errorf("%w: ask ada", ErrForbidden), 403, "not allowed to decide this: ask ada"},
		{"r-1/approve", ``, fmt.Errorf("%w: bad digest", ErrInvalid), 400, "invalid request: bad digest"},
		{"r-1/approve", ``, ErrNotFound, 404, "not found"},
		{"r-1/approve", ``, ErrUnavailable, 503, "the journal cannot take it now"},
		{"r-1/approve", ``, io.ErrShortWrite, 500, "internal error"},
	} {
		h := newHouse()
		h.refuse = c.refuse
		w := ask(mustNew(t, options(t, h)), http.MethodPost, "/api/v1/runs/"+c.path, decideToken, strings.NewReader(c.body))
		if p := problemIn(t, w); w.Code != c.status || p.Message != c.message {
			t.Errorf("%s %.60s: %d %q, want %d %q", c.path, c.body, w.Code, p.Message, c.status, c.message)
		}
		if len(h.commands) != 0 {
			t.Errorf("%s %.60s: commanded", c.path, c.body)
		}
	}
}

func TestRuns(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for query, want := range map[string]string{"": "r-2 r-1", "?service=chat": "r-1", "?open=true": "r-1", "?open=0": "r-2", "?limit=1": "r-2", "?begins=r-2": "r-2", "?service=none": ""} {
		var got []string
		for _, r := range get[api.RunList](t, s, "/api/v1/runs"+query).Runs {
			got = append(got, r.Run)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	list := ask(s, http.MethodGet, "/api/v1/runs", readToken, nil).Body.String()
	one := ask(s, http.MethodGet, "/api/v1/runs/r-1", readToken, nil).Body.String()
	for _, field := range []string{`"evidence":`, `"path":`, `"alerts":`} {
		if strings.Contains(list, field) || !strings.Contains(one, field) {
			t.Errorf("%s belongs to a run and not to the list:\n%s\n%s", field, list, one)
		}
	}
	if run := get[api.RunDetail](t, s, "/api/v1/runs/r-1").Run; run.Evidence == nil {
		t.Errorf("evidence is missing: %+v", run)
	}
	if w := ask(s, http.MethodGet, "/api/v1/runs?service=none", readToken, nil); !strings.HasPrefix(w.Body.String(), `{"runs":[],"now":"20`) {
		t.Errorf("no runs are %s", w.Body)
	}
	for _, bad := range []string{"?limit=0", "?limit=1001", "?limit=x", "?open=maybe", "/r-1/events?from=-1", "/r-1/events?follow=x"} {
		if w := ask(s, http.MethodGet, "/api/v1/runs"+bad, readToken, nil); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
}

// What a report says of error budgets is asked about a run that there is, within seconds.
func TestBudgetOfARun(t *testing.T) {
	const path = "/api/v1/runs/r-1/budget"
	if w := ask(mustNew(t, options(t, newHouse())), http.MethodGet, path, readToken, nil); w.Code != http.StatusNotFound {
		t.Errorf("a service that does not know: %d", w.Code)
	}
	o := options(t, newHouse())
	o.Spent = func(ctx context.Context, run machine.State, _ []machine.Event) api.RunBudget {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("it may take any time")
		}
		return api.RunBudget{Spent: []api.IncidentSpending{{Objective: "of " + run.Start.Service.Name}}}
	}
	s := mustNew(t, o)
	if got := get[api.RunBudget](t, s, path).Spent; len(got) != 1 || got[0].Objective != "of chat" {
		t.Errorf("%+v", got)
	}
	if w := ask(s, http.MethodGet, "/api/v1/runs/r-none/budget", readToken, nil); w.Code != http.StatusNotFound {
		t.Errorf("no run: %d", w.Code)
	}
	if w := ask(s, http.MethodGet, path, intakeToken, nil); w.Code != http.StatusForbidden {
		t.Errorf("a sender of alerts: %d", w.Code)
	}
}

func TestEventsAreFollowedFromWhereTheyWereLeft(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	url := serve(t, s)
	open := func(query string) *bufio.Scanner {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/runs/r-1/events"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+readToken)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shut(t, resp.Body) })
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", query, resp.StatusCode)
		}
		return bufio.NewScanner(resp.Body)
	}
	next := func(lines *bufio.Scanner) string {
		if !lines.Scan() {
			return "end"
		}
		var e api.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		return fmt.Sprintf("%d %s %s", e.Seq, e.Kind, e.State)
	}
	want := func(lines *bufio.Scanner, events ...string) {
		t.Helper()
		for _, w := range events {
			if got := next(lines); got != w {
				t.Fatalf("got %s, want %s", got, w)
			}
		}
	}
	want(open(""), "0 run.started ", "1 state.entered triage", "end")
	want(open("?from=5"), "end")
	lines := open("?follow=1&from=1")
	want(lines, "1 state.entered triage")
	h.happen("r-1", machine.PhaseChecking, machine.EffectStarted)
	want(lines, "2 effect.started s")
	h.happen("r-1", machine.PhaseEnded, machine.CheckCompleted, machine.RunEnded)
	want(lines, "3 check.completed s", "4 run.ended s", "end")
	want(open("?follow=1&from=4"), "4 run.ended s", "end")
}

func TestStreamsAreBoundedAndEndWithTheServer(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	for range maxStreams {
		s.streams <- struct{}{}
	}
	if w := ask(s, http.MethodGet, "/api/v1/runs/r-1/events?follow=1", readToken, nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one stream too many: %d", w.Code)
	}
	<-s.streams
	close(s.stopping)
	if w := ask(s, http.MethodGet, "/api/v1/runs/r-1/events?follow=1", readToken, nil); w.Code != http.StatusOK || strings.Count(w.Body.String(), "\n") != 2 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestPauses(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	if w := ask(s, http.MethodGet, "/api/v1/pauses", readToken, nil); strings.TrimSpace(w.Body.String()) != `{"pauses":[]}` {
		t.Errorf("no pauses are %s", w.Body)
	}
	w := ask(s, http.MethodPost, "/api/v1/pauses", decideToken, strings.NewReader(`{"service":"chat","reason":"storm"}`))
	want := []api.Pause{{Scope: "service:chat", Service: "chat", By: "user:decide", Reason: "storm"}}
	list := decoded[api.PauseList](t, w)
	if diff := cmp.Diff(want, list.Pauses, cmpopts.IgnoreFields(api.Pause{}, "Since")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if list.Note != `no service in the catalog is named "chat": the pause stops nothing now, and holds if one with this name appears` {
		t.Errorf("a service that nobody knows: %q", list.Note)
	}
	if w := ask(s, http.MethodPost, "/api/v1/pauses", decideToken, strings.NewReader(`{"service":"chat"}`)); w.Code != http.StatusBadRequest {
		t.Errorf("a pause without a reason: %d", w.Code)
	}
	if w := ask(s, http.MethodPost, "/api/v1/pauses", decideToken, strings.NewReader(`{"intake":true,"service":"chat","reason":"storm"}`)); w.Code != http.StatusBadRequest {
		t.Errorf("the intake of one service: %d", w.Code)
	}
	if w := ask(s, http.MethodDelete, "/api/v1/pauses?intake=perhaps", decideToken, nil); w.Code != http.StatusBadRequest {
		t.Errorf("lifting an unclear pause: %d", w.Code)
	}
	if w := ask(s, http.MethodDelete, "/api/v1/pauses?service=other", decideToken, nil); w.Code != http.StatusNotFound {
		t.Errorf("lifting what is not there: %d", w.Code)
	}
	if w := ask(s, http.MethodDelete, "/api/v1/pauses?service=chat", decideToken, strings.NewReader(`{"playbook":"p"}`)); w.Code != http.StatusBadRequest {
		t.Errorf("lifting two things at once: %d", w.Code)
	}
	if got := decoded[api.PauseList](t, ask(s, http.MethodDelete, "/api/v1/pauses?service=chat&reason=over", decideToken, nil)).Pauses; len(got) != 0 {
		t.Errorf("still paused: %v", got)
	}
	for name, strange := range map[string]bool{"p": false, "q": true} {
		w := ask(s, http.MethodPost, "/api/v1/pauses", decideToken, strings.NewReader(`{"playbook":"`+name+`","reason":"storm"}`))
		if got := decoded[api.PauseList](t, w).Note; (got != "") != strange {
			t.Errorf("playbook %s: %q", name, got)
		}
	}
	h.pauses = []Pause{{Playbook: "p"}}
	if got := decoded[api.PauseList](t, ask(s, http.MethodDelete, "/api/v1/pauses", decideToken, strings.NewReader(`{"playbook":"p"}`))).Pauses; len(got) != 0 {
		t.Errorf("still paused: %v", got)
	}
}

func TestAuditPages(t *testing.T) {
	h := newHouse()
	for i := range uint64(6) {
		stream := []string{"intake", "run/r-1", "run/r-2"}[i%3]
		h.entries = append(h.entries, api.Entry{Seq: i, Stream: stream, Kind: []string{"a", "b"}[i%2], Data: json.RawMessage(`{"n":1}`)})
	}
	s := mustNew(t, options(t, h))
	for query, want := range map[string]string{
		"":                         "[0 1 2 3 4 5] 6 false",
		"?from=4":                  "[4 5] 6 false",
		"?limit=2":                 "[0 1] 2 true",
		"?limit=6":                 "[0 1 2 3 4 5] 6 false",
		"?stream=intake":           "[0 3] 6 false",
		"?stream=run/":             "[1 2 4 5] 6 false",
		"?stream=run/r-1&kind=a":   "[4] 6 false",
		"?stream=run":              "[] 6 false",
		"?kind=b&limit=1&from=2":   "[3] 4 true",
		"?from=9":                  "[] 9 false",
		"?stream=run/r-1&limit=1&": "[1] 2 true",
	} {
		page := get[api.AuditPage](t, s, "/api/v1/audit"+query)
		seqs := []uint64{}
		for _, e := range page.Entries {
			seqs = append(seqs, e.Seq)
		}
		if got := fmt.Sprint(seqs, page.Next, page.More); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if w := ask(s, http.MethodGet, "/api/v1/audit/checkpoint", readToken, nil); !strings.HasPrefix(w.Body.String(), "responder\n2\n") {
		t.Errorf("checkpoint: %d %s", w.Code, w.Body)
	}
}

func TestExportIsWholeOrBroken(t *testing.T) {
	for _, cutShort := range []bool{false, true} {
		h := newHouse()
		h.cutShort = cutShort
		url := serve(t, mustNew(t, options(t, h)))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/audit/export", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+adminToken)
		resp, err := http.DefaultClient.Do(r)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(resp.Body)
			if err := resp.Body.Close(); err != nil && !cutShort {
				t.Error(err)
			}
		}
		if cutShort != (err != nil) || !cutShort && string(data) != "half whole" {
			t.Errorf("cut short %v: %q, %v", cutShort, data, err)
		}
	}
}

func TestHealthAndReadiness(t *testing.T) {
	o := options(t, newHouse())
	missing := []string{"journal is being checked"}
	o.Ready = func() []string { return missing }
	s := mustNew(t, o)
	if w := ask(s, http.MethodGet, "/healthz", "", nil); w.Code != http.StatusOK {
		t.Errorf("healthz: %d", w.Code)
	}
	w := ask(s, http.MethodGet, "/readyz", "", nil)
	var r api.Readiness
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusServiceUnavailable || r.Ready || !slices.Equal(r.Missing, missing) {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
	missing = nil
	if w := ask(s, http.MethodGet, "/readyz", "", nil); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != `{"ready":true,"missing":[]}` {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
}

func TestListsAndRouting(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for path, want := range map[string]string{
		"/api/v1/playbooks": `{"playbooks":[{"playbook":"p","digest":"","source":"","autonomy":"suggest","start":"","states":0}]}`,
		"/api/v1/services":  `{"services":[]}`,
		"/api/v1/version":   `{"version":"v1"}`,
	} {
		if w := ask(s, http.MethodGet, path, readToken, nil); strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for request, want := range map[string]int{
		"PUT /": 405, "PUT /api/v1/alertmanager": 405, "POST /healthz": 405, "GET /nothing": 404, "GET /api/v1/runs/r-1/nothing": 404, "GET /metrics": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		if w := ask(s, method, path, readToken, nil); w.Code != want {
			t.Errorf("%s: %d, want %d", request, w.Code, want)
		} else if want == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s: no Allow header", request)
		}
	}
	bare := mustNew(t, Options{Intake: newHouse(), Logger: s.log, Auth: options(t, newHouse()).Auth})
	for _, path := range []string{"runs", "runs/r-1", "runs/r-1/events", "pauses", "audit", "audit/checkpoint", "journal", "playbooks", "services", "version", "report"} {
		if w := ask(bare, http.MethodGet, "/api/v1/"+path, readToken, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s of a server without it: %d", path, w.Code)
		}
	}
}

// alertsOf answers with what it was asked for.
type alertsOf struct{ got *AlertFilter }

func (a alertsOf) Alerts(f AlertFilter) api.AlertList {
	*a.got = f
	return api.AlertList{Alerts: []api.ReceivedAlert{}}
}

// TestAlertsAreSelected: what selects alerts arrives, and what is no such thing is refused.
func TestAlertsAreSelected(t *testing.T) {
	var got AlertFilter
	o := options(t, newHouse())
	o.Alerts = alertsOf{&got}
	s := mustNew(t, o)
	code := func(query string) int { return ask(s, http.MethodGet, "/api/v1/alerts"+query, readToken, nil).Code }
	if code := code("?firing=false&no_run=true&alert=8c1f&limit=7"); code != http.StatusOK || got.Firing == nil || *got.Firing || !got.NoRun || got.Episode != "8c1f" || got.Limit != 7 {
		t.Errorf("%d %+v", code, got)
	}
	for _, query := range []string{"?firing=perhaps", "?no_run=2", "?limit=0", "?limit=x"} {
		if code := code(query); code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, code)
		}
	}
}

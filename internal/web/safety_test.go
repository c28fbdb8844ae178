package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// evil is text from outside that tries to be something else.
var evil = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	`</style><script>alert(1)</script>`,
	`</textarea></form><form action=//evil.example>`,
	`javascript:alert(1)`,
	`{{.Run}}`,
	"\u202egnp.exe\u2066\x1b[2J\x00",
	"<!--", "]]>", "&lt;script&gt;",
	`<svg onload=alert(1)>`, `</title></svg><script>alert(1)</script>`,
}

// poisoned is a run in which every text from outside is s.
func poisoned(t *testing.T, s string) (machine.State, []machine.Event) {
	events := upTo(t, recorded(t, "resolved"), machine.Sampled, 1)
	run := fold(upTo(t, recorded(t, "resolved"), machine.GateOpened, 1))
	a := run.Start.Alert
	a.Labels = map[string]string{"alertname": s, s: s}
	a.Annotations = map[string]string{"summary": s, "runbook_url": s, "dashboard": s}
	a.GeneratorURL = s
	run.Start.Alert, run.Start.Playbook, run.Start.Service.Name, run.Start.Digest = a, s, s, s
	for k, e := range run.Episodes.All() {
		run.Episodes = run.Episodes.With(k, &machine.Episode{Alert: a, Firing: true, Since: e.Since})
	}
	run.Evidence = map[string]*machine.Evidence{s: {Step: s, Facts: []string{s}}}
	run.Path = append(run.Path, machine.Visit{State: s, Edge: s})
	g := *run.Gate
	g.Text, g.NotBy, g.BreakGlass = s, s, []string{s}
	g.Needs = append(g.Needs, machine.Need{Rule: s, From: []string{s}, Quorum: 2})
	g.Votes = []machine.Decision{{Approve: true, By: s, Reason: s}}
	g.Tiers = []machine.Tier{{To: []string{s}}}
	run.Gate = &g
	run.Paused, run.Cancel, run.Current = s, &machine.Decision{By: s, Reason: s}, s
	for i := range events {
		e := &events[i]
		e.Message, e.State, e.Facts = s, s, []string{s}
		if e.Decision != nil {
			e.Decision = &machine.Decision{By: s, Channel: s, Reason: s, Approve: true}
		}
		if e.Plan != nil {
			p := *e.Plan
			p.Summary, p.Undo, p.Why, p.Lacks, p.Notes, p.Target.Name, p.Risk = s, s, s, s, []string{s}, s, machine.Risk(s)
			p.Diff = []machine.FieldChange{{Path: s, From: s, To: s}}
			e.Plan = &p
		}
		for j := range e.Guards {
			e.Guards[j] = machine.GuardVerdict{Guard: s, Why: s}
		}
		if e.Sample != nil {
			e.Sample = &machine.Sample{Message: s, Values: []machine.Reading{{Name: s, Op: s, Why: fault.Reason(s)}}}
		}
	}
	return run, events
}

// poisonedService is a service in which every text is s.
func poisonedService(s string) playbook.Service {
	w := playbook.Workload{Kind: s, Name: s}
	return playbook.Service{
		Name: s, Namespace: s, Workload: w, Engine: s, Model: s, Owners: []string{s}, GitOps: playbook.GitOps{Application: s, Repository: s, Path: s},
		SLOs: []playbook.SLO{{Name: s, Objective: 0.99, Model: s, Route: s, By: s}},
	}
}

// poisonedPlaybook is a playbook in which every text that people write is s.
func poisonedPlaybook(t *testing.T, s string) *playbook.Playbook {
	t.Helper()
	p := *small(t, "poisoned")
	p.Title, p.Description, p.Runbook, p.Source, p.Digest = s, s, s, s, s
	for _, st := range p.States {
		st.Title, st.Step = s, s
		if st.Approve != nil {
			st.Approve.By = []string{s}
		}
		for i := range st.Next {
			st.Next[i].Label = s
		}
	}
	return &p
}

// active matches what a browser would run, load or send somewhere, if text
// could become markup. What a page has by itself is taken out first.
var active = regexp.MustCompile(`(?i)<script|<img|<iframe|<svg|<form[^>]*evil|(href|src|action|formaction)="?\s*(javascript|data|vbscript):|\{\{|[\x00\x1b\x{202e}\x{2066}]`)

// handler matches a handler of events in a tag whose quoted values are taken out.
var handler = regexp.MustCompile(`(?i)<[a-z][^>]*\son[a-z]+=`)

var quoted = regexp.MustCompile(`="[^"]*"`)

func TestInjection(t *testing.T) {
	for _, s := range evil {
		run, events := poisoned(t, s)
		h := &house{note: s, entries: []Entry{{Stream: s, Kind: s, What: s}, {Seq: 1, Stream: "run/" + s}}}
		h.add(run, events...)
		run.Start.Run = "r-quarantined"
		run.Quarantine = &machine.Quarantine{Message: s}
		h.add(run, events...)
		run.Start.Run, run.Quarantine, run.Gate, run.Held = "r-held", nil, nil, &machine.Hold{Action: machine.Action(s), Message: s}
		h.add(run, events...)
		h.pauses = []Pause{{Scope: s, Service: s, By: s, Reason: s}, {Scope: s, Playbook: s, By: s, Reason: s}}
		h.health = []Health{{Name: s, State: Failing, Text: s}}
		h.services = []playbook.Service{poisonedService(s)}
		h.nodes = runview.NodePageOf(api.NodeList{Unknown: []string{s}, Nodes: []api.Node{{
			Node: s, Ready: "true", Cordoned: true, CordonedBy: s, Taken: true, Run: s, Conditions: []string{s}, Claims: []string{s}, Waits: []api.NodeWait{{Text: s, Run: s}},
			GPUs: api.NodeGPUs{Verdict: s, Why: []string{s}, Source: s, Read: now}, Services: []api.NodeService{{Service: s}},
		}, {Node: s, Cause: s}}})
		h.playbooks, h.doubt = []*playbook.Playbook{poisonedPlaybook(t, s)}, errors.New(s)
		h.applied = []Applied{{Playbook: s, Mode: s, Tone: "bad", Why: s, Levers: []LeverStanding{{State: s, Kind: s, Level: s, HeldBy: s, Next: s}}}}
		h.budgets = []Budget{{Objective: s, Value: s, Why: s}}
		h.alerts = []api.ReceivedAlert{{
			Episode: "f@x", Labels: map[string]string{"alertname": s, s: s}, Firing: true, Became: s, Reason: s, Nearest: s, Mismatches: []string{s}, Remedy: s, Source: s,
		}, {Episode: "f@w", Became: "run", Runs: []string{s, h.runs[0].Start.Run}}}
		page := site(t, h)
		page.o.Curve = func(_ context.Context, run machine.State) (Curve, error) {
			if run.Held != nil {
				return Curve{}, errors.New(s)
			}
			c := burning(0, 1, 2)
			c.Objective, c.Lines[0].Window = s, s
			return c, nil
		}
		for _, path := range []string{
			"/", "/runs/" + h.runs[0].Start.Run, "/runs/r-quarantined", "/runs/r-held", "/audit", "/ladder", "/policy", "/history", "/services", "/playbooks",
			"/history?" + url.Values{"service": {s}, "playbook": {s}, "run": {s}}.Encode(), "/services?" + url.Values{"name": {s}}.Encode(),
			"/services?" + url.Values{"service": {s}}.Encode(), "/nodes", "/audit?" + url.Values{"person": {s}, "kind": {s}}.Encode(), "/audit?entry=0", "/playbooks?playbook=poisoned",
			"/alerts", "/alerts?" + url.Values{"text": {s}}.Encode(), "/alerts?alert=f", "/alerts?alert=f@w",
		} {
			for _, v := range []Visitor{{Name: s, Groups: []string{"ml-platform"}, Person: true, Lacks: nothing}, {Name: s}} {
				w := look(t, page, v, http.MethodGet, path)
				body := strings.ReplaceAll(ornament.ReplaceAllString(w.Body.String(), ""), `<svg class="`, "") // its own pictures
				markup := quoted.ReplaceAllString(body, `=""`)
				if w.Code != 200 || active.MatchString(strings.ReplaceAll(body, "{{.Run}}", "")) || handler.MatchString(markup) {
					t.Errorf("%s with %q: %d: %q", path, s, w.Code, active.FindString(body)+handler.FindString(markup))
				}
			}
		}
		w := look(t, page, ada, http.MethodGet, "/nowhere")
		r, _ := http.NewRequest(http.MethodGet, "/", http.NoBody)
		page.Problem(w, r, Problem{Status: 400, Message: s, Hint: s})
		if body := ornament.ReplaceAllString(w.Body.String(), ""); active.MatchString(strings.ReplaceAll(body, "{{.Run}}", "")) || handler.MatchString(quoted.ReplaceAllString(body, `=""`)) {
			t.Errorf("a problem with %q: %q", s, active.FindString(body))
		}
	}
}

// A word in the address is none of ours, and no text of the address is shown;
// a word of success that the run's events do not bear out is not believed.
func TestWordsOfTheAddress(t *testing.T) {
	events := upTo(t, recorded(t, "resolved"), machine.GateOpened, 1)
	at := events[len(events)-1].At
	ignored := machine.Event{Kind: machine.DecisionIgnored, At: at, State: "s", Decision: &machine.Decision{By: "user:ada"}, Message: "not yours"}
	voted := machine.Event{Kind: machine.GateVoted, At: at, State: "s", Decision: &machine.Decision{By: "user:ada", Approve: true, Reason: "it is"}}
	for _, c := range []struct {
		word string
		more []machine.Event
		want []string // empty: nothing is said
	}{
		{"approve", nil, nil},
		{"approve", []machine.Event{ignored}, nil},
		{"approve", []machine.Event{voted}, []string{`notice good" role="alert"`, "Your decision is recorded", "approved by user:ada: it is"}},
		{"release", nil, nil},
		{"<script>", nil, nil},
		{"evil words", nil, nil},
		{"stale", []machine.Event{ignored}, []string{`notice bad" role="alert"`, "no longer the current one", "decision of user:ada ignored: not yours"}},
		{"late", []machine.Event{voted, ignored}, []string{"Too late", "Your earlier decision: approved by user:ada: it is"}},
		{"again", []machine.Event{voted}, []string{"already counts"}},
		{"forbidden", nil, []string{"you may not decide this"}},
		{"reason", nil, []string{"a denial needs a reason"}},
	} {
		h := &house{}
		h.add(fold(events), append(events, c.more...)...)
		body := look(t, site(t, h), ada, http.MethodGet, "/runs/"+h.runs[0].Start.Run+"?said="+strings.ReplaceAll(c.word, " ", "+")).Body.String()
		if said := strings.Contains(body, `role="alert"`); said != (c.want != nil) || strings.Contains(body, "evil words") {
			t.Errorf("%s: says something: %v", c.word, said)
		}
		for _, s := range c.want {
			if !strings.Contains(body, s) {
				t.Errorf("%s: lacks %q", c.word, s)
			}
		}
	}
}

// A label of 100 KB is cut, a diff is shown whole.
func TestLargeValues(t *testing.T) {
	large := strings.Repeat("é", 100_000)
	run, events := poisoned(t, large)
	h := &house{}
	for i := range events {
		if p := events[i].Plan; p != nil {
			p.Diff = []machine.FieldChange{{Path: "args", From: strings.Repeat("f", 90_000), To: strings.Repeat("t", 90_000) + "END"}}
		}
	}
	h.add(run, events...)
	body := look(t, site(t, h), ada, http.MethodGet, "/runs/"+run.Start.Run).Body.String()
	if len(body) > 500_000 || !strings.Contains(body, "(99700 more characters)") || !strings.Contains(body, "tEND") {
		t.Errorf("%d bytes", len(body))
	}
}

func TestLinks(t *testing.T) {
	for address, want := range map[string]string{
		"https://runbooks.example/a?b=c#d": "https://runbooks.example/a?b=c#d", "http://prometheus:9090/graph": "http://prometheus:9090/graph",
		"javascript:alert(1)": "", "JaVaScRiPt:alert(1)": "", "data:text/html,x": "", "//evil.example": "", "/local": "", "docs/runbook.md": "", "": "",
		"https://user:secret@host/": "", "https://": "", "http:opaque": "", "https://a\nb": "", " https://a": "", "ftp://a": "", "https://" + strings.Repeat("a", 9000): "",
	} {
		if got := link(address); got != want {
			t.Errorf("%.40q: %q, want %q", address, got, want)
		}
	}
	run := machine.State{Start: machine.Start{Alert: playbook.Alert{Annotations: map[string]string{"runbook_url": "https://r.example"}, GeneratorURL: "javascript:1"}}}
	got := Links{}.links(run, "")
	if len(got) != 2 || got[0].URL != "https://r.example" || got[1].URL != "" || got[1].Text != "javascript:1" {
		t.Errorf("links %+v", got)
	}
}

// TestEveryLink: from the page of a run each place where a person goes on looking is one click
// away.
func TestEveryLink(t *testing.T) {
	events := recorded(t, "resolved")
	const sha = "0123456789abcdef0123456789abcdef01234567"
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case machine.RunStarted:
			e.Start.Service.GitOps.Application = "argocd/chat"
			e.Start.Alert.GeneratorURL = "https://prometheus.example/graph?g0.expr=x"
			e.Start.Alert.Annotations = map[string]string{"runbook_url": "https://runbooks.example/ttft", "dashboard_url": "https://grafana.example/d/chat"}
		case machine.Applied:
			e.Data = []byte(`{"revision":"` + sha + `","waits":"https://git.example/fleet/pulls/7"}`)
		}
	}
	run := fold(events)
	run.Start.Alert.Status = playbook.Firing
	h := &house{playbooks: []*playbook.Playbook{small(t, run.Start.Playbook)}}
	h.add(run, events...)
	s := site(t, h)
	s.o.Links = Links{
		Alertmanager: func(uint64) string { return "https://alertmanager.example" },
		Application:  func(name string) string { return "https://argocd.example/applications/" + name },
		Trace:        func(run string) string { return "https://traces.example/" + run },
	}
	body := look(t, s, ada, http.MethodGet, "/runs/"+run.Start.Run).Body.String()
	for name, want := range map[string]string{
		"Prometheus": `href="https://prometheus.example/graph?g0.expr=x"`, "Alertmanager": `href="https://alertmanager.example/#/silences/new?filter=`,
		"Argo CD": `href="https://argocd.example/applications/argocd/chat"`, "the commit": `href="https://git.example/fleet/commit/` + sha + `"`,
		"the pull request": `href="https://git.example/fleet/pulls/7"`, "the alert's runbook": `href="https://runbooks.example/ttft"`,
		"the playbook": `href="../playbooks?playbook=` + run.Start.Playbook + `"`, "the dashboard": `href="https://grafana.example/d/chat"`, "the trace": `href="https://traces.example/`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no link to %s: %s", name, want)
		}
	}
}

// TestRunbookLink: a runbook that is only named leads to the page of the playbook that has it.
func TestRunbookLink(t *testing.T) {
	for _, c := range []struct{ runbook, book, url, text string }{
		{"https://runbooks.example/queue", "../playbooks?playbook=queue", "https://runbooks.example/queue", ""},
		{"RB-6", "../playbooks?playbook=queue", "../playbooks?playbook=queue", ""},
		{"", "../playbooks?playbook=queue", "../playbooks?playbook=queue", ""},
		{"RB-6", "", "", "RB-6"}, // the playbook is not loaded any more
	} {
		got := Links{}.links(machine.State{Playbook: &playbook.Playbook{Runbook: c.runbook}}, c.book)
		if len(got) != 1 || got[0] != (address{"Runbook", c.url, c.text}) {
			t.Errorf("%q, %q: %+v", c.runbook, c.book, got)
		}
	}
}

// TestSilenceLink: the form of Alertmanager gets every label of the alert, as its own page
// writes them, or is not linked: a silence that lacks one is for other alerts too.
func TestSilenceLink(t *testing.T) {
	alert := playbook.Alert{Fingerprint: "f", Status: playbook.Firing, StartsAt: now, Labels: map[string]string{"alertname": "Slow", "path": `a "b" \c, {d} & é+<`}}
	with := func(name string) playbook.Alert {
		a := alert
		a.Labels = map[string]string{"alertname": "Slow", name: "x"}
		return a
	}
	const want = "/#/silences/new?filter=%7Balertname%3D%22Slow%22%2C%20path%3D%22a%20%5C%22b%5C%22%20%5C%5Cc%2C%20%7Bd%7D%20%26%20%C3%A9%2B%3C%22%7D"
	for _, c := range []struct {
		what, from string
		alert      playbook.Alert
		want       string
	}{
		{"an address", "https://alertmanager.example/am/", alert, "https://alertmanager.example/am" + want},
		{"no address", "", alert, ""},
		{"a script", "javascript:alert(1)//", alert, ""},
		{"a query", "https://alertmanager.example/?a=b", alert, ""},
		{"a credential", "https://ada:secret@alertmanager.example", alert, ""},
		{"a label that needs quotes", "https://alertmanager.example", with("pod.name"), ""},
		{"no labels", "https://alertmanager.example", playbook.Alert{Fingerprint: "f"}, ""},
		{"a person began", "https://alertmanager.example", playbook.Alert{Labels: alert.Labels}, ""},
	} {
		l := Links{Alertmanager: func(uint64) string { return c.from }}
		if got := l.silence(machine.State{Start: machine.Start{Alert: c.alert}}); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// Nothing but the page's own style and script may be used, by nobody else's
// page, and no answer is kept.
func TestHeaders(t *testing.T) {
	h := &house{}
	for _, path := range []string{"/", "/history", "/services", "/nodes", "/playbooks", "/audit", "/audit?entry=0", "/ladder", "/nowhere"} {
		w := look(t, site(t, h), ada, http.MethodGet, path)
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'", "script-src 'sha256-", "style-src 'sha256-"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", path, policy)
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Content-Type": "text/html; charset=utf-8", "Set-Cookie": "", "Access-Control-Allow-Origin": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		body := w.Body.String()
		for _, inline := range regexp.MustCompile(`(?s)<(?:style|script)>(.*?)</(?:style|script)>`).FindAllStringSubmatch(body, -1) {
			if !strings.Contains(policy, hashSource([]byte(inline[1]))) {
				t.Errorf("%s: an inline style or script is not in the policy: %.60q", path, inline[1])
			}
		}
		if regexp.MustCompile(`\sstyle=|\son[a-z]+=`).MatchString(ornament.ReplaceAllString(body, "")) {
			t.Errorf("%s has an inline attribute that the policy forbids", path)
		}
	}
}

// The page offers exactly the decisions that will be taken, and says why not
// the others.
func TestWhoMayDecide(t *testing.T) {
	events := upTo(t, recorded(t, "resolved"), machine.GateOpened, 1)
	run := fold(events)
	g := *run.Gate
	g.NotBy, g.BreakGlass = "user:bob", []string{"group:captains"}
	g.Needs = []machine.Need{{Rule: "policy two, policy.yaml:4", From: []string{"group:oncall"}, Quorum: 2, Strong: true}}
	g.Votes = []machine.Decision{{Approve: true, By: "user:cleo", Person: true, Groups: []string{"oncall"}, Strong: true}}
	run.Gate = &g
	h := &house{}
	h.add(run, events...)
	s := site(t, h)
	h.pauses = []Pause{{Scope: "everything", By: "user:dan", Reason: "freeze"}}
	for _, c := range []struct {
		v                    Visitor
		approve, deny, alone bool
		says                 string
	}{
		{Visitor{Name: "ada", Groups: []string{"oncall"}, Person: true, Lacks: nothing}, false, true, false, "counts only with strong authentication"},
		{Visitor{Name: "ada", Groups: []string{"oncall"}, Person: true, Lacks: nothing, Strong: true}, true, true, false, "1 of 2"},
		{Visitor{Name: "cleo", Groups: []string{"oncall"}, Person: true, Lacks: nothing, Strong: true}, false, true, false, "has voted already"},
		{Visitor{Name: "bob", Groups: []string{"oncall"}, Person: true, Lacks: nothing, Strong: true}, false, true, false, "nobody approves their own"},
		{Visitor{Name: "cap", Groups: []string{"captains"}, Person: true, Lacks: nothing, Strong: true}, false, true, true, "Break the glass"},
		{Visitor{Name: "cap", Groups: []string{"captains"}, Person: true, Lacks: nothing}, false, true, false, "but may break the glass"},
		{Visitor{Name: "eve", Person: true, Lacks: nothing, Strong: true}, false, false, false, "You cannot decide this"},
		{Visitor{Name: "eve", Groups: []string{"oncall"}, Strong: true}, false, false, false, "You cannot decide here"},
		{Visitor{Name: "dan", Groups: []string{"oncall"}, Lacks: nothing, Strong: true}, false, true, false, "user:bob started this run, and user:dan may be the same person"},
	} {
		body := look(t, s, c.v, http.MethodGet, "/runs/"+run.Start.Run).Body.String()
		approve, deny, alone := strings.Contains(body, ">Approve<"), strings.Contains(body, ">Deny<"), strings.Contains(body, ">Approve alone<")
		if approve != c.approve || deny != c.deny || alone != c.alone || !strings.Contains(body, c.says) || !strings.Contains(body, "Paused: everything by user:dan") {
			t.Errorf("%+v: approve %v, deny %v, alone %v, says %q: %v", c.v, approve, deny, alone, c.says, strings.Contains(body, c.says))
		}
		_, bar, _ := strings.Cut(body, `id="bar"`)
		if strings.Contains(bar, ">Approve<") != c.approve || strings.Contains(bar, "/deny\"") != c.deny || strings.Contains(bar, "breakGlass") {
			t.Errorf("%+v: the bar does not offer what the page does: %s", c.v, bar)
		}
	}
}

package review

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/api"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-update accepts it):\n%s", name, diff)
	}
}

func phases(pairs ...any) []api.IncidentPhase {
	var out []api.IncidentPhase
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, api.IncidentPhase{Name: pairs[i].(string), Seconds: float64(pairs[i+1].(int))})
	}
	return out
}

func took(name string, runs int, median, p90 float64) api.PeriodPhase {
	return api.PeriodPhase{Name: name, Runs: runs, MedianSeconds: median, P90Seconds: p90}
}

// TestTimeToRepair: only runs that Responder resolved count, each with the runs that
// handed over to it. One of which an earlier run is not known is left out: its time
// would be too short.
func TestTimeToRepair(t *testing.T) {
	resolved := func(id string, p []api.IncidentPhase) api.RunDigest {
		return api.RunDigest{Run: id, Became: "responder", Phases: p}
	}
	after := func(d api.RunDigest, from string) api.RunDigest { d.DivertedFrom = from; return d }
	for name, c := range map[string]struct {
		runs []api.RunDigest
		want []api.PeriodPhase
	}{
		"no run": {nil, []api.PeriodPhase{}},
		"none that Responder resolved": {[]api.RunDigest{
			{Run: "r-1", Became: "people", Phases: phases("decide", 9)}, {Run: "r-2", Became: "itself", Phases: phases("decide", 9)}, {Run: "r-3", Became: "open", Phases: phases("decide", 9)},
		}, []api.PeriodPhase{}},
		"one": {[]api.RunDigest{resolved("r-1", phases("notify", 10, "act", 30))}, []api.PeriodPhase{took("notify", 1, 10, 10), took("act", 1, 30, 30), took("total", 1, 40, 40)}},
		"two": {[]api.RunDigest{resolved("r-1", phases("notify", 10, "approval", 300)), resolved("r-2", phases("notify", 20))}, []api.PeriodPhase{
			took("notify", 2, 15, 20), took("approval", 1, 300, 300), took("total", 2, 165, 310),
		}},
		"many": {[]api.RunDigest{
			resolved("r-1", phases("verify", 1)), resolved("r-2", phases("verify", 2)), resolved("r-3", phases("verify", 3)), resolved("r-4", phases("verify", 100)), resolved("r-5", phases("verify", 4)),
		}, []api.PeriodPhase{took("verify", 5, 3, 100), took("total", 5, 3, 100)}},
		"handed over": {[]api.RunDigest{
			after(resolved("r-2", phases("decide", 5, "act", 60)), "r-1"), {Run: "r-1", Became: "diverted", Phases: phases("notify", 10, "decide", 20)},
		}, []api.PeriodPhase{took("notify", 1, 10, 10), took("decide", 1, 25, 25), took("act", 1, 60, 60), took("total", 1, 95, 95)}},
		"handed over by a run before the period": {[]api.RunDigest{after(resolved("r-2", phases("decide", 5)), "r-1")}, []api.PeriodPhase{}},
		"a circle":                               {[]api.RunDigest{after(resolved("r-2", phases("decide", 5)), "r-1"), after(api.RunDigest{Run: "r-1", Became: "diverted"}, "r-2")}, []api.PeriodPhase{}},
	} {
		var p Period
		p.Add(api.DigestPage{Runs: c.runs})
		if diff := cmp.Diff(c.want, p.Report().Repair); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// week returns runs with every value of Became and changes with every verdict. Some names
// are hostile.
func week() []api.DigestPage {
	at := func(day int) time.Time { return time.Date(2026, 11, day, 9, 30, 0, 0, time.UTC) }
	run := func(id, became, status string, day int, changes ...api.DigestChange) api.RunDigest {
		return api.RunDigest{
			Run: id, Service: "serving/chat", Playbook: "inference-slo-breach", Alert: "InferenceTTFTFastBurn", Alerts: 2, Began: at(day), Became: became, Status: status,
			Phases: phases("notify", 30, "decide", 10, "approval", 240, "act", 180, "verify", 300), Changes: changes, Attention: []string{},
		}
	}
	asked := func(lever, question, verdict string, applied bool) api.DigestChange {
		return api.DigestChange{Lever: lever, State: "s", Planned: true, Question: question, WaitedSeconds: 240, Applied: applied, Verdict: verdict}
	}
	undone := func(c api.DigestChange) api.DigestChange { c.Undone = true; return c }
	look := func(d api.RunDigest, why ...string) api.RunDigest { d.Attention = why; return d }
	cause := func(d api.RunDigest, branch string) api.RunDigest { d.Cause = branch; return d }
	other := run("r-09", "observed", "observed", 2, api.DigestChange{Lever: "kube.scale", Planned: true, Verdict: "would-apply"})
	other.Service, other.Playbook = `serving/<script>alert("x")</script>|*_`, "oom"
	since, until := at(1).Add(-9*time.Hour), at(8)
	first := api.DigestPage{Since: since, Until: until, Next: "r-06", Runs: []api.RunDigest{
		run("r-10", "open", "deciding", 7, asked("kube.scale", "open", "", false)),
		other,
		cause(run("r-08", "responder", "resolved", 6, asked("kube.rollout_undo", "approved", "verified", true)), "change in burn window"),
		cause(run("r-07", "responder", "resolved", 5, undone(asked("kube.scale", "approved", "worse", true)), asked("kube.rollout_undo", "approved", "verified", true)), "change in burn window"),
		cause(look(run("r-06", "people", "escalated", 5, asked("engine.flag", "denied", "", false), asked("kube.scale", "", "refused", false)), "it ended escalated"), "saturated"),
	}, Alerts: &api.AlertTally{
		Received: 40, WithRun: 12, Unmatched: 20, NoService: 3, Suppressed: 2, Quarantined: 1, Resolved: 2, KnownSince: since.Add(24 * time.Hour), MoreUnmatched: true,
		UnmatchedNames: []api.UnmatchedAlert{{Alert: "KVCacheFull", Count: 18, Nearest: "kv-cache-thrash", Mismatch: `alertname is "KVCacheFull"`}, {Alert: "<b>", Count: 1}, {Count: 1}},
	}}
	second := api.DigestPage{Since: since, Until: until, Archived: 1, Unreadable: []string{"r-00"}, Runs: []api.RunDigest{
		run("r-05", "itself", "cleared", 4, asked("kube.scale", "expired", "", false), asked("kube.scale", "approved", "inconclusive", true), asked("kube.scale", "", "improved", true)),
		run("r-04", "nothing-to-do", "no-action", 3),
		run("r-03", "diverted", "diverted", 3),
		run("r-02", "loan-return", "resolved", 2, asked("kube.scale", "", "no_effect", true)),
		look(run("r-01", "people", "canceled", 1, asked("kube.scale", "approved", "", true)), "kube.scale was applied and not judged"),
	}}
	return []api.DigestPage{first, second}
}

func weekly() api.PeriodReport {
	var p Period
	for _, page := range week() {
		p.Add(page)
	}
	return p.Report()
}

// TestPeriodAddsUp: the parts of every sum add up to it.
func TestPeriodAddsUp(t *testing.T) {
	r := weekly()
	n := r.Runs
	if sum := n.Responder + n.Itself + n.People + n.NothingToDo + n.Observed + n.Diverted + n.LoanReturns + n.Open; n.Total != 10 || sum != n.Total {
		t.Errorf("%d of %d runs: %+v", sum, n.Total, n)
	}
	if want := (api.PeriodChanges{Proposed: 12, Approved: 5, Denied: 1, Expired: 1, Applied: 7, Undone: 1}); r.Changes != want {
		t.Errorf("changes %+v, want %+v", r.Changes, want)
	}
	for _, l := range r.Levers {
		if sum := l.Verified + l.Improved + l.NoEffect + l.Worse + l.Inconclusive + l.Refused + l.Unjudged + l.NotApplied; sum != l.Changes {
			t.Errorf("%d of %d changes: %+v", sum, l.Changes, l)
		}
	}
	want := []api.PeriodAutonomy{
		{Lever: "kube.rollout_undo", Approved: 2, Verified: 2, WaitedSeconds: 480},
		{Lever: "engine.flag", Denied: 1},
		{Lever: "kube.scale", Approved: 3, NotVerified: 3, Worse: 1},
	}
	if diff := cmp.Diff(want, r.Autonomy); diff != "" {
		t.Errorf("autonomy: %s", diff)
	}
	for _, groups := range [][]api.PeriodGroup{r.Services, r.Playbooks} {
		runs := 0
		for _, g := range groups {
			runs += g.Runs
			if sum := g.Responder + g.Itself + g.People + g.Open + g.Other; sum != g.Runs {
				t.Errorf("%d of %d runs: %+v", sum, g.Runs, g)
			}
		}
		if runs != n.Total {
			t.Errorf("groups have %d runs of %d", runs, n.Total)
		}
	}
}

func render(t *testing.T, d Document) (markdown, html []byte) {
	t.Helper()
	var md, page bytes.Buffer
	if err := WriteMarkdown(&md, d); err != nil {
		t.Fatal(err)
	}
	if err := WriteHTML(&page, d); err != nil {
		t.Fatal(err)
	}
	return md.Bytes(), page.Bytes()
}

func TestPeriodDocument(t *testing.T) {
	md, page := render(t, OfPeriod(weekly()))
	golden(t, "period.md", md)
	golden(t, "period.html", page)
	alone(t, string(page))
}

// TestEmptyPeriod: a report without runs tells so in words, and that a name may be wrong.
func TestEmptyPeriod(t *testing.T) {
	var p Period
	p.Add(api.DigestPage{Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 8, 0, 0, 0, 0, time.UTC), Service: "serving/chat"})
	md, page := render(t, OfPeriod(p.Report()))
	for _, text := range []string{string(md), string(page)} {
		if !strings.Contains(text, "No run began in this period.") || !strings.Contains(text, "serving/chat") || !strings.Contains(text, "Check that the names are right.") || strings.Contains(text, "Levers") {
			t.Errorf("it is\n%s", text)
		}
	}
}

// outside matches what a page would load, run or send.
var outside = regexp.MustCompile(`(?i)<(script|link|img|iframe|object|embed|form|svg|base|a)\b|@import|url\(|\son\w+=|javascript:`)

// alone fails for a page that needs something from outside, or runs something.
func alone(t *testing.T, page string) {
	t.Helper()
	if found := outside.FindAllString(page, 5); len(found) > 0 {
		t.Errorf("the page has %q", found)
	}
	for _, want := range []string{"<!doctype html>", `content="default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;"`, "width=device-width", "prefers-color-scheme: dark", "@media print", "</html>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestIncidentDocument: what was measured of the error budget is shown, the difference of
// two measurements of one objective is what was spent, and nothing else is.
func TestIncidentDocument(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 2, 9, minute, 0, 0, time.UTC) }
	in := api.Incident{
		Run: "r-1", Playbook: "p", Service: "serving/<chat>", Alert: `Slow{pod="<img src=x onerror=alert(1)>"}`, Fired: at(0), Began: at(1), Ended: at(20), Outcome: "resolved", Message: "Resolved",
		Source: "https://prometheus.example/graph?g0.expr=a%3Eb", Phases: phases("notify", 60, "approval", 240, "act", 300),
		Changes:   []api.IncidentChange{{Lever: "kube.scale", Summary: "add `2` replicas", Result: "VERIFIED", Fields: []string{"spec.replicas: 2 -> 4"}}},
		Decisions: []api.IncidentDecision{{What: "APPROVED", By: "user:ada", Channel: "slack", Reason: "*yes*", WaitedSeconds: 240}},
		Timeline:  []api.IncidentMoment{{At: at(1), What: "started"}},
		Evidence:  []api.IncidentEvidence{{State: "triage", Lines: []string{"ttft: 92 % slow"}}},
		Cause: &api.IncidentCause{
			At: at(2), State: "triage", Branch: "saturated <b>", To: "scale", Helped: true, Values: []string{"engine.bound = queue"},
			Evidence: []string{"engine: 40 requests wait"}, RuledOut: []string{"too hot", "a release"}, Unknown: []string{"GPU at fault: no agent answers"},
		},
		Budget: []api.IncidentBudget{
			{At: at(2), State: "triage", Objective: "ttft", Left: 0.421}, {At: at(12), State: "triage", Objective: "ttft", Left: 0.4}, {At: at(13), State: "triage", Objective: "errors", Left: -0.1},
		},
	}
	md, page := render(t, OfIncident(in))
	golden(t, "incident.md", md)
	golden(t, "incident.html", page)
	alone(t, strings.ReplaceAll(string(page), "&lt;img src=x onerror=alert(1)&gt;", ""))
	number := func(v float64) *float64 { return &v }
	in.Spent = []api.IncidentSpending{
		{Objective: "ttft", Parts: []api.IncidentSpendingPart{{Name: "notify"}, {Name: "approval", Requests: number(1200.4), Bad: number(1100), Share: number(0.0213)}}},
		{Objective: "goodput", Value: "gold", Why: "no requests are known of the beginning of its 28 days", Parts: []api.IncidentSpendingPart{{Name: "approval", Requests: number(3), Bad: number(0)}}},
		{Objective: "tpot", Why: "no answer from Prometheus", Parts: []api.IncidentSpendingPart{{Name: "approval"}}},
	}
	md, page = render(t, OfIncident(in))
	golden(t, "incident_budget.md", md)
	alone(t, strings.ReplaceAll(string(page), "&lt;img src=x onerror=alert(1)&gt;", ""))
	in.Budget, in.Cause.Helped = nil, false
	if md, _ := render(t, OfIncident(in)); !strings.Contains(string(md), "No change has proven it") {
		t.Errorf("a cause that nothing proved is\n%s", md)
	}
	in.Cause = nil
	if md, _ := render(t, OfIncident(in)); !strings.Contains(string(md), "What was left is not known: no check of this run measured it.") || !strings.Contains(string(md), "Not known: the run took no branch") {
		t.Errorf("without measurements it is\n%s", md)
	}
}

func TestMedianAndP90(t *testing.T) {
	for _, c := range []struct {
		of          spread
		median, p90 float64
		ok          bool
	}{
		{nil, 0, 0, false},
		{spread{7}, 7, 7, true},
		{spread{9, 1}, 5, 9, true},
		{spread{3, 1, 2}, 2, 3, true},
		{spread{4, 1, 3, 2}, 2.5, 4, true},
		{spread{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5.5, 9, true},
		{spread{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 6, 10, true},
	} {
		if median, p90, ok := c.of.medianAndP90(); median != c.median || p90 != c.p90 || ok != c.ok {
			t.Errorf("%v: median %v, p90 %v, %v; want %v, %v, %v", c.of, median, p90, ok, c.median, c.p90, c.ok)
		}
	}
}

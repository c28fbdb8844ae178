package web

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// atNight is a house with a run in each of the states that people meet it in.
func atNight(t *testing.T) *house {
	t.Helper()
	h := &house{}
	for _, name := range []string{"running", "open", "held", "resolved", "denied"} {
		c := cases(t)[name]
		run := fold(c.events)
		run.Start.Run = "r-" + name
		h.add(run)
	}
	loan := fold(cases(t)["running"].events)
	loan.Start.Run, loan.Start.Loan = "r-loan", "r-1/add"
	loan.Start.Alert.Labels = map[string]string{"change": "2 replicas of Deployment serving/inference-chat"}
	h.add(loan)
	later := h.runs[1]
	gate := *later.Gate
	gate.Deadline = gate.Deadline.Add(time.Hour)
	later.Gate, later.Start.Run = &gate, "r-later"
	h.runs = append([]machine.State{later}, h.runs...)
	h.pauses = []Pause{{Scope: "service:serving/other", Service: "serving/other", By: "user:dan", Reason: "load test", Since: now.Add(-time.Hour)}}
	h.health = []Health{{"Prometheus", Healthy, "it answered at 00:09"}, {"Kubernetes", Failing, "connection refused"}, {"Slack", Unknown, "nobody asked"}, {"Argo CD", NotConfigured, ""}}
	return h
}

func TestNow(t *testing.T) {
	h := atNight(t)
	h.fleet = fleetOf()
	body := look(t, site(t, h), ada, http.MethodGet, "/").Body.String()
	golden(t, "now", body)
	var order []string
	for _, m := range regexp.MustCompile(`class="run" href="./runs/r-(\w+)"`).FindAllStringSubmatch(body, -1) {
		order = append(order, m[1])
	}
	if diff := cmp.Diff([]string{"held", "open", "later", "running", "loan"}, order); diff != "" {
		t.Errorf("what needs people comes first, the nearest deadline before others (-want +got):\n%s", diff)
	}
	for _, want := range []string{`href="./runs/r-open#decide"`, `href="./runs/r-held#held"`, "<title>(3) Now"} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

// readAt is when the error budgets of fleetOf were read.
var readAt = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// fleetOf are error budgets that burn in all ways.
func fleetOf() []ServiceBudget {
	of := func(service string, left, burn float64, lasts time.Duration, why string) ServiceBudget {
		return ServiceBudget{service, readAt, Budget{Objective: "ttft", Left: left, Burn: burn, Lasts: lasts, Why: why}}
	}
	return []ServiceBudget{
		of("calm", 0.9, 0.5, 0, ""), of("slow", 0.9, 2, 300*time.Hour, ""), of("unread", math.NaN(), math.NaN(), 0, "no answer from Prometheus in time"),
		of("fast", 0.5, 14.4, 23*time.Hour, ""), of("young", math.NaN(), 30, 0, "no requests are known of the beginning of its 28 days"),
		of("idle", 0.9, math.NaN(), 0, ""), of("spent", -0.2, 0.5, 0, ""), of("spent-unread", -0.1, math.NaN(), 0, ""),
	}
}

// TestBurning: what is spent comes first, then what is gone soonest. What is not known is
// never among what does not burn.
func TestBurning(t *testing.T) {
	got := burningOf(fleetOf(), nil)
	names := func(all []ServiceBudget) (out []string) {
		for _, b := range all {
			out = append(out, b.Service)
		}
		return out
	}
	if diff := cmp.Diff([]string{"spent", "spent-unread", "fast", "slow", "young"}, names(got.Burn)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"unread", "idle"}, names(got.Unknown)); diff != "" || got.Calm != 1 {
		t.Errorf("%d are calm, (-want +got):\n%s", got.Calm, diff)
	}
	for want, all := range map[string][]ServiceBudget{
		"No service has an objective.":                            nil,
		"Of no error budget it is known whether it burns.":        fleetOf()[2:3],
		"No error budget burns faster than its objective allows.": fleetOf()[:1],
		"No error budget of those that are known burns":           {fleetOf()[0], fleetOf()[2]},
	} {
		h := atNight(t)
		h.fleet = all
		if body := look(t, site(t, h), ada, http.MethodGet, "/").Body.String(); !strings.Contains(body, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

// TestBurningOfSome: where services may be missing, nobody reads that none has an objective,
// or that no budget burns.
func TestBurningOfSome(t *testing.T) {
	h := atNight(t)
	h.doubt = errors.New("discover services: not done yet")
	for want, all := range map[string][]ServiceBudget{
		"No service with an objective is known.":                                          nil,
		"No error budget of those that are known burns faster than its objective allows.": fleetOf()[:1],
	} {
		h.fleet = all
		body := look(t, site(t, h), ada, http.MethodGet, "/").Body.String()
		for _, want := range []string{want, "Services may be missing: </b>discover services: not done yet"} {
			if !strings.Contains(body, want) {
				t.Errorf("lacks %q", want)
			}
		}
	}
}

// TestPollAsksNobody: a browser that looks whether the page is behind costs no query.
func TestPollAsksNobody(t *testing.T) {
	h := atNight(t)
	s := site(t, h)
	look(t, s, ada, http.MethodHead, "/")
	if h.fleetAsked != 0 {
		t.Error("a poll asks for error budgets")
	}
}

// Nobody takes a simulated incident for a real one, on any page.
func TestSimulated(t *testing.T) {
	h := atNight(t)
	h.simulated = func(at time.Time) string {
		if at.Before(now) {
			return "that cluster was simulated."
		}
		return "the cluster is simulated."
	}
	for path, want := range map[string]string{
		"/": "the cluster is simulated.", "/history": "the cluster is simulated.", "/audit": "the cluster is simulated.", "/runs/r-open": "that cluster was simulated.", // when the run began
	} {
		if body := look(t, site(t, h), ada, http.MethodGet, path).Body.String(); !strings.Contains(body, "<b>SANDBOX: </b>"+want) {
			t.Errorf("%s does not say %q", path, want)
		}
	}
	if body := look(t, site(t, atNight(t)), ada, http.MethodGet, "/").Body.String(); strings.Contains(body, "SANDBOX") {
		t.Error("a real service says that it is simulated")
	}
}

// Only who has a right sees its form, about the service and its owners.
func TestWhoMayPause(t *testing.T) {
	h := atNight(t)
	h.services = []playbook.Service{{Name: "serving/other", Owners: []string{"group:others"}}}
	owner := ada
	owner.Lacks = func(right rights.Right, s playbook.Service) string {
		if len(s.Owners) == 0 {
			return "user:ada lacks the right " + string(right) + " on all services"
		}
		return ""
	}
	for _, c := range []struct {
		who         string
		v           Visitor
		pause, lift bool
	}{{"all", ada, true, true}, {"none", reader, false, false}, {"a credential that reads", Visitor{Name: "bot"}, false, false}, {"an owner", owner, false, true}} {
		body := look(t, site(t, h), c.v, http.MethodGet, "/").Body.String()
		if got := strings.Contains(body, `action="./pause"`); got != c.pause || got == strings.Contains(body, "You cannot pause: ") {
			t.Errorf("%s: a form to pause: %v", c.who, got)
		}
		if got := strings.Contains(body, `action="./unpause"`); got != c.lift {
			t.Errorf("%s: a form to lift a pause: %v", c.who, got)
		}
	}
	h.pauses = []Pause{{Scope: "global", By: "user:dan"}}
	if body := look(t, site(t, h), ada, http.MethodGet, "/").Body.String(); strings.Contains(body, `action="./pause"`) || !strings.Contains(body, "no run changes anything") {
		t.Error("what is paused can be paused again")
	}
}

// The page loads itself again when a run, a pause or the health changes, and not with the time.
func TestNowTag(t *testing.T) {
	tags := map[string]bool{}
	h := atNight(t)
	for _, change := range []func(){
		func() {}, func() { h.health[0].Text = "it answered at 00:10" },
		func() { h.health[0].State = Failing }, func() { h.pauses = nil }, func() { h.changes++ }, func() { h.changes++ },
	} {
		change()
		tags[look(t, site(t, h), ada, http.MethodHead, "/").Header().Get("ETag")] = true
	}
	if len(tags) != 5 {
		t.Errorf("%d tags, want 5", len(tags))
	}
}

// A page loads itself again when a run changes that is on it, and its parts are counted
// for all of them.
func TestTagsOfRuns(t *testing.T) {
	h := atNight(t)
	h.services = []playbook.Service{h.runs[0].Start.Service, {Name: "serving/other"}}
	mine := "/services?service=" + h.runs[0].Start.Service.Name
	tags := func() (out []string) {
		for _, path := range []string{"/", "/history", "/services", mine, "/services?service=serving/other", "/history?before=r-open"} {
			out = append(out, look(t, site(t, h), ada, http.MethodHead, path).Header().Get("ETag"))
		}
		return out
	}
	moved := func(change func()) (out []bool) {
		before := tags()
		change()
		for i, tag := range tags() {
			out = append(out, tag != before[i])
		}
		return out
	}
	for what, change := range map[string]func(){
		"an event":       func() { h.runs[1].Head++ },
		"its quarantine": func() { h.runs[1].Quarantine = &machine.Quarantine{Message: "it does not decode"} },
		"its end":        func() { h.runs = append(h.runs[:1:1], h.runs[2:]...) },
	} {
		if diff := cmp.Diff([]bool{true, true, true, true, false, false}, moved(func() { change(); h.changes++ })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if diff := cmp.Diff(make([]bool, 6), moved(func() {})); diff != "" {
		t.Errorf("nothing happened (-want +got):\n%s", diff)
	}
}

// Whether a page is behind is asked for every few seconds by every browser that shows it: it
// costs the same whatever the number of runs and services.
func TestHeadsAreCheap(t *testing.T) {
	few, lots := site(t, many(t, 100)), site(t, many(t, 10_000))
	for _, path := range []string{"/", "/history", "/services", "/services?service=serving/chat-7"} { // which has ten of 10,000 runs
		allocs := func(s *Site) float64 {
			return testing.AllocsPerRun(20, func() { look(t, s, ada, http.MethodHead, path) })
		}
		if a, b := allocs(few), allocs(lots); b > a+50 {
			t.Errorf("%s: %v allocations with 100 runs, %v with 10,000", path, a, b)
		}
	}
}

// many is a house with n runs that ended and as many that wait for people.
func many(t testing.TB, n int) *house {
	t.Helper()
	asks, ended := fold(upTo(t, recorded(t, "resolved"), machine.GateOpened, 1)), fold(recorded(t, "resolved"))
	h := &house{health: []Health{{"Prometheus", Healthy, ""}}}
	for i := range n {
		for kind, run := range map[string]machine.State{"A": asks, "B": ended} {
			run.Start.Run = fmt.Sprintf("r-%s%025d", kind, n-i)
			run.Start.Service.Name = fmt.Sprintf("serving/chat-%d", i%1000)
			run.Start.Alert.Labels = map[string]string{"alertname": strings.Repeat("x", 100)}
			h.add(run)
		}
		h.services = append(h.services, playbook.Service{Name: fmt.Sprintf("serving/chat-%d", i), SLOs: asks.Start.Service.SLOs})
	}
	return h
}

const pageBytes = 150_000

// No page grows with the number of runs, services or playbooks.
func TestPagesAreSmall(t *testing.T) {
	h := many(t, 10_000)
	h.playbooks = shipped(t)
	s := site(t, h)
	for _, path := range []string{"/", "/history", "/history?service=chat-7", "/services", "/services?page=200", "/services?service=serving/chat-7", "/playbooks", "/playbooks?playbook=inference-slo-breach"} {
		if w := look(t, s, ada, http.MethodGet, path); w.Code != 200 || w.Body.Len() > pageBytes {
			t.Errorf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
	}
	if h.asked > readRuns {
		t.Errorf("a page looks at %d runs", h.asked)
	}
}

// BenchmarkPages makes each page among 10,000 open and 10,000 ended runs. What the journal
// needs to read them is not part of it.
func BenchmarkPages(b *testing.B) {
	s := site(b, many(b, 10_000))
	for _, path := range []string{"/", "/history", "/services", "/services?service=serving/chat-7"} {
		b.Run(path, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = look(b, s, ada, http.MethodGet, path).Body.Len()
			}
			b.ReportMetric(float64(n), "bytes")
		})
	}
}

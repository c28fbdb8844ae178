package web

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// shipped are the playbooks that are part of the program.
func shipped(t testing.TB) []*playbook.Playbook {
	t.Helper()
	set, err := playbook.LoadDir("../../playbooks", kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	return set.All()
}

const smallText = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata:
  name: NAME
  title: The queue is long
  runbook: https://runbooks.example/queue
spec:
  match: ['{alertname="Queue",severity=~"page|ticket"}']
  autonomy: suggest
  start: triage
  states:
    triage: {title: Triage, check: slo.burn, next: [{when: triage.status == "met", to: fine, label: objectives are met}, {to: add}]}
    add:
      title: Add a replica
      lever: kube.scale
      with: {by: 1}
      autonomy: observe
      approve: {by: service.owners, within: 15m}
      next: [{when: verified, to: fine}, {to: people}]
    fine: {title: Fine, end: resolved}
    people: {title: People, end: escalated}
`

// small is a playbook with one lever.
func small(t testing.TB, name string) *playbook.Playbook {
	t.Helper()
	all, err := playbook.Parse(name+".yaml", []byte(strings.Replace(smallText, "NAME", name, 1)), kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func catalogHouse(t *testing.T) *house {
	t.Helper()
	h := atNight(t)
	h.services = []playbook.Service{
		{
			Name: "serving/inference-chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "inference-chat"}, Engine: "vllm", Owners: []string{"group:ml-platform"}, Autonomy: playbook.Suggest, MinReady: 2, MaxScale: 8,
			SLOs: []playbook.SLO{{Name: "ttft", Objective: 0.99, Threshold: 0.5, Window: 28 * 24 * time.Hour}, {Name: "errors", Objective: 0.999}, {Name: "tpot", Objective: 0.9}},
		},
		{Name: "serving/other", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "other"}, Autonomy: playbook.Auto},
	}
	h.playbooks = []*playbook.Playbook{small(t, "queue")}
	h.tested = h.playbooks[0].Digest
	h.applied = []Applied{{
		Playbook: "queue", Mode: "asks people", Tone: "wait",
		Levers: []LeverStanding{
			{State: "add", Kind: "kube.scale", Level: "suggest", HeldBy: "the configuration", Tried: 3, OK: 2, Failed: 1, Next: "auto is proposed after 3 more verified in a row"},
			{State: "top", Kind: "kube.scale", Level: "auto"},
		},
	}}
	h.arming = runview.Arming{Word: "not armed", Line: "Not armed: nothing changes it.", Reasons: []runview.ArmingReason{{Why: "oom: playbook oom is paused by ada: <b>load test</b>", Do: "lift the pause: responder unpause --playbook oom"}}}
	h.budgets = []Budget{
		{Objective: "ttft", Left: 0.2, Burn: 14.4, Lasts: 9 * time.Hour},
		{Objective: "errors", Left: -0.5, Burn: math.NaN()},
		{Objective: "tpot", Left: math.NaN(), Burn: math.NaN(), Why: "no answer from Prometheus in time"},
		{Objective: "tpot", Value: "chat", Left: math.NaN(), Burn: 3, Why: "no requests are known of the beginning of its 28 days"},
	}
	return h
}

func TestCatalogPages(t *testing.T) {
	h := catalogHouse(t)
	for name, path := range map[string]string{
		"services": "/services", "service": "/services?service=serving/inference-chat", "playbooks": "/playbooks", "playbook": "/playbooks?playbook=queue", "history": "/history",
	} {
		golden(t, name, look(t, site(t, h), ada, http.MethodGet, path).Body.String())
	}
	for path, want := range map[string]string{
		"/services?name=OTHER":                       "serving/other",
		"/services?service=serving/other":            "nothing that is done to it can be proven",
		"/history?service=INFERENCE":                 "r-denied",
		"/history?outcome=open&playbook=slo":         "r-open",
		"/history?run=DENI":                          "r-denied",
		"/history?service=nobody":                    "No run is one.",
		"/playbooks?playbook=queue":                  "https://runbooks.example/queue",
		"/services?service=serving%2Finference-chat": "error budget overspent by 50 %",
		"/playbooks":                                 "7 test cases, 8 of 9 edges",
	} {
		if body := look(t, site(t, h), ada, http.MethodGet, path).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s lacks %q", path, want)
		}
	}
	if body := look(t, site(t, h), ada, http.MethodGet, "/services?name=OTHER").Body.String(); strings.Contains(body, "inference-chat") {
		t.Error("the search for a name does not search")
	}
	h.doubt = errors.New("discover services: not done yet")
	for _, path := range []string{"/services", "/services?service=serving/other"} {
		if body := look(t, site(t, h), ada, http.MethodGet, path).Body.String(); !strings.Contains(body, "Services may be missing: </b>discover services: not done yet") {
			t.Errorf("%s does not say that services may be missing", path)
		}
	}
}

// TestUntestedPlaybook: of a playbook that was changed nobody says that it was tested.
func TestUntestedPlaybook(t *testing.T) {
	h := catalogHouse(t)
	h.tested = "sha256:another"
	for path, want := range map[string]string{"/playbooks": "no tests known", "/playbooks?playbook=queue": "No tests are known"} {
		if body := look(t, site(t, h), ada, http.MethodGet, path).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s lacks %q", path, want)
		}
	}
}

func TestSearchGoesOn(t *testing.T) {
	h := many(t, 600)
	seen, pages := map[string]bool{}, 0
	for path := "/history?service=chat-5"; path != "" && pages < 50; pages++ {
		body := look(t, site(t, h), ada, http.MethodGet, path).Body.String()
		for _, part := range strings.Split(body, `href="./runs/`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			if seen[id] {
				t.Errorf("%s is shown twice", id)
			}
			seen[id] = true
		}
		path = ""
		if before, _, ok := strings.Cut(body, `">Older<`); ok {
			path = "/history" + strings.ReplaceAll(before[strings.LastIndex(before, `"`)+1:], "&amp;", "&")
		}
	}
	if len(seen) != 222 || pages < 3 { // chat-5, chat-50 to chat-59, chat-500 to chat-599, open and ended
		t.Errorf("%d runs on %d pages", len(seen), pages)
	}
}

// What cannot be is refused with what would be right.
func TestWrongAddresses(t *testing.T) {
	s := site(t, catalogHouse(t))
	for path, want := range map[string]error{
		"/services?service=serving/none": ErrNotFound, "/services?service=": ErrNotFound, "/playbooks?playbook=none": ErrNotFound, "/playbooks?playbook=": ErrNotFound,
		"/services/serving": ErrNotFound, "/services?page=0": ErrInvalid, "/services?page=-1": ErrInvalid, "/services?page=2": ErrInvalid, "/services?page=x": ErrInvalid,
		"/services?page=99999999999999999999": ErrInvalid, "/history?outcome=nonsense": ErrInvalid, "/history?before=nonsense": ErrInvalid, "/history?before=%3Cscript%3E": ErrInvalid,
		"/history?service=" + strings.Repeat("x", 5000): ErrInvalid, "/services?name=" + strings.Repeat("x", 301): ErrInvalid,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody)
		if err := s.Page(w, r, ada); !errors.Is(err, want) || w.Body.Len() > 0 || len(err.Error()) > 400 {
			t.Errorf("%.60s: %v", path, err)
		}
	}
}

package app

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/notify/report"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/web"
)

// weeklies returns what Slack has of the weekly report.
func (h slackRig) weeklies() (texts []string) {
	for _, m := range h.slack.Messages(slackChannelOfTests) {
		if text := strings.Join(slacktest.Texts(m.Blocks), "\n"); strings.Contains(text, "Responder weekly:") {
			texts = append(texts, text)
		}
	}
	return texts
}

// A week with an incident, then the service is down when the report falls due: people read
// it once, after the next start, and not again after another. A pause does not stop it.
func TestWeeklyReportInSlack(t *testing.T) {
	s, weekly := startSlack(t), report.Config{Name: "weekly", To: []string{"oncall"}}
	due, dir := weekly.Last(time.Now()), t.TempDir()
	start := func(at time.Time, reports ...report.Config) slackRig {
		clock, err := sandbox.NewClock(at, 10)
		if err != nil {
			t.Fatal(err)
		}
		sim, err := sandbox.New(DefaultScenario, clock)
		if err != nil {
			t.Fatal(err)
		}
		c := slackConfiguration(t, s, false, dir)
		c.ExternalURL, c.Reports = "https://responder.example", reports
		return startSlackRig(t, c, s, sim)
	}
	h := start(due.Add(-100*time.Hour), weekly)
	h.alert(t)
	h.question(t, "Approval needed")
	until(t, "the report begins", func() bool { return h.executor.Reported()["weekly"].Equal(due.AddDate(0, 0, -7)) })
	if err := h.executor.Pause(t.Context(), executor.Scope{}, "user:ada", "a freeze"); err != nil {
		t.Fatal(err)
	}
	h.stop()

	h = start(due.Add(90*time.Minute), weekly)
	until(t, "the report is in Slack", func() bool { return len(h.weeklies()) > 0 })
	h.stop()

	h = start(due.Add(3*time.Hour), weekly, report.Config{Name: "next", To: []string{"oncall"}})
	until(t, "the service has looked for reports", func() bool { return !h.executor.Reported()["next"].IsZero() })
	texts := h.weeklies()
	if len(texts) != 1 {
		t.Fatalf("%d reports: %q", len(texts), texts)
	}
	for _, want := range []string{
		due.AddDate(0, 0, -7).Format("Mon 2 Jan 15:04 to ") + due.Format("Mon 2 Jan 15:04 MST"), "1 incident. Runs 1: ", "Error budget left now: ",
		"This report is late: it was due on " + due.Format("Mon 2 Jan 15:04 MST"), "<https://responder.example|Open Responder>",
	} {
		if !strings.Contains(texts[0], want) {
			t.Errorf("it lacks %q:\n%s", want, texts[0])
		}
	}
	h.proven(t)
}

// A week without an incident is told, unless the configuration wants none. A service that
// the catalog does not have is not an incident-free one.
func TestReportOfAQuietWeek(t *testing.T) {
	s, _ := startService(t, SandboxConfig())
	from := summaries{
		reports: reports{s.executor, s.received(), s.world.Now}, services: s.world.Services, inForce: s.library.set,
		budgets: func(context.Context, playbook.Service) []web.Budget { return nil },
	}
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	end := time.Now()
	for name, c := range map[string]struct {
		report report.Config
		want   string
	}{
		"told":            {report.Config{Name: "weekly"}, "No incident."},
		"not told":        {report.Config{Name: "weekly", SkipEmpty: true}, ""},
		"unknown service": {report.Config{Name: "weekly", Services: []string{"serving/chta"}, SkipEmpty: true}, "The catalog has no service serving/chta now."},
	} {
		text, err := from.compose(t.Context(), c.report, end.AddDate(0, 0, -7), end)
		if err != nil || !strings.Contains(text, c.want) || (c.want == "") != (text == "") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// What Prometheus did not answer is unknown, however much is left of the rest.
func TestBudgetText(t *testing.T) {
	svc := playbook.Service{Name: "serving/chat", SLOs: []playbook.SLO{{Name: "ttft"}, {Name: "tpot"}, {Name: "errors"}, {Name: "goodput"}}}
	got := budgetText(svc, []web.Budget{
		{Objective: "ttft", Value: "a", Left: 0.9}, {Objective: "ttft", Value: "b", Left: -0.25}, {Objective: "tpot", Left: 0.5}, {Objective: "tpot", Why: "no answer"}, {Objective: "errors", Left: math.NaN()},
	})
	if want := "serving/chat ttft -25 %, tpot unknown, errors unknown, goodput unknown"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

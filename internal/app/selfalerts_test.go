package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack/approvals"
	"github.com/inference-responder/responder/internal/trace"
	"github.com/inference-responder/responder/internal/webhook"
)

// An alert about a metric that nobody exports, or by a label that it does not
// have, never fires and is never missed.
func TestSelfAlertsAskWhatIsExported(t *testing.T) {
	doc := rulesOf(t, "responder.rules.yaml")
	exported := exportedSeries(t)
	alerts := 0
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			alerts++
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s: nobody can route or understand it", r.Alert)
			}
			root, err := parser.ParseExpr(r.Expr)
			if err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			parser.Inspect(root, func(n parser.Node, _ []parser.Node) error {
				if s, ok := n.(*parser.VectorSelector); ok && !strings.Contains(exported, "\n"+s.Name+" ") && !strings.Contains(exported, "\n"+s.Name+"{") {
					t.Errorf("%s asks for %s, which is not exported", r.Alert, s.Name)
				}
				if a, ok := n.(*parser.AggregateExpr); ok {
					for _, label := range a.Grouping {
						if !strings.Contains(exported, label+`="`) {
							t.Errorf("%s groups by %s, which no series has", r.Alert, label)
						}
					}
				}
				return nil
			})
		}
	}
	if alerts == 0 {
		t.Error("no alerts were read")
	}
}

// ruleFile is a file of rules, as far as tests look at it.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert, Record, Expr string
			Labels, Annotations map[string]string
		}
	}
}

func rulesOf(t *testing.T, name string) (doc ruleFile) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/prometheus/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// exportedSeries is what scrapes of a service with Slack and of a node agent show, a
// series a line.
func exportedSeries(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n")
	for name, value := range scrape(t, exported(t)) {
		b.WriteString(name + " " + value + "\n")
	}
	return b.String() + agentSeries(t)
}

// exported is what a service with Slack and traces exports, with a sample of all that comes
// and goes.
func exported(t *testing.T) *metrics {
	t.Helper()
	j, err := audit.OpenTemp("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	journalOfTwoRuns(t, j)
	m := newMetrics(newAppendTimes(), metricSources{
		journal: j, figures: func() executor.Figures {
			return executor.Figures{
				Loans: map[string]int{"still-owed": 1}, Phases: map[executor.Standing]int{{Playbook: "pb", Phase: machine.PhaseHeld}: 1},
				Holdings: guard.Holdings{Locks: map[string]string{"service:chat": "r-3"}}, Holders: map[string]string{"r-3": "pb"},
			}
		}, pauses: func() []string { return []string{"global"} }, demoted: func() map[string]int { return map[string]int{"pb": 1} },
		policy:    func() (bool, bool) { return true, false },
		playbooks: func() []string { return []string{"pb"} }, step: func(string, string) string { return "" }, now: time.Now,
		archiving: func() *api.JournalFailure { return nil },
		room:      newRoom(j, 0),
	}, slog.New(slog.DiscardHandler))
	server, err := webhook.New(webhook.Options{Intake: admission{}, Logger: slog.New(slog.DiscardHandler), Registerer: m.registry})
	if err != nil {
		t.Fatal(err)
	}
	server.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody))
	if _, err := (&Service{metrics: m, journal: j}).openTraces(trace.Config{Endpoint: "http://127.0.0.1:1/v1/traces"}); err != nil {
		t.Fatal(err)
	}
	var none noRuns
	if _, err := approvals.New(approvals.Options{
		Runs: none, Control: none, Memory: approvals.Journal{Journal: j}, Slack: struct{ approvals.Slack }{}, Names: none,
		Channel: func(machine.State) string { return "" }, Registry: m.registry, Socket: true,
	}); err != nil {
		t.Fatal(err)
	}
	return m
}

package app

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/agent"
	"github.com/inference-responder/responder/internal/gpu/dcgm"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// aGPU is a node with a GPU of which all that is needed for a metric is known.
type aGPU struct{}

func (aGPU) Snapshot() gpu.Snapshot {
	return gpu.Snapshot{Node: "gpu-17", TakenAt: time.Now(), GPUs: []gpu.GPU{{UUID: "GPU-1", TakenAt: time.Now()}}}
}

// agentSeries is what a scrape of a node agent shows, a series a line.
func agentSeries(t *testing.T) string {
	t.Helper()
	families, err := agentRegistry(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// agentRegistry is what a node agent exports.
func agentRegistry(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewRegistry()
	if _, err := agent.New(agent.Options{Source: aGPU{}, Registry: registry, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return registry
}

// TestGPUAlerts holds the alerts about GPUs to those who have to understand
// them: what they ask for is exported, a playbook matches them, and they name a
// node and nothing that would lead to another service.
func TestGPUAlerts(t *testing.T) {
	shipped, err := playbook.LoadDir("../../playbooks", kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	exported, recorded := agentSeries(t), []string{}
	matched := map[string]bool{}
	for _, g := range rulesOf(t, "gpu.rules.yaml").Groups {
		for _, r := range g.Rules {
			root, err := parser.ParseExpr(r.Expr)
			if err != nil {
				t.Fatalf("%s%s: %v", r.Alert, r.Record, err)
			}
			parser.Inspect(root, func(n parser.Node, _ []parser.Node) error {
				s, ok := n.(*parser.VectorSelector)
				if ok && !strings.Contains(exported, "\n"+s.Name+"{") && !slices.Contains(dcgm.Names(), s.Name) && !slices.Contains(recorded, s.Name) {
					t.Errorf("%s%s asks for %s, which nobody exports", r.Alert, r.Record, s.Name)
				}
				return nil
			})
			if recorded = append(recorded, r.Record); r.Alert == "" {
				continue
			}
			a := playbook.Alert{Status: playbook.Firing, Labels: map[string]string{"alertname": r.Alert, "node": "gpu-17"}}
			for _, p := range shipped.Match(a) {
				matched[p.Name] = true
			}
			if len(shipped.Match(a)) != 1 || r.Labels["severity"] == "" || !strings.Contains(r.Annotations["summary"], "$labels.node") {
				t.Errorf("%s: %d playbooks match it; severity %q, summary %q", r.Alert, len(shipped.Match(a)), r.Labels["severity"], r.Annotations["summary"])
			}
		}
	}
	if !matched["gpu-fault"] || !matched["thermal-emergency"] {
		t.Errorf("playbooks that alerts reach: %v", matched)
	}
}

// TestXIDAlerts: an alert is about the XIDs that are the GPU's own, by the one
// table of them.
func TestXIDAlerts(t *testing.T) {
	var told *regexp.Regexp
	for _, g := range rulesOf(t, "gpu.rules.yaml").Groups {
		for _, r := range g.Rules {
			if m := regexp.MustCompile(`xid=~"([^"]+)"`).FindStringSubmatch(r.Expr); m != nil {
				told = regexp.MustCompile("^(?:" + m[1] + ")$")
			}
		}
	}
	if told == nil {
		t.Fatal("no rule is about XIDs")
	}
	mild := []gpu.XIDClass{gpu.XIDNote, gpu.XIDApplication, gpu.XIDUnknown}
	for code := range uint64(300) {
		class, text := gpu.ClassifyXID(code)
		want := !slices.Contains(mild, class) || code == 154 // the recovery action changed
		if got := told.MatchString(strconv.FormatUint(code, 10)); got != want {
			t.Errorf("XID %d (%s, %s): alert %t, want %t", code, class, text, got, want)
		}
	}
}

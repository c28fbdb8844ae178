//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/worlds"
	"github.com/inference-responder/responder/internal/executor/machine"
	lang "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// Shipped scenarios with real monitoring instead of the simulated one. A Prometheus
// scrapes the exposition text of every simulated engine, on top of the past that it has in
// its blocks. Its rules are those that `responder slo rules` makes, with their own windows.
// An Alertmanager tells the service, whose checks ask that Prometheus. Only the cluster and
// the engines are simulated, at the pace of the real time.
func TestSimulatedFleetBehindRealPrometheus(t *testing.T) {
	t.Parallel()
	for scenario, engine := range map[string]string{"kv-thrash": "vllm", "sglang-kv": "sglang"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := readScenario(t, scenario)
			clock, err := sandbox.NewClock(time.Now(), 1)
			if err != nil {
				t.Fatal(err)
			}
			world := s.Open(clock, 0)
			metrics := httptest.NewServer(metricsOf(world))
			t.Cleanup(metrics.Close)
			var past strings.Builder
			if err := world.WriteHistory(&past, clock.Now().Add(-90*time.Minute)); err != nil {
				t.Fatal(err)
			}

			addr := rig.FreeAddr(t)
			managers := rig.StartAlertmanager(t, 1, rig.WebhookConfig(rig.WebhookURL(addr), ""))
			prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{
				Rules: unscaledRules(t, entries(world)), History: past.String(),
				Discovery: metrics.URL + "/targets", Alertmanagers: rig.Addrs(managers),
			})
			service := startSimulated(t, world, prometheus.URL, addr)
			prometheus.AwaitQuery(t, 30*time.Second, `count(up == 1)`, func(v float64) bool { return int(v) == len(world.Targets()) })

			events := awaitNamed(t, service, addr, s)
			burn, snapshot := gathered(t, events, "slo.burn"), gathered(t, events, "engine.snapshot")
			if burn["status"] != "breached" || snapshot["bound"] != "kv" || snapshot["ready"] != 4.0 {
				t.Errorf("slo.burn: %v; engine.snapshot: bound %v, %v ready; want breached, kv, 4", burn["status"], snapshot["bound"], snapshot["ready"])
			}
			if usage, _ := snapshot["kv_usage"].(float64); usage < 0.9 {
				t.Errorf("engine.snapshot: %v of the KV cache is in use, want more than 0.9", snapshot["kv_usage"])
			}
			t.Logf("engine.snapshot: %v", snapshot["why"])
		})
	}
}

func readScenario(t *testing.T, name string) *worlds.Scenario {
	t.Helper()
	file := filepath.Join(rig.Repository(), "playbooks", "tests", "worlds", name+worlds.Suffix)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := worlds.Read(file, data, kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// metricsOf serves the simulated pods at /pods/NAME/metrics, and their list as Prometheus'
// HTTP discovery reads it at /targets.
func metricsOf(world *sandbox.World) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, req *http.Request) {
		list := []map[string]any{}
		for _, labels := range world.Targets() {
			labels["__metrics_path__"] = "/pods/" + labels["pod"] + "/metrics"
			list = append(list, map[string]any{"targets": []string{req.Host}, "labels": labels})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list) // Prometheus asks again
	})
	mux.HandleFunc("GET /pods/{pod}/metrics", func(w http.ResponseWriter, req *http.Request) {
		var out bytes.Buffer
		if err := world.WriteMetrics(&out, req.PathValue("pod")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(out.Bytes()) // Prometheus scrapes again
	})
	return mux
}

// entries is the catalog of a world as YAML.
func entries(world *sandbox.World) string {
	var out strings.Builder
	for _, s := range world.Services() {
		fmt.Fprintf(&out, "\n  - {name: %s, namespace: %s, workload: {kind: Deployment, name: %s}, engine: %s, model: %s, selector: '%s', slos: [",
			s.Name, s.Namespace, s.Workload.Name, s.Engine, s.Model, s.Selector)
		for _, o := range s.SLOs {
			fmt.Fprintf(&out, "{name: %s, objective: %g, window: %.0fh, threshold: %g}, ", o.Name, o.Objective, o.Window.Hours(), o.Threshold)
		}
		out.WriteString("]}")
	}
	return out.String() + "\n"
}

// startSimulated starts the service in the world, with the real Prometheus.
func startSimulated(t *testing.T, world *sandbox.World, prometheus, addr string) *app.Service {
	t.Helper()
	querier, err := slo.NewPrometheus(slo.Options{URL: prometheus})
	if err != nil {
		t.Fatal(err)
	}
	w, c := app.SandboxWorld(world, machine.Anonymous), app.SandboxConfig()
	w.Deps.Querier, c.Autonomy = querier, lang.Suggest
	service, err := app.New(app.Options{Config: c, World: w, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Temporary: t.TempDir(), ReadOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, service.Close()); err != nil {
			t.Error(err)
		}
	})
	return service
}

// awaitNamed waits until the runs of the service name the scenario's cause, and returns
// their events.
func awaitNamed(t *testing.T, service *app.Service, addr string, s *worlds.Scenario) (events []machine.Event) {
	t.Helper()
	rig.Await(t, 150*time.Second, "a run that names the cause: "+s.Cause, func(ctx context.Context) (bool, string) {
		list, err := simulatedRuns(ctx, addr)
		if err != nil {
			return false, err.Error()
		}
		events = nil
		for _, r := range list.Runs {
			more, err := service.RunEvents(r.Run)
			if err != nil {
				return false, err.Error()
			}
			events = append(events, more...)
		}
		return s.Named(events), fmt.Sprintf("%+v", list.Runs)
	})
	return events
}

func simulatedRuns(ctx context.Context, addr string) (list api.RunList, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/api/v1/runs", nil)
	if err != nil {
		return list, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return list, err
	}
	defer resp.Body.Close()
	return list, json.NewDecoder(resp.Body).Decode(&list)
}

// gathered returns the last evidence of a check.
func gathered(t *testing.T, events []machine.Event, check string) (out map[string]any) {
	t.Helper()
	for _, e := range events {
		for _, g := range e.Gathered {
			if g.Step != check {
				continue
			}
			out = nil
			if err := json.Unmarshal(g.Data, &out); err != nil {
				t.Fatalf("%s: %v %s", check, err, g.Why)
			}
		}
	}
	return out
}

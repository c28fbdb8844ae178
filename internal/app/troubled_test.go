package app

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/slo/slotest"
	"github.com/inference-responder/responder/internal/step"
)

// Runs of the shipped playbook wait at gates in the waiting world, so that benchmarks
// over it measure what they are about.
func TestRunsWaitInTheWaitingWorld(t *testing.T) {
	const services = 3
	c := config.Default()
	c.Autonomy, c.Journal.Dir, c.Auth.Insecure = playbook.Auto, t.TempDir(), true
	s, address, stop := runWaitingWorld(t, c, services)
	defer stop()
	sendAlerts(t, "http://"+address, services)
	if err := awaitGates(s.executor, services); err != nil {
		t.Fatal(err)
	}
	for _, state := range s.executor.Runs(executor.Filter{}) {
		if state.Current != "levers" {
			t.Errorf("run of %s waits in state %s, want levers", state.Start.Service.Name, state.Current)
		}
	}
}

// waitingWorld is services in trouble: nobody changed them for a day, each misses its
// objective because requests queue, and may be scaled. No check sees the other services:
// a breach of them all has a shared cause, for which no run asks.
func waitingWorld(services int) World {
	var entries []catalog.Entry
	for i := range services {
		name := waitingName(i)
		entries = append(entries, catalog.Entry{Source: "test", Service: playbook.Service{
			Name: "serving/" + name, Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: name}, Container: "vllm",
			Engine: "vllm", Model: "llama-3.3-70b-" + name, Endpoint: "http://" + name + ".serving:8000",
			SLOs:   []playbook.SLO{{Name: "ttft", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.5}},
			Owners: []string{"group:ml-platform"}, Autonomy: playbook.Auto, MinReady: 2, MaxScale: 12,
			Selector: `model_name="llama-3.3-70b-` + name + `",namespace="serving"`,
		}})
	}
	known := catalog.New(catalog.Options{Entries: entries, Ceiling: playbook.Auto})
	troubled := newTroubledCluster(time.Now())
	return World{
		Deps:    step.Deps{Querier: troubled, Workloads: troubled, Changer: troubled},
		Resolve: known.Resolve, Services: known.Services, Known: known.Known,
	}
}

const troubledPods = 4

func troubledPod(service string, i int) string { return fmt.Sprintf("%s-7d4b9c-%d", service, i) }
func troubledNode(i int) string                { return fmt.Sprintf("gpu-node-%d", i) }

// troubledCluster answers for every service alike: as for the first one, whose series it
// has. An answer is computed once, and moved in time and renamed for whoever asks, so that
// benchmarks measure the service and not PromQL.
type troubledCluster struct {
	store slotest.Store
	made  time.Time // when the newest samples were taken

	mu       sync.Mutex // guards the answers, by queries about the first service
	instants map[string]slo.Vector
	ranges   map[string]slo.Matrix
}

var waitingNames = regexp.MustCompile(`chat-\d{5}`)

// newTroubledCluster returns a cluster whose services were well until half an hour ago.
// Since then requests wait on every replica, and the first token of every fifth takes more
// than half a second.
func newTroubledCluster(now time.Time) *troubledCluster {
	const every, well, troubled = 30, 90 * 60, 30 * 60 // seconds
	c := &troubledCluster{store: slotest.Store{}, made: now, instants: map[string]slo.Vector{}, ranges: map[string]slo.Matrix{}}
	name := waitingName(0)
	for i := range troubledPods {
		// add adds a series: what a counter grows by in a second, or a gauge, before and in trouble.
		add := func(series string, counter bool, before, in float64, more ...string) {
			labels := map[string]string{"namespace": "serving", "model_name": "llama-3.3-70b-" + name, "pod": troubledPod(name, i), "engine": "0"}
			if len(more) == 2 {
				labels[more[0]] = more[1]
			}
			var points []slo.Point
			total := 0.0
			for at := -well - troubled; at <= 0; at += every {
				value := before
				if at > -troubled {
					value = in
				}
				total += value * every
				if counter {
					value = total
				}
				points = append(points, slo.Point{At: now.Add(time.Duration(at) * time.Second), Value: value})
			}
			c.store.Add("vllm:"+series, labels, points)
		}
		histogram := func(series string, mean float64, below map[string]float64) {
			add(series+"_count", true, 5, 5)
			add(series+"_sum", true, 5*mean, 5*mean)
			for le, share := range below {
				add(series+"_bucket", true, 5, 5*share, "le", le)
			}
		}
		histogram("time_to_first_token_seconds", 0.2, map[string]float64{"0.5": 0.8, "1": 0.9, "+Inf": 1})
		histogram("e2e_request_latency_seconds", 4, map[string]float64{"5": 0.9, "10": 1, "+Inf": 1})
		add("num_requests_running", false, 20, 32)
		add("num_requests_waiting", false, 0, 12)
		add("kv_cache_usage_perc", false, 0.4, 0.6)
		add("num_preemptions_total", true, 0, 0)
		add("generation_tokens_total", true, 1000, 1200)
		add("prompt_tokens_total", true, 5000, 5000)
		add("request_success_total", true, 5, 5, "finished_reason", "stop")
	}
	return c
}

// Instant implements step.Querier.
func (c *troubledCluster) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	name := waitingNames.FindString(expr)
	of := strings.ReplaceAll(expr, name, waitingName(0))
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.instants[of]
	if !ok {
		var err error
		if known, err = c.store.Instant(ctx, of, c.made); err != nil {
			return slo.Vector{}, err
		}
		c.instants[of] = known
	}
	out := slo.Vector{Warnings: known.Warnings}
	for _, s := range known.Samples {
		out.Samples = append(out.Samples, slo.Sample{Labels: renamed(s.Labels, name), Value: c.moved(s.Value, at), At: at})
	}
	return out, nil
}

// Range implements step.Querier.
func (c *troubledCluster) Range(ctx context.Context, expr string, from, to time.Time, every time.Duration) (slo.Matrix, error) {
	name := waitingNames.FindString(expr)
	of := strings.ReplaceAll(expr, name, waitingName(0))
	key := fmt.Sprint(to.Sub(from), " ", every, " ", of)
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.ranges[key]
	if !ok {
		var err error
		if known, err = c.store.Range(ctx, of, c.made.Add(from.Sub(to)), c.made, every); err != nil {
			return slo.Matrix{}, err
		}
		c.ranges[key] = known
	}
	out := slo.Matrix{}
	for _, s := range known.Series {
		one := slo.Series{Labels: renamed(s.Labels, name)}
		for _, p := range s.Points {
			one.Points = append(one.Points, slo.Point{At: p.At.Add(to.Sub(c.made)), Value: c.moved(p.Value, to)})
		}
		out.Series = append(out.Series, one)
	}
	return out, nil
}

// moved returns a value as of another moment: it is later if it is a time itself, which no
// other value is as large as.
func (c *troubledCluster) moved(value float64, at time.Time) float64 {
	if value > float64(c.made.Add(-24*time.Hour).Unix()) {
		return value + at.Sub(c.made).Seconds()
	}
	return value
}

// renamed returns labels that name the service of that name.
func renamed(of map[string]string, name string) map[string]string {
	out := maps.Clone(of)
	for k, v := range out {
		if strings.Contains(v, waitingName(0)) {
			out[k] = strings.ReplaceAll(v, waitingName(0), name)
		}
	}
	return out
}

// Workload implements step.Workloads.
func (*troubledCluster) Workload(_ context.Context, ref kube.Ref) (kube.Workload, error) {
	long := time.Now().Add(-24 * time.Hour)
	var pods []kube.Pod
	for i := range troubledPods {
		name := troubledPod(ref.Name, i)
		pods = append(pods, kube.Pod{Name: name, UID: "uid-" + name, Node: troubledNode(i), Phase: "Running", Ready: true, Revision: 2, Created: long, Started: long, ReadySince: long, Loading: time.Minute})
	}
	return kube.Workload{
		Ref: ref, APIVersion: "apps/v1", UID: "uid-" + ref.Name, Generation: 3, Observed: 3, Pods: pods,
		Replicas: troubledPods, Ready: troubledPods, Updated: troubledPods, Available: troubledPods,
		Revision: 2, Strategy: kube.Strategy{Type: "RollingUpdate", MaxSurge: 1},
	}, nil
}

// Revisions implements step.Workloads.
func (*troubledCluster) Revisions(_ context.Context, ref kube.Ref) ([]kube.Revision, error) {
	long := time.Now().Add(-24 * time.Hour)
	return []kube.Revision{
		{Number: 1, Name: ref.Name + "-1", Created: long, Active: long},
		{Number: 2, Name: ref.Name + "-2", Created: long, Active: long, Current: true},
	}, nil
}

// Nodes implements step.Workloads.
func (*troubledCluster) Nodes(context.Context, kube.Ref) ([]kube.Node, error) {
	var nodes []kube.Node
	for i := range troubledPods {
		nodes = append(nodes, kube.Node{Name: troubledNode(i), Ready: true, Pods: 1})
	}
	return nodes, nil
}

// Scale implements step.Changer.
func (*troubledCluster) Scale(_ context.Context, c kube.ScaleChange) (kube.Applied, error) {
	return kube.Applied{UID: c.Pre.UID, Generation: c.Pre.Generation + 1, Replicas: c.Replicas}, nil
}

// Restart implements step.Changer.
func (*troubledCluster) Restart(_ context.Context, c kube.RestartChange) (kube.Applied, error) {
	return kube.Applied{UID: c.Pre.UID, Generation: c.Pre.Generation + 1}, nil
}

// Hold implements step.Changer.
func (*troubledCluster) Hold(_ context.Context, c kube.HoldChange) (kube.Applied, error) {
	return kube.Applied{UID: c.Pre.UID, Generation: c.Pre.Generation + 1}, nil
}

// Undo implements step.Changer.
func (*troubledCluster) Undo(_ context.Context, c kube.UndoChange) (kube.Applied, error) {
	return kube.Applied{UID: c.Pre.UID, Generation: c.Pre.Generation + 1}, nil
}

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/slo/slotest"
	"github.com/inference-responder/responder/internal/step"
)

// cluster is a fleet of services: their series in the real PromQL engine, and
// their workloads.
type cluster struct {
	nodeReader
	step.Applications

	all     []playbook.Service
	slow    map[string]float64           // share of slow requests, by service; from ten minutes ago on
	long    map[string]bool              // since longer ago than anything remembers
	quiet   map[string]bool              // no requests
	lost    map[string]error             // services about which Prometheus answers with this error
	runs    map[string][]string          // nodes, by service
	changes map[string]map[string]string // fields that the current revision changed, ten minutes ago
	hot     map[string]bool
	stuck   map[string]kube.Pod // a further pod, by service, that is not ready
	took    time.Duration       // how long the ready pods loaded

	mu    sync.Mutex
	reads map[string]int // workloads, by service
}

// nodeReader has the methods of nodes that nobody calls here.
type nodeReader struct{ step.Nodes }

// workloads is the cluster as [step.Workloads].
type workloads struct{ *cluster }

func (workloads) Nodes(context.Context, kube.Ref) ([]kube.Node, error) { return nil, nil }

func newCluster(names ...string) *cluster {
	c := &cluster{slow: map[string]float64{}, long: map[string]bool{}, quiet: map[string]bool{}, lost: map[string]error{}, runs: map[string][]string{}, changes: map[string]map[string]string{}, hot: map[string]bool{}, stuck: map[string]kube.Pod{}, reads: map[string]int{}}
	for _, n := range names {
		c.all = append(c.all, playbook.Service{
			Name: n, Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: n}, Engine: "vllm", Selector: fmt.Sprintf("service=%q", n),
			SLOs: []playbook.SLO{{Name: "ttft", Objective: 0.99, Threshold: 0.5, Window: 28 * 24 * time.Hour}},
		})
		c.runs[n] = []string{"node-" + n}
	}
	return c
}

func (c *cluster) deps() step.Deps {
	return step.Deps{
		Querier: c, Workloads: workloads{c}, Nodes: c, GPUs: c, Applications: c, Services: func() []playbook.Service { return c.all },
		Now: func() time.Time { return noon },
	}
}

func (c *cluster) ask(t *testing.T, with map[string]any) (breachesOut, []string, error) {
	t.Helper()
	f, err := NewBreaches(c.deps()).Run(t.Context(), step.Input{Service: c.all[0], With: with, Now: noon})
	out, _ := f.Out.(breachesOut)
	return out, f.Facts, err
}

// Instant implements [step.Querier]: an hour and a half of scrapes.
func (c *cluster) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	if err := c.failure(expr); err != nil {
		return slo.Vector{}, err
	}
	return c.store().Instant(ctx, expr, at)
}

func (c *cluster) Range(ctx context.Context, expr string, from, to time.Time, every time.Duration) (slo.Matrix, error) {
	if err := c.failure(expr); err != nil {
		return slo.Matrix{}, err
	}
	return c.store().Range(ctx, expr, from, to, every)
}

func (c *cluster) failure(expr string) error {
	for name, err := range c.lost {
		if strings.Contains(expr, fmt.Sprintf("service=%q", name)) {
			return err
		}
	}
	return nil
}

func (c *cluster) store() slotest.Store {
	out := slotest.Store{}
	for _, s := range c.all {
		if c.quiet[s.Name] {
			continue
		}
		const name = "vllm:time_to_first_token_seconds"
		for le, share := range map[string]float64{"0.5": 1 - c.slow[s.Name], "+Inf": 1, "": 1} {
			var points []slo.Point
			good := 0.0
			for at := noon.Add(-90 * time.Minute); !at.After(noon); at = at.Add(30 * time.Second) {
				one := 300.0
				if le == "0.5" && (c.long[s.Name] || at.After(noon.Add(-10*time.Minute))) {
					one *= share
				}
				good += one
				points = append(points, slo.Point{At: at, Value: good})
			}
			if le == "" {
				out.Add(name+"_count", map[string]string{"service": s.Name}, points)
				continue
			}
			out.Add(name+"_bucket", map[string]string{"service": s.Name, "le": le}, points)
		}
	}
	return out
}

// Workload implements [step.Workloads].
func (c *cluster) Workload(_ context.Context, ref kube.Ref) (kube.Workload, error) {
	c.mu.Lock()
	c.reads[ref.Name]++
	c.mu.Unlock()
	w := kube.Workload{Ref: ref, Replicas: 1, Ready: 1}
	for i, n := range c.runs[ref.Name] {
		w.Pods = append(w.Pods, kube.Pod{Name: fmt.Sprintf("%s-%d", ref.Name, i), Node: n, Ready: true, Loading: c.took})
	}
	if p, ok := c.stuck[ref.Name]; ok {
		w.Pods = append(w.Pods, p)
	}
	return w, nil
}

func (c *cluster) Revisions(_ context.Context, ref kube.Ref) ([]kube.Revision, error) {
	before := map[string]string{"containers[vllm].image": "vllm:v1"}
	out := []kube.Revision{{Number: 1, Created: noon.Add(-48 * time.Hour), Fields: before, Current: c.changes[ref.Name] == nil}}
	if now := c.changes[ref.Name]; now != nil {
		out = append(out, kube.Revision{Number: 2, Created: noon.Add(-10 * time.Minute), Fields: now, Current: true})
	}
	return out, nil
}

// Node implements [step.Nodes].
func (c *cluster) Node(_ context.Context, name string) (kube.NodeState, error) {
	return kube.NodeState{Name: name, Ready: true}, nil
}

func (c *cluster) NodePods(_ context.Context, node string) ([]kube.NodePod, error) {
	var out []kube.NodePod
	for name, nodes := range c.runs {
		if slices.Contains(nodes, node) {
			out = append(out, kube.NodePod{Namespace: "serving", Name: name + "-0"})
		}
	}
	return out, nil
}

// Snapshots implements [step.GPUs].
func (c *cluster) Snapshots(_ context.Context, nodes []string, _ time.Duration) []gpu.Answer {
	var out []gpu.Answer
	for _, n := range nodes {
		g := gpu.GPU{
			UUID: "GPU-" + n, Name: "NVIDIA H100 80GB HBM3", TakenAt: noon, Clocks: gpu.Clocks{Reasons: gpu.Known(gpu.Reasons(0))},
			Temperature: gpu.Temperature{GPUC: gpu.Known[int64](60), SlowdownC: gpu.Known[int64](92)}, EventsWatched: gpu.Known(true), Pods: gpu.Known([]gpu.Pod{}),
		}
		for i := range 5 {
			m := gpu.Minute{Start: noon.Add(time.Duration(i-5) * time.Minute), Samples: 60, GPUMaxC: gpu.Known[int64](60)}
			if c.hot[n] {
				m.Reasons = map[gpu.Reasons]int{gpu.HWThermalSlowdown: 60}
				g.Clocks.Reasons = gpu.Known(gpu.HWThermalSlowdown)
			}
			g.Minutes = append(g.Minutes, m)
		}
		out = append(out, gpu.Answer{Node: n, Snapshot: gpu.Snapshot{Format: gpu.Format, Node: n, Source: "nvml", TakenAt: noon, PeriodMS: 1000, GPUs: []gpu.GPU{g}}})
	}
	return out
}

func (c *cluster) Application(context.Context, string) (gitops.Application, error) {
	return gitops.Application{}, nil
}

func TestBreaches(t *testing.T) {
	burn := func(c *cluster, names ...string) {
		for _, n := range names {
			c.slow[n] = 0.3
		}
	}
	one := map[string]string{"containers[vllm].image": "vllm:v2"}
	logs := map[string]string{"containers[vllm].image": "vllm:v1", "containers[vllm].args[--uvicorn-log-level]": "debug"}
	stuck := func(ago time.Duration, why string) kube.Pod {
		return kube.Pod{Name: "new", Waiting: why, Started: noon.Add(-ago)}
	}
	for name, tt := range map[string]struct {
		world func(c *cluster)
		want  breachesOut // without Why
		why   string
	}{
		"only this service": {
			func(c *cluster) { burn(c, "chat") },
			breachesOut{Measured: 6, Count: 1, Breaching: []string{"chat"}},
			"1 of 6 measured services breach their SLO since 11:5", // 11:51 or so
		},
		"a coincidence": {
			func(c *cluster) { burn(c, "chat", "code") },
			breachesOut{Measured: 6, Count: 2, Breaching: []string{"chat", "code"}},
			"nothing that they share was found",
		},
		"one node": {
			func(c *cluster) {
				burn(c, "chat", "code")
				c.runs["chat"], c.runs["code"] = []string{"gpu-17", "gpu-18"}, []string{"gpu-17"}
			},
			breachesOut{Measured: 6, Count: 2, Breaching: []string{"chat", "code"}, SharedBy: "node", Node: "gpu-17", Shared: "gpu-17", Key: "node gpu-17"},
			"all have pods on node gpu-17, and no healthy service has",
		},
		"one release": {
			func(c *cluster) {
				burn(c, "chat", "code")
				c.changes["chat"], c.changes["code"] = one, one
			},
			breachesOut{Measured: 6, Count: 2, Breaching: []string{"chat", "code"}, SharedBy: "release", Shared: "image vllm:v2", Key: "release image vllm:v2"},
			"all got image vllm:v2 before (chat at 11:50Z, code at 11:50Z), and no healthy service did",
		},
		"one release, and a service that breaches for another reason": {
			func(c *cluster) {
				burn(c, "chat", "code", "embed")
				c.changes["chat"], c.changes["code"] = one, one
			},
			breachesOut{Measured: 6, Count: 3, Breaching: []string{"chat", "code", "embed"}, SharedBy: "release", Shared: "image vllm:v2", Key: "release image vllm:v2"},
			"of these chat, code: all got image vllm:v2 before",
		},
		"a release of a log level": {
			func(c *cluster) {
				burn(c, "chat", "code")
				c.changes["chat"], c.changes["code"] = logs, logs
			},
			breachesOut{Measured: 6, Count: 2, Breaching: []string{"chat", "code"}},
			"nothing that they share",
		},
		"a registry that is away, before any objective is missed": {
			func(c *cluster) {
				c.stuck["chat"], c.stuck["code"] = stuck(5*time.Minute, "ImagePullBackOff"), stuck(4*time.Minute, "ErrImagePull")
				c.stuck["embed"] = stuck(time.Minute, "")
			},
			breachesOut{Measured: 6, Breaching: []string{}, SharedBy: "model", Shared: "docker.io", Key: "model docker.io"},
			"pods of chat, code do not become ready, and none can pull its image from docker.io",
		},
		"a pod that cannot pull its image, and one that has not for days": {
			func(c *cluster) {
				c.stuck["chat"], c.stuck["code"] = stuck(5*time.Minute, "ImagePullBackOff"), stuck(80*time.Hour, "ImagePullBackOff")
			},
			breachesOut{Measured: 6, Breaching: []string{}},
			"0 of 6 measured services breach",
		},
		"pods that crash, each for a reason of its own": {
			func(c *cluster) {
				c.all[0].Model, c.all[1].Model = "llama", "llama"
				for _, name := range []string{"chat", "code"} {
					p := stuck(30*time.Minute, "CrashLoopBackOff")
					p.Restarts = 4
					c.stuck[name] = p
				}
			},
			breachesOut{Measured: 6, Breaching: []string{}},
			"0 of 6 measured services breach",
		},
		"pods that wait for one model, before any objective is missed": {
			func(c *cluster) {
				c.all[0].Model, c.all[1].Model = "llama", "llama"
				c.stuck["chat"], c.stuck["code"] = stuck(30*time.Minute, ""), stuck(20*time.Minute, "")
			},
			breachesOut{Measured: 6, Breaching: []string{}, SharedBy: "model", Shared: "llama", Key: "model llama"},
			"pods of chat, code do not become ready, and all load the model llama",
		},
		"pods that load no longer than others of the same model did": {
			func(c *cluster) {
				burn(c, "chat", "code")
				c.all[0].Model, c.all[1].Model, c.took = "llama", "llama", 15*time.Minute
				c.stuck["chat"], c.stuck["code"] = stuck(20*time.Minute, ""), stuck(20*time.Minute, "")
			},
			breachesOut{Measured: 6, Count: 2, Breaching: []string{"chat", "code"}},
			"nothing that they share",
		},
		"a release that a healthy service has, too": {
			func(c *cluster) {
				burn(c, "chat", "code")
				c.changes["chat"], c.changes["code"], c.changes["embed"] = one, one, one
			},
			breachesOut{Measured: 6, Count: 2, Breaching: []string{"chat", "code"}},
			"nothing that they share",
		},
		"one gateway": {
			func(c *cluster) {
				burn(c, "chat", "code")
				c.all[0].Gateway, c.all[1].Gateway, c.all[2].Gateway = "edge", "edge", "edge"
			},
			breachesOut{Measured: 6, Count: 2, Breaching: []string{"chat", "code"}, SharedBy: "gateway", Shared: "edge", Key: "gateway edge"},
			"all are behind the gateway edge, where 1 of 3 measured services are well",
		},
		"a breach that was there before": {
			func(c *cluster) {
				burn(c, "chat", "code", "embed")
				c.long["code"], c.long["embed"] = true, true
			},
			breachesOut{Measured: 6, Count: 3, Breaching: []string{"chat", "code", "embed"}},
			"nothing that they share was found",
		},
		"others are a little over their objective": {
			func(c *cluster) {
				burn(c, "chat")
				c.slow["code"], c.slow["embed"] = 0.018, 0.018
			},
			breachesOut{Measured: 4, Unknown: 2, Count: 1, Breaching: []string{"chat"}},
			"1 of 4 measured services breach",
		},
		"a gateway, and a GPU at fault under this service": {
			func(c *cluster) {
				burn(c, "chat", "code", "embed")
				c.all[0].Gateway, c.all[1].Gateway, c.all[2].Gateway = "edge", "edge", "edge"
				c.hot["node-chat"] = true
			},
			breachesOut{Measured: 6, Count: 3, Breaching: []string{"chat", "code", "embed"}},
			"nothing that they share was found",
		},
		"a gateway, and a GPU at fault under another service": {
			func(c *cluster) {
				burn(c, "chat", "code", "embed")
				c.all[0].Gateway, c.all[1].Gateway, c.all[2].Gateway = "edge", "edge", "edge"
				c.hot["node-code"] = true
			},
			breachesOut{Measured: 6, Count: 3, Breaching: []string{"chat", "code", "embed"}, SharedBy: "gateway", Shared: "edge", Key: "gateway edge"},
			"; of these chat, embed: all are behind the gateway edge",
		},
		"the fleet": {
			func(c *cluster) { burn(c, "chat", "code", "embed") },
			breachesOut{Measured: 6, Count: 3, Breaching: []string{"chat", "code", "embed"}, SharedBy: "fleet", Shared: "fleet", Key: "fleet"},
			"half of the fleet or more",
		},
		"five services in a hot room, before any objective is missed": {
			func(c *cluster) {
				for _, s := range c.all[:5] {
					c.hot["node-"+s.Name] = true
				}
			},
			breachesOut{Measured: 6, Breaching: []string{}, SharedBy: "heat", Shared: "heat", Key: "heat"},
			"GPUs slow down for heat on 5 nodes under 5 services at once: node-chat (chat), node-code (code)",
		},
		"one hot node is this service's own": {
			func(c *cluster) { burn(c, "chat"); c.hot["node-chat"] = true },
			breachesOut{Measured: 6, Count: 1, Breaching: []string{"chat"}},
			"1 of 6",
		},
		"most others are unknown": {
			func(c *cluster) {
				burn(c, "chat", "code")
				c.quiet["embed"], c.quiet["rerank"] = true, true
				c.lost["vision"] = &fault.Error{Reason: fault.ServerError, Message: "execution: too many samples"}
			},
			breachesOut{Measured: 3, Unknown: 3, Count: 2, Breaching: []string{"chat", "code"}},
			"2 of 3 measured services breach their SLO since 11:5",
		},
		"others breach and this one does not": {
			func(c *cluster) { burn(c, "code", "embed", "rerank") },
			breachesOut{Measured: 6, Count: 3, Breaching: []string{"code", "embed", "rerank"}},
			"3 of 6 measured services breach their SLO",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster("chat", "code", "embed", "rerank", "vision", "speech")
			tt.world(c)
			got, facts, err := c.ask(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Why, tt.why) {
				t.Errorf("why %q, want %q", got.Why, tt.why)
			}
			if name == "most others are unknown" && !strings.HasSuffix(got.Why, "; 3 of the 5 others could not be told") {
				t.Errorf("why %q", got.Why)
			}
			got.Why, got.Services = "", 0
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, strings.Join(facts, "\n"))
			}
		})
	}
}

// TestBreachesReads: as long as no other service breaches, no other workload is read.
func TestBreachesReads(t *testing.T) {
	c := newCluster("chat", "code", "embed")
	c.slow["chat"] = 0.3
	if _, _, err := c.ask(t, nil); err != nil {
		t.Fatal(err)
	}
	if c.reads["code"]+c.reads["embed"] > 0 {
		t.Errorf("workloads read: %v", c.reads)
	}
}

func TestBreachesBounded(t *testing.T) {
	var names []string
	for i := range 260 {
		names = append(names, fmt.Sprintf("s%03d", i))
	}
	c := newCluster(names...)
	for _, n := range names[1:] {
		c.lost[n] = &fault.Error{Reason: fault.Timeout, Message: "slow"}
	}
	got, _, err := c.ask(t, nil)
	if err != nil || got.Services != 260 || got.Unknown != 259 || got.Measured != 1 || got.SharedBy != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestBreachesOnManyNodes: the evidence says of how many nodes nobody read the GPUs.
func TestBreachesOnManyNodes(t *testing.T) {
	c := newCluster("chat", "code")
	c.slow["chat"], c.slow["code"] = 0.3, 0.3
	for i := range 70 {
		c.runs["chat"] = append(c.runs["chat"], fmt.Sprintf("node-%d", i))
	}
	_, facts, err := c.ask(t, nil)
	want := "GPUs were read on 64 nodes; on 7 more they were not"
	if err != nil || !slices.Contains(facts, want) {
		t.Errorf("%q, %v, want %q", facts, err, want)
	}
}

func TestBreachesFails(t *testing.T) {
	c := newCluster("chat", "code")
	c.lost["chat"] = &fault.Error{Reason: fault.Unreachable, Message: "prometheus is away"}
	var e *fault.Error
	if _, _, err := c.ask(t, nil); !errors.As(err, &e) || e.Reason != fault.Unreachable {
		t.Errorf("this service cannot be measured: %v", err)
	}
	c = newCluster("chat")
	for _, with := range []map[string]any{{"window": "0s"}, {"within": "0s"}, {"services": 3}} {
		if _, _, err := c.ask(t, with); !errors.As(err, &e) || e.Reason != fault.Invalid {
			t.Errorf("%v: %v", with, err)
		}
	}
	if _, err := NewBreaches(step.Deps{}).Run(t.Context(), step.Input{}); !errors.As(err, &e) || !strings.Contains(err.Error(), "prometheus.url") {
		t.Errorf("without Prometheus: %v", err)
	}
	f, err := NewBreaches(step.Deps{Querier: c}).Run(t.Context(), step.Input{Service: c.all[0], Now: noon})
	if out, _ := f.Out.(breachesOut); err != nil || out.Services != 1 || out.SharedBy != "" {
		t.Errorf("without a catalog and a cluster: %+v, %v", out, err)
	}
}

// stalled never answers about other services.
type stalled struct{ *cluster }

func (s stalled) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	if !strings.Contains(expr, `service="chat"`) {
		<-ctx.Done()
		return slo.Vector{}, ctx.Err()
	}
	return s.cluster.Instant(ctx, expr, at)
}

// TestBreachesInTime: what does not answer costs the run no more than within.
func TestBreachesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster("chat", "code", "embed")
		d := c.deps()
		d.Querier = stalled{c}
		began := time.Now()
		f, err := NewBreaches(d).Run(t.Context(), step.Input{Service: c.all[0], Now: noon, With: map[string]any{"within": "3s"}})
		out, _ := f.Out.(breachesOut)
		if err != nil || out.Unknown != 2 || time.Since(began) > 3*time.Second {
			t.Errorf("%+v, %v after %v", out, err, time.Since(began))
		}
	})
}

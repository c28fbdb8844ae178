package agent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// metrics are the agent's own metrics.
type metrics struct {
	requests *prometheus.CounterVec
}

func newMetrics(registry *prometheus.Registry, source Source) (*metrics, error) {
	m := &metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "responder_agent_requests_total", Help: "Requests for /v1/health by result.",
	}, []string{"result"})}
	for _, c := range []prometheus.Collector{m.requests, &gauges{source: source}} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("agent: register metrics: %w", err)
		}
	}
	return m, nil
}

// gauges exports the latest readings. An unknown reading has no sample. Each
// sample names the node, so that an alert does, however the agent is scraped.
type gauges struct{ source Source }

var (
	byNode     = []string{"node"}
	byGPU      = []string{"node", "gpu", "uuid"}
	descUp     = prometheus.NewDesc("responder_agent_driver_up", "Whether the driver answers: 1 or 0.", byNode, nil)
	descNode   = prometheus.NewDesc("responder_agent_node_verdict", "1 for the present verdict about the node as a whole (GPUs that have left, or cannot be told), 0 for the others.", []string{"node", "verdict"}, nil)
	descAge    = prometheus.NewDesc("responder_agent_sample_age_seconds", "Age of the last complete sample.", byGPU, nil)
	descState  = prometheus.NewDesc("responder_agent_gpu_verdict", "1 for the present verdict, 0 for the others; compared with no other node.", append(byGPU[:3:3], "verdict"), nil)
	descSlowed = prometheus.NewDesc("responder_agent_gpu_throttled", "Whether the verdict is throttled, by what: 1 or 0.", append(byGPU[:3:3], "by"), nil)
	descReason = prometheus.NewDesc("responder_agent_gpu_clocks_event_reason", "Whether a reason for lower clocks is active: 1 or 0.", append(byGPU[:3:3], "reason"), nil)
	descPod    = prometheus.NewDesc("responder_agent_gpu_pod", "1 for each pod that holds the GPU, or a part of it, where that is known.", append(byGPU[:3:3], "mig_instance", "namespace", "pod", "container"), nil)
	descMIG    = prometheus.NewDesc("responder_agent_gpu_mig_instance", "1 for each part of a divided GPU.", append(byGPU[:3:3], "mig_instance", "profile"), nil)
	descLast   = prometheus.NewDesc("responder_agent_gpu_xid_timestamp_seconds", "When an XID was seen last, of those that are remembered.", append(byGPU[:3:3], "xid"), nil)
	descXIDs   = prometheus.NewDesc("responder_agent_gpu_xids_kept", "XID events that are remembered (the last 128 events).", byGPU, nil)
)

// Describe lists them.
func (m *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descUp, descNode, descAge, descState, descSlowed, descReason, descPod, descMIG, descLast, descXIDs} {
		out <- d
	}
	for _, g := range readings {
		out <- g.desc
	}
}

// Collect reads them.
func (m *gauges) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	s := m.source.Snapshot()
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{s.Node}, labels...)...)
	}
	up := 1.0
	for _, e := range s.Errors {
		if e.What == "driver" {
			up = 0
		}
	}
	send(descUp, up)
	node := judged(now, s)
	for _, v := range judge.Verdicts() {
		send(descNode, oneIf(node.Verdict == v), string(v))
	}
	for i, g := range s.GPUs {
		index := strconv.Itoa(g.Index)
		send(descAge, now.Sub(g.TakenAt).Seconds(), index, g.UUID)
		for _, v := range judge.Verdicts() {
			send(descState, oneIf(node.GPUs[i].Verdict == v), index, g.UUID, string(v))
		}
		for _, by := range []judge.Throttle{judge.Thermal, judge.PowerBrake, judge.Hardware} {
			send(descSlowed, oneIf(node.GPUs[i].Verdict == judge.Throttled && node.GPUs[i].Throttle == by), index, g.UUID, string(by))
		}
		if active, ok := g.Clocks.Reasons.Get(); ok {
			for _, bit := range (gpu.Harmful | gpu.Benign | gpu.SWPowerCap | active).Bits() {
				send(descReason, oneIf(active&bit != 0), index, g.UUID, bit.Names()[0])
			}
		}
		listed(g, func(d *prometheus.Desc, v float64, labels ...string) {
			send(d, v, append([]string{index, g.UUID}, labels...)...)
		})
		for _, r := range readings {
			if v, ok := r.read(g); ok {
				out <- prometheus.MustNewConstMetric(r.desc, r.kind, v, s.Node, index, g.UUID)
			}
		}
	}
}

// judged returns the verdict about each GPU and about the node as a whole. The
// verdicts about an invalid snapshot, which callers never get, are unknown.
func judged(now time.Time, s gpu.Snapshot) judge.NodeJudgement {
	n := judge.Nodes(now, s)[0]
	n.Verdict = judge.Healthy
	for _, r := range n.Reasons {
		if r.Verdict.WorseThan(n.Verdict) {
			n.Verdict = r.Verdict
		}
	}
	if s.Validate() != nil {
		n.Verdict = judge.Uncertain
		for i := range n.GPUs {
			n.GPUs[i].Verdict = judge.Uncertain
		}
	}
	return n
}

// listed sends the metrics of which a GPU has any number: pods, MIG instances,
// XIDs.
func listed(g gpu.GPU, send func(d *prometheus.Desc, v float64, labels ...string)) {
	pods, _ := g.Pods.Get()
	for _, p := range pods {
		if p.Name != "" { // a UID alone names no pod
			send(descPod, 1, p.Instance, p.Namespace, p.Name, p.Container)
		}
	}
	for _, m := range g.MIG.Instances {
		send(descMIG, 1, m.UUID, m.Profile)
	}
	xids, last := 0, map[uint64]time.Time{}
	for _, e := range g.Events {
		if code, ok := e.XID(); ok {
			xids++
			last[code] = e.At // oldest first
		}
	}
	for code, at := range last {
		send(descLast, float64(at.UnixMilli())/1000, strconv.FormatUint(code, 10))
	}
	send(descXIDs, float64(xids))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

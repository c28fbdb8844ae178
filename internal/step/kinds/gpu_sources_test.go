package kinds_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/dcgm"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/slo"
	gpusteps "github.com/inference-responder/responder/internal/step/gpu"
)

// exported is a Prometheus with dcgm-exporter's series of node-b.
type exported struct {
	t        *testing.T
	err      error
	warnings []string
	scraped  time.Duration // ago
	node     string        // empty: node-b
	gap      time.Duration // ago, of two minutes; 0: none
	counts   []float64     // of GPUs, till now; none: nobody counted
	without  string        // a series that is not exported
	xid      float64       // the last one
	xidFor   time.Duration // since when it has been that; 0: for ever
	noPast   error         // instead of what was before the last minutes
	asked    *[]string
}

var wellExported = map[string]float64{
	"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 0, "DCGM_FI_DEV_GPU_TEMP": 50, "DCGM_FI_DEV_SLOWDOWN_TEMP": 92, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0, "DCGM_FI_DEV_XID_ERRORS": 0,
	"DCGM_FI_DEV_ROW_REMAP_PENDING": 0, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
}

func (p exported) query(expr string) {
	p.t.Helper()
	if _, err := parser.ParseExpr(expr); err != nil {
		p.t.Errorf("Prometheus would not understand %s: %v", expr, err)
	}
	*p.asked = append(*p.asked, expr)
}

func (p exported) Instant(context.Context, string, time.Time) (slo.Vector, error) {
	return slo.Vector{}, errors.New("one moment says nothing of the time before it")
}

func (p exported) Range(_ context.Context, expr string, from, to time.Time, every time.Duration) (slo.Matrix, error) {
	p.query(expr)
	m := slo.Matrix{Warnings: p.warnings}
	if strings.HasPrefix(expr, "count by (Hostname) (group by (Hostname, UUID, uuid) (") {
		s := slo.Series{Labels: map[string]string{"Hostname": cmp.Or(p.node, "node-b")}}
		for i, n := range p.counts {
			s.Points = append(s.Points, slo.Point{At: to.Add(-time.Duration(len(p.counts)-1-i) * every), Value: n})
		}
		m.Series = append(m.Series, s)
		return m, p.err
	}
	if strings.Contains(expr, "timestamp(") {
		s := slo.Series{Labels: map[string]string{"UUID": "GPU-b"}}
		for at := from; !at.After(to); at = at.Add(every) {
			if missed := to.Sub(at); p.gap == 0 || missed < p.gap || missed >= p.gap+2*time.Minute {
				s.Points = append(s.Points, slo.Point{At: at, Value: float64(min(at.Unix(), to.Add(-p.scraped).Unix()))})
			}
		}
		m.Series = append(m.Series, s)
		return m, p.err
	}
	if every == dcgm.PastStep && p.noPast != nil {
		return slo.Matrix{}, p.noPast
	}
	for name, v := range wellExported {
		if name == p.without {
			continue
		}
		if name == "DCGM_FI_DEV_XID_ERRORS" {
			v = p.xid
		}
		ls := map[string]string{"__name__": name, "UUID": "GPU-b", "gpu": "0", "Hostname": cmp.Or(p.node, "node-b")}
		if strings.HasPrefix(expr, "count_values") {
			m.Series = append(m.Series, p.counted(ls, v, from, to, every)...)
			continue
		}
		s := slo.Series{Labels: ls}
		for at := from; !at.After(to); at = at.Add(every) {
			if p.xidFor != 0 && v == p.xid && noon.Sub(at) > p.xidFor {
				s.Points = append(s.Points, slo.Point{At: at})
				continue
			}
			s.Points = append(s.Points, slo.Point{At: at, Value: v})
		}
		m.Series = append(m.Series, s)
	}
	return m, p.err
}

// counted are the values that a series had, as labels.
func (p exported) counted(ls map[string]string, v float64, from, to time.Time, every time.Duration) []slo.Series {
	before, since := slo.Series{Labels: maps.Clone(ls)}, slo.Series{Labels: maps.Clone(ls)}
	before.Labels["value"], since.Labels["value"] = "0", strconv.FormatFloat(v, 'f', -1, 64)
	for at := from; !at.After(to); at = at.Add(every) {
		of := &since
		if p.xidFor != 0 && v == p.xid && noon.Sub(at) > p.xidFor {
			of = &before
		}
		of.Points = append(of.Points, slo.Point{At: at, Value: 1})
	}
	return []slo.Series{before, since}
}

func TestGPUSources(t *testing.T) {
	noAgent := func(a *gpu.Answer) { a.Err = gpu.ErrNoAgent }
	agents := gpus{"node-b": noAgent, "node-c": noAgent, "node-d": func(a *gpu.Answer) { a.Err = errors.New("no answer within 1s") }}
	nodes := []string{"node-a", "node-b", "node-c", "node-d"}
	for name, c := range map[string]struct {
		prom exported
		want string // verdicts of the nodes
		why  string // of node-b
	}{
		"of node-b only":          {exported{scraped: 10 * time.Second}, "healthy healthy unknown unknown", ""},
		"one GPU has left":        {exported{scraped: 10 * time.Second, counts: []float64{2, 2, 1, 1}}, "healthy failing unknown unknown", "1 of 2 GPUs are there; the others have left the bus"},
		"no GPU has left":         {exported{scraped: 10 * time.Second, counts: []float64{1, 1, 1, 1}}, "healthy healthy unknown unknown", ""},
		"two of one name in turn": {exported{scraped: 10 * time.Second, counts: []float64{1, 2, 1}}, "healthy healthy unknown unknown", ""},
		"counts that are none":    {exported{scraped: 10 * time.Second, counts: []float64{math.NaN(), -1, math.Inf(1), 1}}, "healthy healthy unknown unknown", ""},
		"scraped long ago":        {exported{scraped: 5 * time.Minute}, "healthy unknown unknown unknown", "old"},
		"an XID of long ago":      {exported{scraped: 10 * time.Second, xid: 63}, "healthy healthy unknown unknown", "XID 63 (a memory row was remapped, or a page retired; active after a reset) since 2026-05-03 10:45 UTC or before"},
		"one that may come again": {exported{scraped: 10 * time.Second, xid: 94}, "healthy degraded unknown unknown", "XID 94 (contained memory error; its process is gone) since 2026-05-03 10:45 UTC or before"},
		"an XID of today":         {exported{scraped: 10 * time.Second, xid: 94, xidFor: 5 * time.Hour}, "healthy degraded unknown unknown", "since 07:00 UTC"},
		"its past is not known":   {exported{scraped: 10 * time.Second, xid: 94, noPast: errors.New("too large")}, "healthy degraded unknown unknown", "past could not be read"},
		"Prometheus is down":      {exported{err: &fault.Error{Reason: fault.Unreachable, Message: "down"}}, "healthy unknown unknown unknown", "no agent runs there, and of dcgm-exporter: ask for dcgm-exporter's series: down"},
		"Prometheus knows parts":  {exported{warnings: []string{"one store did not answer"}}, "healthy unknown unknown unknown", "could not read everything"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			c.prom.t, c.prom.asked = t, &asked
			both := gpusteps.GPUSources(agents, gpusteps.DCGM{Querier: c.prom, Selector: `job="dcgm"`, Now: func() time.Time { return noon }})
			var got []string
			judged := judge.Answers(noon, both.Snapshots(t.Context(), nodes, 0))
			for _, j := range judged {
				got = append(got, string(j.Verdict))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
			text := ""
			for _, r := range judged[1].Reasons {
				text += r.Text
			}
			for _, g := range judged[1].GPUs {
				for _, r := range g.Reasons {
					text += r.Text
				}
			}
			if !strings.Contains(text, c.why) {
				t.Errorf("node-b: %q, want %q", text, c.why)
			}
			if len(asked) == 0 || !strings.Contains(asked[0], `Hostname=~"node-b|node-c", job="dcgm"`) {
				t.Errorf("asked %q, want it of the two nodes without an agent", asked)
			}
		})
	}
}

func TestOneGPUSource(t *testing.T) {
	if gpusteps.GPUSources(nil, nil) != nil {
		t.Error("of nothing there is something")
	}
	if got := gpusteps.GPUSources(gpus{}, nil).Snapshots(t.Context(), []string{"node-a"}, 0); got[0].Err != nil {
		t.Errorf("agents alone: %v", got[0].Err)
	}
}

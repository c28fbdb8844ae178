package slo

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// HeadroomKind declares slo.headroom.
func HeadroomKind() playbook.Kind {
	return playbook.Kind{
		Name: "slo.headroom",
		Role: playbook.RoleCheck,
		Doc: `Tells whether the service meets its objectives now and would with another number of replicas, by the series of its engine. It takes no PromQL.

A replica can carry what a replica has carried while the service met all of its objectives, in requests, prompt tokens and output tokens, and still met them a window later. ` + "`fits`" + ` is true when
the highest load of the last ` + "`load`" + ` time, divided among the replicas there would be, is at most a tenth above that. What cannot be read does not fit. Without ` + "`by`" + `, or
with more replicas than now, ` + "`fits`" + ` asks only whether the objectives are met.`,
		With: step.Fields[headroomWith](),
		Out:  step.Fields[headroomOut](),
	}
}

type headroom struct{ q step.Querier }

// NewHeadroom returns the check slo.headroom.
func NewHeadroom(d step.Deps) step.Check { return headroom{d.Querier} }

type headroomWith struct {
	By       int           `json:"by" doc:"Replicas to be added; negative: to be taken away, e.g. -2."`
	Window   step.Duration `json:"window" default:"5m" doc:"Window of rates and shares, as the short window of slo.burn. A longer one suits few requests."`
	Load     step.Duration `json:"load" default:"30m" doc:"The highest load of this time has to fit."`
	Lookback step.Duration `json:"lookback" default:"24h" doc:"How far back it counts what a replica has carried."`
}

type headroomOut struct {
	Status   string   `json:"status" enum:"met,breached,unknown" doc:"How the service stands to its objectives now, as of slo.burn."`
	Fits     bool     `json:"fits" doc:"It meets them, and would with that number of replicas."`
	Replicas int      `json:"replicas" unit:"replicas" doc:"Replicas that serve now; 0: not known."`
	Load     string   `json:"load" doc:"What fits least: requests, prompt tokens, output tokens; empty: not known."`
	After    *float64 `json:"after,omitempty" doc:"How much of it per second each replica would have to carry."`
	Carried  *float64 `json:"carried,omitempty" doc:"The most that a replica has carried while all objectives were met."`
	Note     string   `json:"note" doc:"Why it cannot be told; empty: it can."`
}

const beyondCarried = 1.1 // of what was carried still fits

// Run implements [step.Check].
func (c headroom) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[headroomWith](HeadroomKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	window := time.Duration(with.Window)
	if window <= 0 || window > time.Duration(with.Lookback) {
		return step.Finding{}, step.Invalid("slo.headroom: want 0 < window <= lookback, got %s, %s", window, time.Duration(with.Lookback))
	}
	now := in
	now.With = map[string]any{ // the defaults of slo.burn, where the window is the default
		"short": playbook.FormatDuration(window), "long": playbook.FormatDuration(12 * window), "recent": playbook.FormatDuration(window * 2 / 5),
	}
	found, err := burn{q: c.q}.Run(ctx, now)
	if err != nil {
		return step.Finding{}, err
	}
	stands, ok := found.Out.(burnOut)
	if !ok { // unreachable unless slo.burn answers something else
		return step.Finding{}, step.Invalid("slo.headroom: no evidence of slo.burn")
	}
	out := headroomOut{Status: stands.Status}
	met := out.Status == string(slo.Met)
	if with.By >= 0 {
		out.Fits = met
		return step.Finding{Out: out, Facts: found.Facts}, nil
	}
	if err := c.carry(ctx, in, with, &out); err != nil {
		return step.Finding{}, err
	}
	fact := "whether fewer replicas carry the load cannot be told: " + out.Note
	if out.Note == "" {
		fits, word := *out.After <= beyondCarried**out.Carried, "does not fit"
		if fits {
			word = "fits"
		}
		out.Fits = met && fits
		fact = fmt.Sprintf("%d instead of %d replicas would carry %.3g %s/s each; within its objectives one has carried %.3g: %s",
			out.Replicas+with.By, out.Replicas, *out.After, out.Load, *out.Carried, word)
	}
	return step.Finding{Out: out, Facts: append(found.Facts, fact)}, nil
}

// carry fills in what each replica would have to carry, and what one has carried.
func (c headroom) carry(ctx context.Context, in step.Input, with headroomWith, out *headroomOut) error {
	ask, q, window := step.Objectives(in.Service), step.Patient(c.q), time.Duration(with.Window)
	loads, replicasOf := ask.LoadRates(window)
	if replicasOf == "" {
		out.Note = "the engine has no series of replicas and their requests"
		return nil
	}
	m, err := slo.Measure(ctx, q, ask, in.Now, slo.Span{Window: window})
	if err != nil {
		return err
	}
	read := func(expr string) (map[time.Time]float64, error) {
		x, err := q.Range(ctx, expr, in.Now.Add(-time.Duration(with.Lookback)), in.Now, window)
		points := map[time.Time]float64{}
		for _, s := range x.Series {
			for _, p := range s.Points {
				points[p.At] = p.Value
			}
		}
		return points, err
	}
	replicas, err := read(replicasOf)
	if err != nil {
		return err
	}
	missed := map[time.Time]bool{}
	for _, x := range m.Measured {
		expr := x.RatioQuery(window)
		if expr == "" {
			continue // it is unknown, so that the service does not count as well now
		}
		ratio, err := read(expr)
		if err != nil {
			return err
		}
		for at := range replicas {
			if v, ok := ratio[at]; !ok || !(v <= 1-x.Objective.Objective) {
				missed[at] = true
			}
		}
	}
	for _, l := range loads {
		rate, err := read(l.Rate)
		if err != nil {
			return err
		}
		if out.weigh(l.Name, in.Now, with, rate, replicas, missed); out.Note != "" {
			return nil
		}
	}
	return nil
}

// weigh compares one load of now with what was carried, and keeps what fits least.
func (out *headroomOut) weigh(load string, now time.Time, with headroomWith, rate, replicas map[time.Time]float64, missed map[time.Time]bool) {
	var newest time.Time
	most, carried := math.NaN(), math.NaN()
	for at, v := range rate {
		n := replicas[at]
		if !step.IsFinite(v) || !(n > 0) {
			continue
		}
		if at.After(newest) {
			newest = at
		}
		if now.Sub(at) <= time.Duration(with.Load) && !(v <= most) {
			most = v
		}
		// What a load does shows a window later, and replicas that left within the
		// window carried their part of it.
		window := time.Duration(with.Window)
		if each := v / max(n, replicas[at.Add(-window)]); !missed[at] && !missed[at.Add(window)] && !(each <= carried) {
			carried = each
		}
	}
	out.Replicas = int(replicas[newest])
	left := out.Replicas + with.By
	switch {
	case newest.IsZero() || now.Sub(newest) >= time.Duration(with.Window):
		out.Note = "no " + load + " were measured"
	case math.IsNaN(carried):
		out.Note = "at no time were all objectives met"
	case left <= 0:
		out.Note = fmt.Sprintf("%d replicas would be left", left)
	default:
		after := most / float64(left)
		if out.Load == "" || after**out.Carried > *out.After*carried {
			out.Load, out.After, out.Carried = load, number(after), number(carried)
		}
	}
}

package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/web"
)

// Limits of the curves on pages.
const (
	curvePoints = 120              // of one window
	curveAround = 15 * time.Minute // before the breach, and after the end of the run
	curveFresh  = 15 * time.Second // an answer serves all viewers for so long, in the time of the world
)

// curves asks Prometheus for the burn rate around runs.
type curves struct {
	q    step.Querier // nil: none is configured
	now  func() time.Time
	log  *slog.Logger
	kept *answers[web.Curve]
}

func newCurves(q step.Querier, now func() time.Time, log *slog.Logger) *curves {
	return &curves{q: q, now: now, log: log, kept: newAnswers[web.Curve](now, curveFresh)}
}

// of returns the burn rate around a run. Its error is for people.
func (c *curves) of(ctx context.Context, run machine.State) (web.Curve, error) {
	if c.q == nil {
		return web.Curve{}, errors.New("no Prometheus is configured, prometheus.url names one")
	}
	burn, ok := measuredBurn(run)
	if !ok {
		return web.Curve{}, errors.New("the run has not measured an objective")
	}
	return c.kept.get(ctx, run.Start.Run+" "+burn.Query, func(ctx context.Context) (web.Curve, error) { return c.ask(ctx, run, burn) })
}

// ask asks for both windows at the same time.
func (c *curves) ask(ctx context.Context, run machine.State, burn burnData) (web.Curve, error) {
	o := burn.objective()
	switch {
	case burn.Query == "":
		return web.Curve{}, errors.New("the run has recorded no query for the objective " + o.Name)
	case o.Objective >= 1:
		return web.Curve{}, errors.New("the objective " + o.Name + " allows nothing, so nothing is a multiple of it")
	}
	out := web.Curve{Objective: o.Name, Wanted: o.Objective, From: run.Began, To: c.now()}
	for _, at := range []time.Time{run.Start.Alert.StartsAt, burn.Since} {
		if !at.IsZero() && at.Before(out.From) {
			out.From = at
		}
	}
	out.From, out.Began = out.From.Add(-curveAround), burn.Since
	if end := run.Ended.Add(curveAround); run.Phase == machine.PhaseEnded && end.Before(out.To) {
		out.To = end
	}
	out.Every = max(15*time.Second, (out.To.Sub(out.From) / curvePoints).Round(time.Second))
	queries := []string{burn.Query}
	if burn.QueryLong != "" {
		queries = append(queries, burn.QueryLong)
	}
	out.Lines = make([]web.CurveLine, len(queries))
	var group errgroup.Group
	for i, q := range queries {
		group.Go(func() error {
			m, err := c.q.Range(ctx, q, out.From, out.To, out.Every)
			out.Lines[i] = burnLine(q, m, o.Objective)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		c.log.Info("no curve for the page of the run", "run", run.Start.Run, "err", err)
		return web.Curve{}, errors.New("no answer from Prometheus, the service's log shows why")
	}
	return out, nil
}

// burnLine is the answer of a query in multiples of what the objective allows. More than
// one series is not drawn: a share is one number.
func burnLine(query string, m slo.Matrix, wanted float64) web.CurveLine {
	out := web.CurveLine{Window: windowOf(query)}
	if len(m.Series) != 1 {
		return out
	}
	for _, p := range m.Series[0].Points { // about curvePoints
		out.Points = append(out.Points, web.CurvePoint{At: p.At, Burn: slo.BurnRate(p.Value, wanted)})
	}
	return out
}

var rangeOf = regexp.MustCompile(`\[(\w+)\]`)

// windowOf returns the window of a query of slo.burn, e.g. 5m; empty if it has none.
func windowOf(query string) string {
	m := rangeOf.FindStringSubmatch(query)
	if m == nil {
		return ""
	}
	d, err := playbook.ParseDuration(m[1])
	if err != nil {
		return ""
	}
	return playbook.FormatDuration(d)
}

// burnData is what a curve needs of the evidence of slo.burn.
type burnData struct {
	Query      string          `json:"query"`
	QueryLong  string          `json:"query_long"`
	Worst      string          `json:"worst"`
	Since      time.Time       `json:"since"`
	Objectives []burnObjective `json:"objectives"`
}

type burnObjective struct {
	Name      string   `json:"name"`
	Objective float64  `json:"objective"`
	BurnShort *float64 `json:"burn_short"`
}

// objective returns the worst objective: the one that the check names, else, when all are
// met, the one that burns most, as slo.burn chooses.
func (b burnData) objective() burnObjective {
	worst := b.Objectives[0]
	for _, o := range b.Objectives {
		if o.Name == b.Worst {
			return o
		}
		if o.BurnShort != nil && (worst.BurnShort == nil || *o.BurnShort > *worst.BurnShort) {
			worst = o
		}
	}
	return worst
}

// measuredBurn returns the newest evidence of slo.burn, with the earliest beginning of a
// breach that any of it knows.
func measuredBurn(run machine.State) (newest burnData, ok bool) {
	var at time.Time
	for _, e := range run.Evidence {
		var b burnData
		if e == nil || e.Step != "slo.burn" || e.Unknown != "" || json.Unmarshal(e.Data, &b) != nil || len(b.Objectives) == 0 {
			continue
		}
		if !ok || e.At.After(at) {
			newest, at, ok = b, e.At, true
		}
	}
	newest.Since = runview.BreachBegan(run)
	return newest, ok
}

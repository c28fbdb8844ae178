package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/slo"
)

// show is what the demo tells around the run: what happens before it, the
// chart of a proof, and the report. The run itself is shown as by runs watch.
type show struct {
	screen *screen
	world  *sandbox.World

	alert time.Time // when it began
	fixed time.Time // when the last change took effect
}

// opening introduces the scenario.
func (d *show) opening(speed float64) {
	sc := d.world.Scenario()
	d.screen.block("", bold, "Responder demo: "+sc.Title)
	d.screen.block("", plain, sc.Description)
	d.screen.block("", dim, fmt.Sprintf("The cluster, its engines and its Prometheus are simulated, %g times as fast as real time. The receiver, the playbooks, the executor and the journal are real.", speed))
}

// view returns the renderer of one run.
func (d *show) view() *runview.Renderer {
	r := runview.NewRenderer(d.screen.w)
	r.Brief, r.Width = true, runview.Width
	r.Paint = func(tone runview.Tone, text string) string { return d.screen.paint(styleOf(tone), text) }
	return r
}

func styleOf(tone runview.Tone) style {
	switch tone {
	case runview.ToneGood:
		return green
	case runview.ToneWait:
		return yellow
	case runview.ToneBad:
		return red
	case runview.ToneBusy:
		return cyan
	default:
		return plain
	}
}

// after adds the chart to the end of a proof.
func (d *show) after(ctx context.Context, e machine.Event) {
	switch e.Kind {
	case machine.RunStarted:
		d.alert = e.Start.Alert.StartsAt
	case machine.Settled:
		d.fixed = e.At
	case machine.Verified, machine.VerifyEnded:
		d.curve(ctx, e.At, []mark{{d.world.Incident(), "i", "incident"}, {d.alert, "a", "alert"}, {d.fixed, "f", "fix"}, {e.At, "v", "verdict"}})
	}
}

func stateTitle(p *playbook.Playbook, name string) string {
	if p != nil {
		if s := p.State(name); s != nil && s.Title != "" {
			return s.Title
		}
	}
	return name
}

// curve draws the share of slow first tokens from before the incident to now.
func (d *show) curve(ctx context.Context, to time.Time, marks []mark) {
	c := chart{from: d.world.Incident().Add(-3 * time.Minute), to: to, marks: marks, ascii: d.screen.ascii}
	c.marks = slices.DeleteFunc(c.marks, func(m mark) bool { return m.at.IsZero() })
	m, err := d.world.Range(ctx, slowTTFT(d.world.Services()[0], "1m"), c.from, c.to, c.step())
	if err != nil || len(m.Series) != 1 || !slices.ContainsFunc(m.Series[0].Points, func(p slo.Point) bool { return p.Value > 0 }) {
		return // the chart is an ornament: the run's own evidence stands above
	}
	d.screen.raw("")
	d.screen.detail(plain, "Share of requests with the first token after %s, by minute", millis(threshold(d.world.Services()[0], "ttft")))
	c.points = m.Series[0].Points
	d.screen.raw(c.lines()...)
}

// held is how many requests are held by replicas that take no step over a window:
// they are in no histogram.
func held(s playbook.Service, window string) string {
	names := seriesOf(s)
	return fmt.Sprintf("sum(sum by (pod) (%s{%s}) and sum by (pod) (increase(%s{%[2]s}[%[4]s])) == 0) or vector(0)", names.running, s.Selector, names.steps, window)
}

// slowTTFT is the share of first tokens that come after the objective's
// threshold, over a window.
func slowTTFT(s playbook.Service, window string) string {
	return fmt.Sprintf(`1 - sum(rate(%[4]s_bucket{%[1]s,le="%[3]s"}[%[2]s])) / sum(rate(%[4]s_count{%[1]s}[%[2]s]))`,
		s.Selector, window, strconv.FormatFloat(threshold(s, "ttft").Seconds(), 'g', -1, 64), seriesOf(s).ttft)
}

// names are series of a service's engine: histograms of the time to the first token and
// per token, gauges of the queue and of what is computed, and the counter of steps.
type names struct{ ttft, token, waiting, running, steps string }

func seriesOf(s playbook.Service) names {
	if s.Engine == "sglang" {
		return names{"sglang:time_to_first_token_seconds", "sglang:inter_token_latency_seconds", "sglang:num_queue_reqs", "sglang:num_running_reqs", "sglang:realtime_tokens_total"}
	}
	return names{"vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds", "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:iteration_tokens_total_count"}
}

// threshold is how long the service's objective of that name allows; 0: it has none.
func threshold(s playbook.Service, slo string) time.Duration {
	for _, o := range s.SLOs {
		if o.Name == slo {
			return time.Duration(o.Threshold * float64(time.Second))
		}
	}
	return 0
}

// millis writes a threshold as the report does.
func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// brief writes a number with about three digits.
func brief(f float64) string {
	switch {
	case f >= 100 || f == float64(int64(f)):
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

package demo

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
)

// report is what a demo comes to.
type report struct {
	api.Demo
	outcome machine.RunOutcome
	phases  []runview.Phase
	audit   audit.Report
}

// answer returns the document of -o json.
func (r report) answer() api.Demo {
	out := r.Demo
	out.Outcome, out.Audit, out.Repair = string(r.outcome), app.VerificationOf(r.audit), []api.DemoPhase{}
	for _, p := range r.phases {
		out.Repair = append(out.Repair, api.DemoPhase{Name: p.Name, Took: playbook.FormatDuration(p.Took.Truncate(time.Second))})
	}
	return out
}

// timeline picks the events that a person would tell of afterwards.
func timeline(w *sandbox.World, events []machine.Event) []api.DemoMoment {
	out := []api.DemoMoment{{At: w.Incident(), What: w.Scenario().Cause}}
	for _, e := range events {
		what, _ := runview.DescribeEvent(e)
		switch e.Kind {
		case machine.RunStarted:
			what = "the run starts"
			if e.Start.DivertedFrom != "" {
				what = "the run of playbook " + e.Start.Playbook + " starts"
				break // of the same alert
			}
			out = append(out, api.DemoMoment{At: e.Start.Alert.StartsAt, What: e.Start.Alert.Labels["alertname"] + " fires"})
		case machine.EpisodeResolved, machine.EpisodeJoined, machine.EpisodeRefired,
			machine.GuardsRefused, machine.GateOpened, machine.GateDecided, machine.GateWithdrawn, machine.GateExpired,
			machine.Applied, machine.Settled, machine.Verified, machine.VerifyEnded, machine.Kept, machine.Declined, machine.Undone, machine.Unwound,
			machine.RunHeld, machine.CancelRequested, machine.RunEnded:
		default:
			continue
		}
		out = append(out, api.DemoMoment{At: e.At, What: what})
	}
	return out
}

// measure reads the figures of a service at a moment.
func measure(ctx context.Context, w *sandbox.World, s playbook.Service, at time.Time) []api.DemoFigure {
	ask := func(expr string) *float64 {
		v, err := w.Instant(ctx, expr, at)
		if err != nil || len(v.Samples) != 1 || math.IsNaN(v.Samples[0].Value) || math.IsInf(v.Samples[0].Value, 0) {
			return nil
		}
		return &v.Samples[0].Value
	}
	sel := s.Selector
	p99 := func(metric string) string {
		return fmt.Sprintf("1000 * histogram_quantile(0.99, sum by (le) (rate(%s_bucket{%s}[2m])))", metric, sel)
	}
	names := seriesOf(s)
	ttft, tpot := millis(threshold(s, "ttft")), millis(threshold(s, "tpot"))
	figures := []api.DemoFigure{
		{Name: "first token after " + ttft, Unit: "%", Before: ask("100 * (" + slowTTFT(s, "2m") + ")"), Target: "under 1%"},
		{Name: "error budget burn, 2m", Unit: "x", Before: ask("(" + slowTTFT(s, "2m") + ") / 0.01"), Target: "under 1x"},
		{Name: "time to first token, p99", Unit: " ms", Before: ask(p99(names.ttft)), Target: "under " + ttft},
		{Name: "time per output token, p99", Unit: " ms", Before: ask(p99(names.token)), Target: "under " + tpot},
		{Name: "requests served", Unit: "/s", Before: ask(fmt.Sprintf("sum(rate(%s_count{%s}[2m]))", names.ttft, sel))},
		{Name: "held without a step", Before: ask(held(s, "2m"))},
		{Name: "requests waiting", Before: ask(fmt.Sprintf("sum(%s{%s})", names.waiting, sel))},
	}
	ref := kube.Ref{Kind: s.Workload.Kind, Namespace: s.Namespace, Name: s.Workload.Name}
	if now, err := w.Workload(ctx, ref); err == nil {
		ready, revision := float64(now.Ready), float64(now.Revision)
		figures = append(figures, api.DemoFigure{Name: "replicas ready", Before: &ready}, api.DemoFigure{Name: "revision", Before: &revision})
	}
	return figures
}

// compare puts two measurements side by side.
func compare(before, after []api.DemoFigure) []api.DemoFigure {
	out := append([]api.DemoFigure(nil), before...)
	for i := range out {
		if i < len(after) && after[i].Name == out[i].Name {
			out[i].After = after[i].Before
		}
	}
	return out
}

// report shows the whole of it.
func (d *show) report(r report) {
	s := d.screen
	s.title("Report")
	s.block("  outcome      ", outcomeStyle(r.outcome), fmt.Sprintf("%s: %s", r.outcome, r.Message))
	s.block("  run          ", plain, r.Run)
	s.block("  playbook     ", plain, r.Playbook)
	s.block("  service      ", plain, r.Service)
	s.title("Timeline")
	for _, m := range r.Timeline {
		s.block("  "+m.At.UTC().Format(time.TimeOnly)+"  ", plain, m.What)
	}
	d.phases(r.phases, r.outcome)
	s.title("Before and after")
	s.raw(fmt.Sprintf("  %-28s %12s %12s   %s", "", "before", "after", "target"))
	for _, f := range r.Figures {
		s.raw(strings.TrimRight(fmt.Sprintf("  %-28s %12s %12s   %s", f.Name, figure(f.Before, f.Unit), figure(f.After, f.Unit), f.Target), " "))
	}
	s.title("Audit log")
	verdict, st := "intact: every entry stands as it was written, under a signed checkpoint", green
	if !r.Verified {
		verdict, st = "NOT INTACT", red
		if r.audit.FirstBad != nil {
			verdict += ": " + r.audit.FirstBad.String()
		}
	}
	s.block("  verified     ", st, verdict)
	s.block("  entries      ", plain, fmt.Sprintf("%d in %d streams, %d signed", r.audit.Entries, r.audit.Streams, r.audit.Signed))
	s.block("  checkpoint   ", plain, fmt.Sprintf("%d signed by %s", r.audit.Checkpoints, r.audit.Origin))
	s.block("  root         ", plain, r.audit.Root)
	if r.Journal != "" {
		s.block("  journal      ", plain, r.Journal)
		s.block("               ", dim, "check it again: responder audit verify "+r.Journal)
	} else {
		s.block("               ", dim, "it was kept in a temporary directory; --dir DIR keeps it")
	}
}

// phases shows where the time went, with a bar for each part.
func (d *show) phases(all []runview.Phase, outcome machine.RunOutcome) {
	const width = 36
	var total time.Duration
	for _, p := range all {
		total += p.Took
	}
	title := "Time to repair"
	if outcome != machine.OutcomeResolved {
		title = "Time spent, without a repair"
	}
	d.screen.title("%s: %s", title, seconds(total))
	full := "█"
	if d.screen.ascii {
		full = "#"
	}
	for _, p := range all {
		n := int(math.Round(p.Took.Seconds() / math.Max(total.Seconds(), 1) * width))
		d.screen.raw(fmt.Sprintf("  %-9s %7s  %-*s %s", p.Name, seconds(p.Took), width-8, strings.Repeat(full, min(n, width-8)), runview.PhaseText[p.Name]))
	}
}

func seconds(d time.Duration) string { return d.Truncate(time.Second).String() }

func figure(v *float64, unit string) string {
	if v == nil {
		return "no data"
	}
	return brief(*v) + unit
}

func outcomeStyle(o machine.RunOutcome) style {
	if o == machine.OutcomeResolved {
		return green
	}
	return red
}

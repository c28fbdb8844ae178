package dryrun

import (
	"fmt"
	"io"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/runview"
)

// Write writes the report for people.
func Write(w io.Writer, report Report, wide bool) error {
	r := runview.NewRenderer(w)
	r.Wide = wide
	for _, a := range report.Alerts {
		writeDryRunAlert(r, a)
	}
	for i, run := range report.Runs {
		state := report.walked[i].state
		r.Printf("\nrun of playbook %s on %s\n", run.Run.Playbook, run.Run.Service)
		r.Began, r.Book, r.Run = state.Began, state.Playbook, state
		for _, e := range report.walked[i].events {
			r.Event(e)
		}
		for _, l := range run.Levers {
			writeDryRunLever(r, l)
		}
		if state.Playbook != nil {
			r.Drawing("\npath through the playbook\n" + runview.DrawPath(state.Playbook, state.Path))
		}
	}
	r.Printf("\n")
	for i, run := range report.Runs {
		r.Printf("run of %s: %s\n", run.Run.Playbook, runview.StatusLine(report.walked[i].state))
	}
	for _, n := range report.Notes {
		r.Printf("note: %s\n", n)
	}
	r.Printf("%s (exit code %d)\n", verdictText(report), report.ExitCode)
	return r.Err
}

func verdictText(report Report) string {
	switch report.Verdict {
	case verdictWouldAct:
		return "WOULD ACT, or ask to; nothing was changed"
	case verdictRefused:
		return "REFUSED; nothing was changed"
	case verdictNoMatch:
		return "NO MATCH: no playbook or no service"
	default:
		return "NOTHING TO CHANGE"
	}
}

func writeDryRunAlert(r *runview.Renderer, a api.DryRunAlert) {
	r.Printf("alert    %s %s\n", a.Alert.Status, runview.AlertLine(a.Alert.Playbook()))
	switch {
	case len(a.Services) == 1:
		r.Printf("service  %s\n", a.Services[0])
	case len(a.Services) == 0:
		r.Printf("service  none: %s\n", runview.OrText(a.Why, "no service of the catalog fits"))
	default:
		r.Printf("service  undecided: %s\n", runview.OrText(a.Why, strings.Join(a.Services, ", ")))
	}
	for _, m := range a.Playbooks {
		if m.Matched {
			r.Printf("playbook %s: matched\n", m.Playbook)
			continue
		}
		r.Printf("playbook %s: no match\n", m.Playbook)
		for _, set := range m.Sets {
			for _, f := range set.Failed {
				r.Printf("         %s\n", playbook.Mismatch(f).String())
			}
		}
	}
	if len(a.Playbooks) == 0 {
		r.Printf("playbook none are loaded\n")
	}
	for _, d := range a.Decisions {
		r.Printf("so       %s\n", runview.JoinClauses(strings.TrimSpace(d.Decision+" "+d.Playbook), d.Reason))
	}
}

func writeDryRunLever(r *runview.Renderer, l api.DryRunLever) {
	if l.Kind == string(playbook.StateGate) {
		r.Printf("\ngate %s\n", l.State)
	} else {
		r.Printf("\nlever %s in state %s\n", l.Step, l.State)
	}
	if l.Refused != "" {
		r.Printf("  refused   %s\n", l.Refused)
	}
	a := l.Approval
	switch {
	case a.Needed:
		var gate machine.Gate
		for _, n := range a.Needs {
			gate.Needs = append(gate.Needs, machine.Need(n))
		}
		who := gate.Who()
		if len(a.Needs) == 1 && len(a.Needs[0].From) == 0 {
			who = "nobody (no owners are configured), so it would expire"
		}
		r.Printf("  approval  %s, within %s, else %s\n", who, a.Within, a.OnExpiry)
	case a.Autonomy == playbook.Auto.String():
		r.Printf("  approval  none needed\n")
	default:
		r.Printf("  approval  none asked: it would only be recorded\n")
	}
	for _, t := range a.Tiers {
		r.Printf("            after %s %s is told\n", t.After, strings.Join(t.To, ", "))
	}
	if len(a.BreakGlass) > 0 {
		r.Printf("            alone, with a reason: %s\n", strings.Join(a.BreakGlass, ", "))
	}
	r.Printf("  autonomy  %s, by %s\n", a.Autonomy, a.Why)
	for _, g := range l.Guards {
		if g.Guard == policy.Guard {
			r.Printf("  policy    %s\n", g.Why)
		}
	}
	for i, b := range l.Then {
		head := ""
		if i == 0 {
			head = "then"
		}
		line := fmt.Sprintf("%s -> %s", b.Result, b.What)
		if b.First != "" {
			line = fmt.Sprintf("%s: %s -> %s", b.Result, b.First, b.What)
		}
		r.Printf("  %-9s %s\n", head, line)
		for _, next := range b.Reaches {
			r.Printf("  %-9s   and on to %s\n", "", next)
		}
	}
}

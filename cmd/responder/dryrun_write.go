package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
)

// writeDryRun writes the report for people.
func writeDryRun(w io.Writer, report dryRunReport, wide bool) error {
	r := newRunRenderer(w)
	r.wide = wide
	for _, a := range report.Alerts {
		writeDryRunAlert(r, a)
	}
	for _, run := range report.Runs {
		r.printf("\nrun of playbook %s on %s\n", run.Run.Start.Playbook, run.Run.Start.Service.Name)
		r.began, r.book, r.run = run.Run.Began, run.Run.Playbook, run.Run
		for _, e := range run.Events {
			r.event(e.Kind, e.Event)
		}
		for _, l := range run.Levers {
			writeDryRunLever(r, l)
		}
		if run.Graph != "" {
			r.printf("\npath through the playbook\n%s", run.Graph)
		}
	}
	r.printf("\n")
	for _, run := range report.Runs {
		r.printf("run of %s: %s\n", run.Run.Start.Playbook, statusLine(run.Run))
	}
	for _, n := range report.Notes {
		r.printf("note: %s\n", n)
	}
	r.printf("%s (exit code %d)\n", verdictText(report), report.ExitCode)
	return r.err
}

func verdictText(report dryRunReport) string {
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

func writeDryRunAlert(r *runRenderer, a dryRunAlert) {
	r.printf("alert    %s %s\n", a.Alert.Status, alertLine(a.Alert))
	switch {
	case len(a.Services) == 1:
		r.printf("service  %s\n", a.Services[0])
	case len(a.Services) == 0:
		r.printf("service  none: %s\n", orText(a.Why, "no service of the catalog fits"))
	default:
		r.printf("service  undecided: %s\n", orText(a.Why, strings.Join(a.Services, ", ")))
	}
	for _, m := range a.Playbooks {
		if m.Matched {
			r.printf("playbook %s: matched\n", m.Name)
			continue
		}
		r.printf("playbook %s: no match\n", m.Name)
		for _, set := range m.Sets {
			for _, f := range set.Failed {
				r.printf("         %s\n", f.String())
			}
		}
	}
	if len(a.Playbooks) == 0 {
		r.printf("playbook none are loaded\n")
	}
	for _, d := range a.Decisions {
		r.printf("so       %s\n", join2(strings.TrimSpace(d.Decision+" "+d.Playbook), d.Reason))
	}
}

func writeDryRunLever(r *runRenderer, l dryRunLever) {
	if l.Kind == playbook.StateGate {
		r.printf("\ngate %s\n", l.State)
	} else {
		r.printf("\nlever %s in state %s\n", l.Step, l.State)
	}
	if l.Refused != "" {
		r.printf("  refused   %s\n", l.Refused)
	}
	a := l.Approval
	switch {
	case a.Needed:
		who := machine.Gate{Needs: a.Needs}.Who()
		if len(a.Needs) == 1 && len(a.Needs[0].From) == 0 {
			who = "nobody (no owners are configured), so it would expire"
		}
		r.printf("  approval  %s, within %s, else %s\n", who, a.Within, a.OnExpiry)
	case a.Autonomy == playbook.Auto:
		r.printf("  approval  none needed\n")
	default:
		r.printf("  approval  none asked: it would only be recorded\n")
	}
	for _, t := range a.Tiers {
		r.printf("            after %s %s is told\n", playbook.FormatDuration(t.After), strings.Join(t.To, ", "))
	}
	if len(a.BreakGlass) > 0 {
		r.printf("            alone, with a reason: %s\n", strings.Join(a.BreakGlass, ", "))
	}
	r.printf("  autonomy  %s, by %s\n", a.Autonomy, a.Why)
	for _, g := range l.Guards {
		if g.Guard == policy.Guard {
			r.printf("  policy    %s\n", g.Why)
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
		r.printf("  %-9s %s\n", head, line)
		for _, next := range b.Reaches {
			r.printf("  %-9s   and on to %s\n", "", next)
		}
	}
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

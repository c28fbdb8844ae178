package sandbox_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
)

// report reads from the journal what the runs did.
func (b *bench) report(r *sandbox.Result) {
	runs := b.runs("")
	slices.Reverse(runs) // oldest first
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	taken := false // by people: one run told them for all
	for k, s := range runs {
		events, err := b.service.RunEvents(s.Run)
		if err != nil {
			b.t.Fatal(err)
		}
		t := &teller{bench: b, result: r, name: fmt.Sprintf("r%d", k+1), loan: s.Loan != ""}
		for _, e := range events {
			if text := t.event(e); text != "" {
				lines = append(lines, line{e.At, fmt.Sprintf("%7s r%d %s", e.At.Sub(b.began).Round(time.Second), k+1, text)})
			}
		}
		r.Runs = append(r.Runs, s.Playbook+": "+strings.Join(t.path, ">"))
		if s.Loan != "" {
			continue
		}
		if s.DivertedFrom == "" {
			r.NumRuns++
		}
		taken = taken || s.Status == string(machine.OutcomeEscalated)
		if s.Status != string(machine.OutcomeDiverted) && (s.Service == b.world.Services()[0].Name || r.Outcome == "") {
			r.Outcome = s.Status
		}
	}
	if taken && r.Outcome == string(machine.OutcomeNoAction) {
		r.Outcome = string(machine.OutcomeEscalated)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Told, r.Notices = append(r.Told, b.notices...), b.notices
	slices.SortStableFunc(lines, func(x, y line) int { return x.at.Compare(y.at) })
	for _, l := range lines {
		r.Timeline = append(r.Timeline, l.text)
	}
	for _, n := range b.notices {
		r.Timeline = append(r.Timeline, "        notice: "+n)
	}
	if len(runs) == 0 {
		r.Outcome = "no run"
	}
}

// teller turns the events of one run into the result.
type teller struct {
	bench  *bench
	result *sandbox.Result
	name   string
	loan   bool
	path   []string
	plan   *machine.Plan
	change int // index of the last change; valid while made
	made   bool
}

// event notes one event and returns a line for the timeline; empty: none.
func (t *teller) event(e machine.Event) string {
	switch e.Kind {
	case machine.RunStarted:
		return fmt.Sprintf("%s for %s by %s", e.Start.Playbook, e.Start.Service.Name, e.Start.Cause())
	case machine.StateEntered:
		t.path = append(t.path, e.State)
	case machine.CheckCompleted:
		out := "evidence: " + strings.Join(e.Facts, "; ")
		for _, g := range e.Gathered {
			out += "\n           " + g.Name + ": " + strings.Join(g.Facts, "; ") + g.Why
		}
		return out
	case machine.EdgeTaken:
		t.result.Told = append(t.result.Told, e.Message)
		return fmt.Sprintf("edge %s > %s: %s", e.State, e.To, e.Message)
	case machine.PlanCompleted:
		t.plan = e.Plan
		t.result.Told = append(t.result.Told, e.Plan.Summary, e.Plan.Why, strings.Join(e.Plan.Notes, "; "))
		return "plan: " + e.Plan.Summary
	case machine.PlanRefused:
		t.result.Told = append(t.result.Told, e.Message)
		return "refused: " + e.Message
	case machine.GuardsRefused, machine.EffectFailed, machine.GuardsWaiting:
		return fmt.Sprintf("%s: %s %s", e.Kind, e.Reason, e.Message)
	case machine.Settled:
		return "in effect: " + strings.Join(e.Facts, "; ")
	case machine.Sampled:
		if e.Sample.Verdict != machine.VerdictWatching {
			return fmt.Sprintf("sample %s: %s", e.Sample.Verdict, e.Sample.Message)
		}
	case machine.RunEnded:
		t.result.Told = append(t.result.Told, e.Ending.Message)
		t.path = append(t.path, "="+string(e.Ending.Outcome))
		return fmt.Sprintf("ends %s: %s", e.Ending.Outcome, e.Ending.Message)
	case machine.RunHeld, machine.GateOpened, machine.GateWithdrawn, machine.GateExpired, machine.EpisodeJoined, machine.EpisodeResolved, machine.GateDecided:
		return fmt.Sprintf("%s %s", e.Kind, e.Message)
	default:
		return t.changed(e)
	}
	return ""
}

// changed notes what became of a change.
func (t *teller) changed(e machine.Event) string {
	at := e.At.Sub(t.bench.began)
	switch e.Kind {
	case machine.Applied:
		back := t.plan.Class == playbook.ClassReturn
		t.result.Changes = append(t.result.Changes, sandbox.Change{What: t.plan.Step, Return: back, At: at})
		t.change, t.made = len(t.result.Changes)-1, true
		return "applied: " + t.plan.Summary
	case machine.Undone:
		if t.made {
			t.result.Changes[t.change].Undone = at
		}
		return "undone"
	case machine.Verified, machine.VerifyEnded, machine.Kept:
		verdict := string(e.Verdict)
		if e.Kind == machine.Verified {
			verdict = string(machine.VerdictVerified)
		}
		if t.made && verdict != "" {
			t.result.Changes[t.change].Verdict = verdict
		}
		return fmt.Sprintf("%s %s, then %s %s", e.Kind, e.Verdict, e.Then, e.Message)
	}
	return ""
}

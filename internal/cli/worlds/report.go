package worlds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
)

// Result is what became of a scenario.
type Result struct {
	Scenario  *Scenario
	Alerts    []string      // that fired, the first one first
	Runs      []Run         // oldest first
	Changes   []Change      // in the order of the runs
	Outcome   string        // of the last run of the first service; of one that changed something, if any did; without runs that give back
	Bad       int           // minutes after the first alert in which a service missed its objectives
	Red       bool          // one misses them at the end
	Recovered time.Duration // after the first alert: the end of the last bad minute
	Timeline  []Line

	told     []string // edges, proposals, notices and endings, in words
	found    []string // evidence of checks
	notices  []string
	acted    bool // the run of the outcome changed something
	started  int  // runs, without those that were handed over to and those that give back
	shown    map[string]shown
	Failures []Failure
	Excused  []Failure // those that the scenario knows of
}

// shown is the last reading of a service in the timeline.
type shown struct {
	at  time.Duration
	bad bool
}

// showEvery is how often a timeline has the readings of a service that stays bad.
const showEvery = 5 * time.Minute

// noRun is the outcome where no run was started.
const noRun = "no run"

// Run is one run.
type Run struct {
	Playbook *playbook.Playbook
	Service  string
	Return   bool     // it gives a loan back
	Path     []string // states
	Edges    []Edge
	Outcome  string // or the phase of one that is open
}

// Edge is an edge that a run took; of the last one To is empty.
type Edge struct{ From, To, Why string }

// String returns the run's playbook and path.
func (r Run) String() string {
	return playbookName(r.Playbook) + ": " + strings.Join(append(slices.Clone(r.Path), "="+r.Outcome), ">")
}

func playbookName(p *playbook.Playbook) string {
	if p == nil {
		return "a playbook that is gone"
	}
	return p.Name
}

// Change is a change that was applied.
type Change struct {
	Lever   string // kind
	Return  bool   // it gives a loan back
	At      time.Duration
	Undone  time.Duration // when it was taken back; 0: it was not
	Back    time.Duration // when it was given back; 0: it was not
	Owed    bool          // a run is open that gives it back
	Verdict string

	loan string
}

// String returns the change in a few words.
func (c Change) String() string {
	s := c.Lever
	if c.Return {
		s += " back"
	}
	s = fmt.Sprintf("%s@%s", s, minutes(c.At))
	if c.Verdict != "" {
		s += " " + c.Verdict
	}
	if c.Undone > 0 {
		s += " undone@" + minutes(c.Undone)
	}
	return s
}

func minutes(d time.Duration) string { return fmt.Sprintf("%.1fm", d.Minutes()) }

// Line is one line of what happened.
type Line struct {
	After time.Duration // since the first alert; negative: before
	Run   string        // empty: no run did it
	Text  string
}

// note adds what a service did in the minute before now.
func (r *Result) note(reading sandbox.Reading, now, began time.Time) {
	if began.IsZero() {
		return
	}
	after := now.Sub(began)
	if reading.Bad {
		r.Bad++
		r.Recovered = max(r.Recovered, after)
	}
	word := "good"
	if reading.Bad {
		word = "BAD"
	}
	last, seen := r.shown[reading.Service]
	if seen && last.bad == reading.Bad && (!reading.Bad || after-last.at < showEvery) {
		return // nothing is new
	}
	if r.shown == nil {
		r.shown = map[string]shown{}
	}
	r.shown[reading.Service] = shown{at: after, bad: reading.Bad}
	r.Timeline = append(r.Timeline, Line{After: after, Text: fmt.Sprintf("%s minute of %s: %.0f requests, %.1f %% late, %.1f %% slow; %d running, %d waiting, KV %.0f %%; %d of %d ready",
		word, reading.Service, reading.Requests, 100*reading.Late, 100*reading.Slow, reading.Running, reading.Waiting, 100*reading.KV, reading.Ready, reading.Replicas)})
}

// report reads from the journal what the runs did.
func (p *player) report(r *Result) (err error) {
	r.Scenario, r.Outcome = p.scenario, noRun
	if r.Alerts, err = p.world.Fired(context.Background()); err != nil {
		return err
	}
	runs, err := p.runs("")
	if err != nil {
		return err
	}
	slices.Reverse(runs) // oldest first
	escalated := false   // one run told people for all
	for k, s := range runs {
		events, err := p.service.RunEvents(s.Run)
		if err != nil {
			return err
		}
		t := &teller{result: r, began: p.began, name: fmt.Sprintf("r%d", k+1)}
		t.run = Run{Playbook: p.service.Playbooks().ByName(s.Playbook), Service: s.Service, Return: s.Loan != "", Outcome: s.Status}
		for _, e := range events {
			if text := t.event(e); text != "" {
				r.Timeline = append(r.Timeline, Line{After: e.At.Sub(p.began), Run: t.name, Text: text})
			}
		}
		r.Runs = append(r.Runs, t.run)
		escalated = p.ended(r, s, t) || escalated
	}
	if escalated && r.Outcome == string(machine.OutcomeNoAction) {
		r.Outcome = string(machine.OutcomeEscalated)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.notices {
		r.notices, r.told = append(r.notices, n.text), append(r.told, n.text)
		r.Timeline = append(r.Timeline, Line{After: n.at.Sub(p.began), Text: "told people: " + n.text})
	}
	slices.SortStableFunc(r.Timeline, func(x, y Line) int { return cmp.Compare(x.After, y.After) })
	return nil
}

// ended notes how a run ended. It reports whether people took over.
func (p *player) ended(r *Result, s api.RunSummary, t *teller) bool {
	if s.Loan != "" {
		for i := range r.Changes {
			c := &r.Changes[i]
			if c.Return || c.loan != s.Loan {
				continue
			}
			c.Back, c.Owed = t.back, s.Ended.IsZero()
		}
		return false
	}
	if s.DivertedFrom == "" {
		r.started++
	}
	first := s.Service == p.world.Services()[0].Name || r.Outcome == noRun
	if s.Status != string(machine.OutcomeDiverted) && (t.made && !r.acted || t.made == r.acted && first) {
		r.Outcome, r.acted = s.Status, t.made
	}
	return s.Status == string(machine.OutcomeEscalated)
}

// Named reports whether the events of a run name the cause, to people or as evidence.
func (s *Scenario) Named(events []machine.Event) bool {
	t := &teller{result: &Result{Scenario: s}}
	for _, e := range events {
		t.event(e)
	}
	return t.result.Named()
}

// teller turns the events of one run into the result.
type teller struct {
	result *Result
	began  time.Time
	name   string
	run    Run
	plan   *machine.Plan
	looked string        // what a wait saw last
	back   time.Duration // when it gave something back
	change int           // index of the last change; valid while made
	made   bool
}

// event notes one event and returns a line for the timeline; empty: none.
func (t *teller) event(e machine.Event) string {
	tell := func(texts ...string) { t.result.told = append(t.result.told, texts...) }
	switch e.Kind {
	case machine.RunStarted:
		return fmt.Sprintf("%s for %s by %s", e.Start.Playbook, e.Start.Service.Name, e.Start.Cause())
	case machine.StateEntered:
		t.run.Path = append(t.run.Path, e.State)
	case machine.CheckCompleted:
		out := "evidence of " + e.State + ": " + strings.Join(e.Facts, "; ")
		t.result.found = append(t.result.found, strings.Join(e.Facts, "; "))
		for _, g := range e.Gathered {
			t.result.found = append(t.result.found, strings.Join(g.Facts, "; "))
			out += "\n" + g.Name + ": " + strings.Join(g.Facts, "; ") + g.Why
		}
		return out
	case machine.WaitLooked:
		t.looked = strings.Join(e.Facts, "; ")
		t.result.found = append(t.result.found, t.looked)
	case machine.EdgeTaken:
		tell(e.Message)
		t.run.Edges = append(t.run.Edges, Edge{e.State, e.To, e.Message})
		out := fmt.Sprintf("%s -> %s: %s", e.State, e.To, e.Message)
		if t.looked != "" {
			out += "\nlast look: " + t.looked
		}
		t.looked = ""
		return out
	case machine.PlanCompleted:
		t.plan = e.Plan
		tell(e.Plan.Summary, e.Plan.Why, strings.Join(e.Plan.Notes, "; "))
		return "plan: " + e.Plan.Summary
	case machine.PlanRefused:
		tell(e.Message)
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
		tell(e.Ending.Message)
		return fmt.Sprintf("ends %s: %s", e.Ending.Outcome, e.Ending.Message)
	case machine.RunHeld, machine.GateOpened, machine.GateWithdrawn, machine.GateExpired, machine.EpisodeJoined, machine.EpisodeResolved, machine.GateDecided:
		return strings.TrimSpace(fmt.Sprintf("%s %s", e.Kind, e.Message))
	default:
		return t.changed(e)
	}
	return ""
}

// changed notes what became of a change.
func (t *teller) changed(e machine.Event) string {
	at := e.At.Sub(t.began)
	switch e.Kind {
	case machine.Applied:
		back := t.plan.Class == playbook.ClassReturn
		t.result.Changes = append(t.result.Changes, Change{Lever: t.plan.Step, Return: back, At: at})
		t.change, t.made = len(t.result.Changes)-1, true
		if t.run.Return {
			t.back = at
		}
		return "applied: " + t.plan.Summary
	case machine.Undone:
		if t.made {
			t.result.Changes[t.change].Undone = at
		}
		return "undone"
	case machine.Verified, machine.VerifyEnded, machine.Kept:
		verdict := e.Verdict
		if e.Kind == machine.Verified {
			verdict = machine.VerdictVerified
		}
		if c := t.result.Changes; t.made {
			if verdict != "" {
				c[t.change].Verdict = string(verdict)
			}
			if e.Loan != nil {
				c[t.change].loan = e.Loan.ID
			}
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s, then %s %s", e.Kind, e.Verdict, e.Then, e.Message))
	}
	return ""
}

// Story returns the timeline as lines of text.
func (r Result) Story() string {
	var b strings.Builder
	for _, l := range r.Timeline {
		for i, text := range strings.Split(l.Text, "\n") {
			head := fmt.Sprintf("%+8s %-3s", l.After.Round(time.Second), l.Run)
			if i > 0 {
				head = strings.Repeat(" ", len(head)+2)
			}
			fmt.Fprintln(&b, head, text)
		}
	}
	return b.String()
}

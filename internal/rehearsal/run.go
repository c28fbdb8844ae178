package rehearsal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Result is what became of a case.
type Result struct {
	Case    *Case
	Path    []string
	Edges   []Taken
	Levers  []Lever
	Outcome machine.RunOutcome
	Message string // of the end
	Took    time.Duration
	Failed  []string // what differs from the expectation; empty: nothing
}

// Taken is an edge that the run took, or the state in which it ended.
type Taken struct {
	After    time.Duration // since the run began
	From, To string        // states; of the last one To is empty
	Why      string        // label, condition or signal
}

// epoch is when all runs begin: a Wednesday at noon in UTC.
func epoch() time.Time { return time.Date(2026, 1, 7, 12, 0, 0, 0, time.UTC) }

// maxTurns bounds a run: it waits for weeks at most, and looks every few seconds
// at least.
const maxTurns = 1_000_000

// runner is one run of a case.
type runner struct {
	p     *playbook.Playbook
	c     *Case
	s     machine.State
	now   time.Time
	asked map[string]int // answers given, by state
	votes int            // on the open gate
	out   Result
}

// Run runs a case of the playbook that the suite was compiled for.
func (c *Case) Run(p *playbook.Playbook) Result {
	r := &runner{p: p, c: c, now: epoch(), asked: map[string]int{}, out: Result{Case: c}}
	if err := r.run(); err != nil {
		r.out.Failed = append(r.out.Failed, err.Error())
	}
	for _, v := range r.s.Path {
		r.out.Path = append(r.out.Path, v.State)
	}
	r.out.Took = r.now.Sub(epoch())
	if r.s.Ending != nil {
		r.out.Outcome, r.out.Message = r.s.Ending.Outcome, r.s.Ending.Message
	}
	if len(r.out.Failed) == 0 {
		r.out.Failed = c.want.compare(r.out)
	}
	return r.out
}

func (r *runner) run() error {
	start := machine.Start{
		Run: "r-test", Playbook: r.p.Name, Digest: r.p.Digest, Service: r.c.service, Autonomy: playbook.Auto,
		Alert: playbook.Alert{Fingerprint: "test", Status: playbook.Firing, Labels: r.c.alert, StartsAt: r.now.Add(-r.c.age)},
	}
	if r.c.asks() {
		start.Service.Autonomy = playbook.Suggest
	}
	if r.p.Name == playbook.LoanReturn {
		start.Loan = "r-incident/lever#1"
	}
	r.s.Playbook = r.p
	if err := r.do(machine.Command{Kind: machine.CmdStart, Start: &start, Playbook: r.p}); err != nil {
		return err
	}
	for i, labels := range r.c.joined {
		a := playbook.Alert{Fingerprint: fmt.Sprintf("joined-%d", i), Status: playbook.Firing, Labels: labels, StartsAt: r.now}
		if err := r.do(machine.Command{Kind: machine.CmdAlert, Alert: &a}); err != nil {
			return err
		}
	}
	for range maxTurns {
		if r.s.Phase == machine.PhaseEnded {
			return nil
		}
		if err := r.turn(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the run does not end: it is %s in state %s", r.s.Phase, r.s.Current)
}

// asks reports whether somebody does not approve in the case, so that a playbook that
// acts by itself has to ask, too.
func (c Case) asks() bool {
	for _, answers := range c.answers {
		for _, a := range answers {
			if a.signal == playbook.OnDenied || a.signal == playbook.OnExpired {
				return true
			}
		}
	}
	return false
}

// turn does what the run owes next, and lets the time pass until then.
func (r *runner) turn() error {
	if e, owed := machine.Pending(r.s); owed {
		r.until(e.NotUntil)
		out, err := r.outcome(e)
		if err != nil {
			return err
		}
		return r.do(machine.Command{Kind: machine.CmdOutcome, Effect: e.Key, Outcome: &out})
	}
	if r.s.Phase == machine.PhaseDeciding {
		return r.decide()
	}
	wake, waits := machine.NextWake(r.s)
	if !waits {
		return fmt.Errorf("the run is %s in state %s, and nothing would make it go on", r.s.Phase, r.s.Current)
	}
	r.until(wake)
	return r.do(machine.Command{Kind: machine.CmdTick})
}

func (r *runner) until(t time.Time) {
	if t.After(r.now) {
		r.now = t
	}
}

// do carries out a command. What another run has told already is known only when
// the text is: then the command is decided anew.
func (r *runner) do(c machine.Command) error {
	c.Now = r.now
	events, err := machine.Decide(r.s, c)
	for _, e := range events {
		if a, ok := r.peek(e.State); ok && a.told && e.Kind == machine.EffectStarted && e.Once != "" && c.Told == nil {
			c.Told = map[string]machine.Telling{e.Once: {Run: "r-other", At: r.now}}
			return r.do(c)
		}
	}
	for _, e := range events {
		r.s = machine.Evolve(r.s, e)
		r.note(e)
	}
	return err
}

// note records what the result shows of an event.
func (r *runner) note(e machine.Event) {
	after := r.now.Sub(epoch())
	switch e.Kind {
	case machine.EdgeTaken:
		r.out.Edges = append(r.out.Edges, Taken{After: after, From: e.State, To: e.To, Why: e.Message})
	case machine.RunEnded:
		r.out.Edges = append(r.out.Edges, Taken{After: after, From: r.s.Current, Why: e.Ending.Message})
	case machine.Applied:
		r.out.Levers = append(r.out.Levers, Lever{State: e.State, With: r.s.Lever.With})
	case machine.GateOpened:
		r.votes = 0
	}
}

// peek returns the next answer of a state.
func (r *runner) peek(state string) (answer, bool) {
	all := r.c.answers[state]
	if len(all) == 0 {
		return answer{}, false
	}
	return all[min(r.asked[state], len(all)-1)], true
}

// compare returns how a result differs from what is expected.
func (w Want) compare(got Result) []string {
	var out []string
	differs := func(what string, want, got any) {
		out = append(out, fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
	if w.Path != nil && !slices.Equal(w.Path, got.Path) {
		differs("path", strings.Join(w.Path, " -> "), strings.Join(got.Path, " -> "))
	}
	if w.Levers != nil && !slices.EqualFunc(w.Levers, got.Levers, Lever.meets) {
		differs("levers", leversText(w.Levers), leversText(got.Levers))
	}
	if w.Outcome != "" && w.Outcome != got.Outcome {
		differs("outcome", w.Outcome, fmt.Sprintf("%s (%s)", got.Outcome, got.Message))
	}
	if w.Within > 0 && got.Took > w.Within {
		differs("time", "at most "+playbook.FormatDuration(w.Within), playbook.FormatDuration(got.Took))
	}
	return out
}

// meets reports whether a lever that was applied is the expected one.
func (l Lever) meets(got Lever) bool {
	if l.State != got.State {
		return false
	}
	for name, want := range l.With {
		if asJSON(want) != asJSON(got.With[name]) {
			return false
		}
	}
	return true
}

func leversText(levers []Lever) string {
	if len(levers) == 0 {
		return "none"
	}
	var out []string
	for _, l := range levers {
		out = append(out, l.String())
	}
	return strings.Join(out, ", ")
}

// String returns the lever with its parameters.
func (l Lever) String() string {
	var with []string
	for _, name := range slices.Sorted(maps.Keys(l.With)) {
		with = append(with, name+"="+strings.Trim(asJSON(l.With[name]), `"`))
	}
	if len(with) == 0 {
		return l.State
	}
	return l.State + " (" + strings.Join(with, ", ") + ")"
}

// asJSON returns a value as the journal has it: 2 and 2.0 are one number.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

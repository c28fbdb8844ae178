package runview

import (
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// What became of a run, in a report over a period.
const (
	BecameResponder   = "responder"
	BecameItself      = "itself"
	BecamePeople      = "people"
	BecameNothingToDo = "nothing-to-do"
	BecameObserved    = "observed"
	BecameDiverted    = "diverted"
	BecameLoanReturn  = "loan-return"
	BecameOpen        = "open"
)

// What came of the question to people about a change.
const (
	AskedOpen      = "open"
	AskedApproved  = "approved"
	AskedDenied    = "denied"
	AskedExpired   = "expired"
	AskedWithdrawn = "withdrawn"
	AskedVoid      = "void"
)

// Verdicts on a change beside those of its proof.
const (
	ChangeRefused    = "refused"
	ChangeDeclined   = "declined"
	ChangeWouldApply = "would-apply"
)

// PhaseTotal is the name of the whole time among the phases of a period.
const PhaseTotal = "total"

// DigestOf returns what a report over a period counts of one run.
func DigestOf(s machine.State, events []machine.Event) api.RunDigest {
	sum := api.SummaryOf(s)
	d := api.RunDigest{
		Run: sum.Run, Service: sum.Service, Playbook: sum.Playbook, Alert: sum.Alert, Alerts: s.Episodes.Len(), Began: sum.Began, Ended: sum.Ended,
		Status: sum.Status, Why: sum.Why, DivertedFrom: sum.DivertedFrom, Phases: phasesOf(s, events), Changes: []api.DigestChange{}, Attention: []string{},
		Became: becameOf(s),
	}
	t := digester{book: s.Playbook}
	for _, e := range events {
		t.add(e)
	}
	for _, c := range t.changes {
		d.Changes = append(d.Changes, c.DigestChange)
	}
	if c, _ := t.cause(); c != nil {
		d.Cause = branchName(*c)
	}
	d.Attention = append(d.Attention, attention(s, t)...)
	return d
}

// becameOf returns what became of a run.
func becameOf(s machine.State) string {
	switch {
	case s.Start.Loan != "":
		return BecameLoanReturn
	case s.Ending == nil:
		return BecameOpen
	}
	switch s.Ending.Outcome {
	case machine.OutcomeResolved:
		if s.Kept > 0 {
			return BecameResponder
		}
		return BecameItself
	case machine.OutcomeCleared:
		return BecameItself
	case machine.OutcomeNoAction:
		return BecameNothingToDo
	case machine.OutcomeDiverted:
		return BecameDiverted
	case machine.OutcomeObserved:
		if o := s.ObservedOutcome; o != nil && o.Known && o.Recovered && o.Acted == "" {
			return BecameItself
		}
		return BecameObserved
	default:
		return BecamePeople // also what an outcome of a later version means
	}
}

// attention lists why people should look at a run.
func attention(s machine.State, t digester) []string {
	var why []string
	switch {
	case s.Quarantine != nil && s.Ending == nil:
		why = append(why, "it is in quarantine")
	case s.Held != nil && s.Ending == nil:
		why = append(why, "it is held: what became of a change is not known")
	case s.Ending != nil && (s.Ending.Outcome.WithPeople() || s.Ending.Outcome == machine.OutcomeReleased):
		why = append(why, "it ended "+string(s.Ending.Outcome))
	case t.held:
		why = append(why, "it was held: what became of a change was not known")
	}
	for _, c := range t.changes {
		switch {
		case c.Verdict == string(machine.VerdictWorse):
			why = append(why, c.Lever+" made it worse")
		case c.Verdict == string(machine.VerdictInconclusive):
			why = append(why, "whether "+c.Lever+" helped is not known")
		case c.Verdict == "" && c.Applied && s.Ending != nil:
			why = append(why, c.Lever+" was applied and not judged")
		}
	}
	slices.Sort(why)
	return slices.Compact(why)
}

// digestChange is a change with the branch that led to it.
type digestChange struct {
	api.DigestChange

	branch *machine.Event // nil: none is known
	asked  time.Time      // since when people are asked; zero: they are not
}

// digester folds the events of a run into its changes.
type digester struct {
	book    *playbook.Playbook // nil: not known
	changes []digestChange
	first   *machine.Event // the first branch that led to a change, a question, another playbook or the end
	branch  *machine.Event // the latest such
	current bool           // the last change is that of the current visit
	held    bool
}

func (t *digester) add(e machine.Event) {
	switch e.Kind {
	case machine.StateEntered:
		t.current = false
	case machine.EdgeTaken:
		t.edge(e)
	case machine.RunHeld:
		t.held = true
	case machine.PlanCompleted:
		if e.Plan == nil {
			return
		}
		c := t.change(e.State)
		c.Planned, c.Lever = true, e.Plan.Step
	case machine.PlanRefused, machine.GuardsRefused:
		needless := e.Reason == fault.Cleared || e.Reason == fault.Canceled // nothing was wrong with it
		if c := t.change(e.State); c != nil && !c.Applied && c.Verdict == "" && !needless {
			c.Verdict = ChangeRefused
		}
	default:
		if t.current {
			t.changes[len(t.changes)-1].add(e)
		}
	}
}

// change returns the change of the current visit of a state. Gate states have none: their
// guards refuse a question.
func (t *digester) change(state string) *digestChange {
	if !t.current {
		c := digestChange{DigestChange: api.DigestChange{State: state, Lever: "state " + state}, branch: t.branch}
		if t.book != nil {
			st := t.book.State(state)
			if st != nil && st.Kind == playbook.StateGate {
				return nil
			}
			if st != nil && st.Step != "" {
				c.Lever = st.Step
			}
		}
		t.changes, t.current = append(t.changes, c), true
	}
	return &t.changes[len(t.changes)-1]
}

// add folds an event of the visit that the change belongs to.
func (c *digestChange) add(e machine.Event) {
	undo := e.Gate != nil && e.Gate.Undo
	switch e.Kind {
	case machine.GateOpened:
		if !undo {
			c.Question, c.asked = AskedOpen, e.At
		}
	case machine.GateDecided:
		answer := AskedDenied
		if e.Decision != nil && e.Decision.Approve {
			answer = AskedApproved
		}
		c.closed(answer, e.At)
	case machine.GateExpired:
		c.closed(AskedExpired, e.At)
	case machine.GateWithdrawn:
		c.closed(AskedWithdrawn, e.At)
	case machine.GateVoided:
		c.closed(AskedVoid, e.At)
		if c.Question == AskedApproved && !c.Applied {
			c.Question = AskedVoid // of another plan than the one that is there now
		}
	case machine.WouldApply:
		c.Verdict = ChangeWouldApply
	case machine.Applied:
		c.Applied, c.Verdict = true, ""
	case machine.Declined:
		c.Applied, c.Verdict = false, ChangeDeclined
	case machine.Verified:
		c.Verdict = string(machine.VerdictVerified)
	case machine.VerifyEnded:
		c.Verdict = string(e.Verdict)
		if e.Verdict == machine.VerdictFailed { // as older versions called it
			c.Verdict = string(machine.VerdictNoEffect)
		}
	case machine.Undone:
		c.Undone = true
	}
}

// closed records what came of the open question. There is none where people are asked
// whether the change is taken back.
func (c *digestChange) closed(answer string, at time.Time) {
	if c.asked.IsZero() {
		return
	}
	c.WaitedSeconds += at.Sub(c.asked).Seconds()
	c.Question, c.asked = answer, time.Time{}
}

// edge remembers a branch that leads to something: to a change, a question, another
// playbook or the end. It does nothing without the playbook, which tells where one leads.
func (t *digester) edge(e machine.Event) {
	t.current = false
	if e.Again || t.book == nil {
		return
	}
	if st := t.book.State(e.To); st == nil || !slices.Contains([]playbook.StateKind{playbook.StateLever, playbook.StateGate, playbook.StateDivert, playbook.StateEnd}, st.Kind) {
		return
	}
	t.branch = &e
	if t.first == nil || branchName(*t.first) == "" {
		t.first = t.branch
	}
}

// branchName is the name of the branch that a run took.
func branchName(taken machine.Event) string { return strings.TrimSpace(taken.Message) }

// cause returns the branch that led to the last change that helped, and true, else that
// to the first change or end; nil: none was taken, or none is known.
func (t *digester) cause() (taken *machine.Event, helped bool) {
	for _, c := range slices.Backward(t.changes) {
		if c.branch != nil && (c.Verdict == string(machine.VerdictVerified) || c.Verdict == string(machine.VerdictImproved)) {
			return c.branch, true
		}
	}
	return t.first, false
}

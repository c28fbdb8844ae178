package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Consequence is what becomes of a change when its proof has ended.
type Consequence string

// The consequences.
const (
	Keep Consequence = "keep"
	Lend Consequence = "loan" // kept for the incident, and given back after recovery
	Undo Consequence = "undo" // taken back at once
	Ask  Consequence = "ask"  // people decide whether it is taken back
)

// Fate is what becomes of a change by one verdict.
type Fate struct {
	Then       Consequence
	Unanswered Consequence // of Ask: if nobody decides in time
	Tell       bool        // the run ends with people unless an edge names the verdict
	Restarted  bool        // Lend only because taking it back now would restart what serves
	Held       bool        // Lend until what it holds back is replaced, not until the service has recovered
}

// fates is the table of consequences. Its rows are the classes of levers, its
// columns the verdicts. docs/explanation/safety.md explains it.
func fates() map[playbook.Class]map[Verdict]Fate {
	keep, lend, undo, held := Fate{Then: Keep}, Fate{Then: Lend}, Fate{Then: Undo}, Fate{Then: Lend, Held: true}
	tell := func(f Fate) Fate { f.Tell = true; return f }
	return map[playbook.Class]map[Verdict]Fate{
		playbook.ClassCapacity: {
			VerdictVerified: lend, VerdictImproved: lend, VerdictNoEffect: lend, VerdictWorse: undo, VerdictInconclusive: tell(lend),
		},
		playbook.ClassReturn: {
			// The service was well with it, so it has to be well without.
			VerdictVerified: keep, VerdictImproved: keep, VerdictNoEffect: tell(undo), VerdictWorse: tell(undo), VerdictInconclusive: tell(undo),
		},
		playbook.ClassRollback: {
			VerdictVerified: keep, VerdictImproved: keep, VerdictNoEffect: {Then: Ask, Unanswered: Keep}, VerdictWorse: undo, VerdictInconclusive: tell(keep),
		},
		playbook.ClassSetting: {
			VerdictVerified: keep, VerdictImproved: keep, VerdictNoEffect: undo, VerdictWorse: undo, VerdictInconclusive: tell(undo),
		},
		playbook.ClassHardware: {
			VerdictVerified: keep, VerdictImproved: keep, VerdictNoEffect: keep, VerdictWorse: tell(keep), VerdictInconclusive: tell(keep),
		},
		playbook.ClassRepaired: {
			VerdictVerified: keep, VerdictImproved: keep, VerdictNoEffect: keep, VerdictWorse: undo, VerdictInconclusive: tell(keep),
		},
		playbook.ClassTraffic: {
			VerdictVerified: lend, VerdictImproved: lend, VerdictNoEffect: {Then: Ask, Unanswered: Undo}, VerdictWorse: undo,
			VerdictInconclusive: tell(Fate{Then: Ask, Unanswered: Undo}),
		},
		playbook.ClassHold: {
			// Taken back, the release that it holds would go on.
			VerdictVerified: held, VerdictImproved: held, VerdictNoEffect: held, VerdictWorse: tell(held), VerdictInconclusive: tell(held),
		},
	}
}

// FateOf returns what becomes of a change of a class by a verdict that ends a
// proof. A setting that is not worse is taken back at once only if that
// restarts nothing: a restart would take capacity from a service in trouble.
func FateOf(class playbook.Class, restarts bool, v Verdict) Fate {
	row, ok := fates()[class]
	if !ok {
		row = fates()[playbook.ClassSetting]
	}
	f, ok := row[v]
	if !ok {
		f = row[VerdictInconclusive]
	}
	if class == playbook.ClassSetting && f.Then == Undo && v != VerdictWorse && restarts {
		f.Then, f.Restarted = Lend, true
	}
	return f
}

// Text describes the fate for people.
func (f Fate) Text() string {
	text := ""
	switch {
	case f.Then == Keep:
		text = "it stays"
	case f.Then == Lend && f.Restarted:
		text = "it stays until the service has recovered, and is then taken back: taking it back restarts pods"
	case f.Held:
		text = "it stays until the pod template is another one, and ends by itself then"
	case f.Then == Lend:
		text = "it stays on loan, and is given back when the service has recovered"
	case f.Then == Undo:
		text = "it is taken back at once"
	case f.Unanswered == Keep:
		text = "people are asked whether to take it back; without an answer it stays"
	default:
		text = "people are asked whether to take it back; without an answer it is taken back"
	}
	if f.Tell {
		text += "; people are told"
	}
	return text
}

// class returns the class of the current lever: the plan's, else its kind's.
func (s State) class() (playbook.Class, bool) {
	st := s.current()
	switch {
	case s.Start.Loan != "": // whatever it changes back
		return playbook.ClassReturn, false
	case st == nil:
		return playbook.ClassSetting, false
	}
	if s.Lever != nil && s.Lever.Plan != nil && s.Lever.Plan.Class != "" {
		return s.Lever.Plan.Class, st.Restarts
	}
	return st.Class, st.Restarts
}

// fate returns what becomes of the current lever's change by a verdict.
func (s State) fate(v Verdict) Fate {
	class, restarts := s.class()
	f := FateOf(class, restarts, v)
	if l := s.Lever; l != nil && l.Plan != nil && l.Plan.Ends != "" && f.Then != Keep {
		f.Then = Keep // begun again, what was held would keep a fix back
	}
	if st := s.current(); st != nil && slices.Contains(st.Undo, playbook.Signal(v)) && f.Then != Undo {
		return Fate{Then: Undo, Tell: f.Tell}
	}
	return f
}

// FateLine is what follows from one verdict, for people.
type FateLine struct {
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
}

// Fates describes what will become of the change of the current lever, one line
// for each verdict; none without a plan.
func (s State) Fates() []FateLine {
	if s.Lever == nil || s.Lever.Plan == nil || s.current() == nil {
		return nil
	}
	var out []FateLine
	for _, sig := range playbook.Verdicts() {
		v := Verdict(sig)
		out = append(out, FateLine{v, s.fate(v).Text() + s.follows(sig)})
	}
	return out
}

// Loan is a change that was kept for the incident and is owed back. The run
// that made it ends; its return is a run of its own.
type Loan struct {
	ID      string         `json:"id"`    // run/state#visit of the change
	State   string         `json:"state"` // of the playbook
	Step    string         `json:"step"`  // kind of lever that gives it back
	Summary string         `json:"summary"`
	Back    map[string]any `json:"back,omitempty"` // parameters of Step that give it back; empty: only a person can
	Verdict Verdict        `json:"verdict"`
	Since   time.Time      `json:"since"`

	// Early is set if its return is watched for from now on, not from the end of the run
	// on: a hold, which must not keep a fix back.
	Early bool `json:"early,omitempty"`
}

// visit names the current visit of the current state.
func (t *turn) visit() string {
	return fmt.Sprintf("%s/%s#%d", t.s.Start.Run, t.s.Current, t.s.Visits[t.s.Current])
}

// loan returns the loan of the current lever.
func (t *turn) loan(v Verdict) *Loan {
	l := t.s.Lever
	loan := &Loan{
		ID: t.visit(), State: t.s.Current, Step: l.Step, Summary: l.Plan.Summary, Back: plainMap(l.Plan.Back), Verdict: v, Since: t.now,
	}
	if class, _ := t.s.class(); class == playbook.ClassHold {
		loan.Early = true
	}
	if first := t.s.lentBefore(); first != nil { // one return gives all steps back
		loan.ID, loan.Back, loan.Since = first.ID, first.Back, first.Since
	}
	return loan
}

// concluded ends the proof of a change with a verdict other than verified.
func (t *turn) concluded(v Verdict, reason fault.Reason, msg string) {
	f := t.s.fate(v)
	t.emit(Event{Kind: VerifyEnded, State: t.s.Current, Verdict: v, Then: f.Then, Reason: reason, Message: msg})
	switch f.Then {
	case Undo:
		t.open(ActionUndo)
	case Ask:
		t.askUndo(f)
	default:
		t.kept(f, v)
	}
}

// abandon gives up a change whatever its class: a person canceled the run, or
// the change was never made effective. It is taken back exactly.
func (t *turn) abandon(reason fault.Reason, msg string) {
	t.giveUp(VerdictInconclusive, reason, msg)
}

func (t *turn) giveUp(v Verdict, reason fault.Reason, msg string) {
	t.emit(Event{Kind: VerifyEnded, State: t.s.Current, Verdict: v, Then: Undo, Reason: reason, Message: msg})
	t.open(ActionUndo)
}

// kept journals that an unproven change stays, and goes on.
func (t *turn) kept(f Fate, v Verdict) {
	e := Event{Kind: Kept, State: t.s.Current, Verdict: v, Then: f.Then, Message: f.Text()}
	if f.Then == Lend {
		e.Loan = t.loan(v)
	}
	t.emit(e)
	t.signal(t.s.Lever.Signal)
}

// proven keeps a verified change, as a loan if its class is one.
func (t *turn) proven(msg string) {
	e := Event{Kind: Verified, State: t.s.Current, Message: msg}
	if t.s.fate(VerdictVerified).Then == Lend {
		e.Loan = t.loan(VerdictVerified)
	}
	t.emit(e)
	t.signal(playbook.OnVerified)
}

// askUndo asks people whether a change that had no effect is taken back.
func (t *turn) askUndo(f Fate) {
	st, l := t.s.current(), t.s.Lever
	needs := t.s.Needs(st)
	if len(needs) == 0 { // the lever needed no approval
		needs = []Need{t.s.speaking(Need{Rule: "an unproven change", From: t.s.deciders(t.s.defaultDeciders()), Quorum: 1})}
	}
	unanswered := "it stays"
	if f.Unanswered == Undo {
		unanswered = "it is taken back"
	}
	t.openGate(st, &Gate{
		// Another digest than the plan's: an approval of the plan is none of its undo.
		Digest: "undo:" + l.Plan.Digest(), OnExpiry: playbook.ExpiryEscalate, Undo: true, Unanswered: f.Unanswered, Needs: needs,
		Text: fmt.Sprintf("%s: %s. Take it back (%s)? Deny keeps it. Without an answer %s.", l.Plan.Summary, l.Message, l.Plan.Undo, unanswered),
	})
}

// answered carries out the decision about an unproven change.
func (t *turn) answered(then Consequence, why string) {
	v := Verdict(t.s.Lever.Signal)
	if then == Undo {
		t.open(ActionUndo)
		return
	}
	t.emit(Event{Kind: Kept, State: t.s.Current, Verdict: v, Then: Keep, Message: why})
	t.signal(t.s.Lever.Signal)
}

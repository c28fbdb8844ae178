package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// gate begins a gate state. Guards and policy are evaluated before people are
// asked, as for a lever.
func (t *turn) gate(st *playbook.State) {
	if _, err := t.s.text(t.now); err != nil {
		t.emit(Event{Kind: EffectFailed, State: st.Name, Reason: fault.Expression, Message: err.Error()})
		t.failed(fault.Expression, err.Error())
		return
	}
	t.open(ActionGuard)
}

// ask opens a gate: for a gate state, or about the plan with the digest.
func (t *turn) ask(st *playbook.State, text, digest string) {
	terms := t.s.terms()
	g := &Gate{
		Digest: digest, OnExpiry: onExpiry(st), Text: text,
		Needs: t.s.Needs(st), BreakGlass: t.s.deciders(terms.BreakGlass), GlassOwn: terms.GlassOwn,
	}
	g.Follows = t.s.Fates()
	t.openGate(st, g)
}

// openGate opens a gate with the deadline, reminder and escalation of the
// playbook's state and the policy.
func (t *turn) openGate(st *playbook.State, g *Gate) {
	terms := t.s.terms()
	g.ID, g.Opened, g.NotBy = t.key(actionGate), t.now, t.s.Start.By
	within, err := t.s.Deciding(st, t.now)
	if err != nil {
		within = AskWithin // unreachable unless another version entered the state: people are asked all the same
	}
	if terms.Within > 0 {
		within = min(within, terms.Within)
	}
	g.Deadline = t.now.Add(within)
	if terms.Remind > 0 {
		g.RemindAt = t.now.Add(terms.Remind)
	}
	g.Tiers = slices.Clone(terms.Tiers)
	slices.SortStableFunc(g.Tiers, func(a, b Tier) int { return cmp.Compare(a.After, b.After) })
	for _, n := range g.Needs {
		if why := n.Unreachable(t.s.Start); why != "" {
			g.Text += " (" + why + ")" // the gate expires into its safe outcome
		}
	}
	if before := t.s.Start.Unanswered; before != nil {
		g.Text += fmt.Sprintf(" (asked again: %s)", before)
	}
	t.emit(Event{Kind: GateOpened, State: t.s.Current, Gate: g, Digest: g.Digest})
}

// Unreachable returns why nobody can meet the need; empty if people can, as far
// as names alone show.
func (n Need) Unreachable(start Start) string {
	people := 0
	group := func(who string) bool { return strings.HasPrefix(who, "group:") }
	for _, who := range n.From {
		switch {
		case group(who) || slices.ContainsFunc(n.Among, group):
			return ""
		case who != start.By && (len(n.Among) == 0 || slices.Contains(n.Among, who)):
			people++
		}
	}
	switch {
	case len(n.From) == 0 && n.As != "":
		return "nobody may decide: there are no " + n.As
	case len(n.From) == 0:
		return fmt.Sprintf("nobody may decide: service %s names no owners, and a playbook names nobody else unless a policy allows it", start.Service.Name)
	case people < n.Quorum:
		return fmt.Sprintf("%s asks for %d to approve, and only %d can%s", n.Rule, n.Quorum, people, unnamed(start.By))
	default:
		return ""
	}
}

// remind journals that people are to be reminded, or further channels notified,
// each once. A run never waits for the notification.
func (t *turn) remind() {
	if g := t.s.Gate; !g.Reminded && !g.RemindAt.IsZero() && !t.now.Before(g.RemindAt) {
		t.emit(Event{Kind: GateReminded, State: t.s.Current, Message: "still needed: " + whoOf(g.Unmet())})
	}
	for {
		g := t.s.Gate
		at, ok := g.nextTier()
		if !ok || t.now.Before(at) {
			return
		}
		tier := g.Tiers[g.Told]
		t.emit(Event{
			Kind: GateEscalated, State: t.s.Current, Tier: g.Told + 1,
			Message: fmt.Sprintf("nobody has decided for %s: %s is told", playbook.FormatDuration(tier.After), strings.Join(tier.To, ", ")),
		})
	}
}

// nextTier returns when the next tier is notified, if there is one.
func (g Gate) nextTier() (time.Time, bool) {
	if g.Told >= len(g.Tiers) {
		return time.Time{}, false
	}
	return g.Opened.Add(g.Tiers[g.Told].After), true
}

// decide handles a person's decision. One that does not count changes nothing,
// is journaled, and its sender is told why.
func (t *turn) decide(c Command) error {
	d := c.Decision
	if d == nil || d.By == "" {
		return fmt.Errorf("%w: missing the person who decides", ErrInvalid)
	}
	if err := t.refuse(*d); err != nil {
		t.ignore(d, err.Error())
		return err
	}
	g, st := *t.s.Gate, t.s.current()
	taken := *d
	taken.Gate, taken.Digest = g.ID, g.Digest
	if d.Approve && !d.BreakGlass && len(unmet(g.Needs, append(slices.Clip(g.Votes), taken))) > 0 {
		t.emit(Event{Kind: GateVoted, State: t.s.Current, Decision: &taken, Digest: g.Digest})
		return nil
	}
	t.emit(Event{Kind: GateDecided, State: t.s.Current, Decision: &taken, Digest: g.Digest})
	switch {
	case g.Undo && d.Approve:
		t.answered(Undo, "")
	case g.Undo:
		t.answered(Keep, d.By+" keeps it: "+d.Reason)
	case st.Kind == playbook.StateLever && d.Approve:
		t.open(ActionPlan) // the world may have changed while people decided
	case st.Kind == playbook.StateLever:
		t.signal(playbook.OnDenied)
	case d.Approve:
		t.open(ActionGuard) // rules may have changed, and may depend on who approved
	default:
		t.leaveGate(playbook.OnDenied, "")
	}
	return nil
}

// ignore journals a decision that does not count, up to a limit: a button can
// be pressed any number of times by anybody who sees it, which must not fill
// the run's log.
func (t *turn) ignore(d *Decision, why string) {
	switch by := t.s.IgnoredBy[d.By]; {
	case t.s.Ignored >= MaxIgnored, by >= MostIgnored:
		return
	case t.s.Ignored == MaxIgnored-1:
		why += "; further ones are answered but no longer recorded in this run"
	case by == MostIgnored-1:
		why += "; further ones of " + d.By + " are answered but no longer recorded in this run"
	}
	t.emit(Event{Kind: DecisionIgnored, State: t.s.Current, Decision: d, Message: why})
}

// refuse returns why a decision does not count; nil if it does.
func (t *turn) refuse(d Decision) error {
	g := t.s.Gate
	switch {
	case t.s.Phase == PhaseEnded:
		return fmt.Errorf("%w %s: no question is open", ErrEnded, t.s.Ending.Outcome)
	case g == nil:
		return fmt.Errorf("%w: run %s is %s", ErrNoGate, t.s.Start.Run, t.s.Phase)
	case d.Gate != "" && d.Gate != g.ID:
		return fmt.Errorf("%w: the open question is %s, the decision is about %s", ErrNoGate, g.ID, d.Gate)
	case !t.now.Before(g.Deadline):
		return fmt.Errorf("%w: the deadline was %s", ErrNoGate, g.Deadline.UTC().Format(time.RFC3339))
	case d.Digest != "" && d.Digest != g.Digest:
		return fmt.Errorf("%w: it names %s, the open question is about %s", ErrStale, d.Digest, g.Digest)
	case d.Approve && d.Gate == "" && d.Digest == "" && t.s.Asked > 1:
		// It may be meant for an earlier question, about a voided plan.
		return fmt.Errorf("%w: this run asked earlier questions too; check the current one and name it: gate %s%s", ErrStale, g.ID, about(g.Digest))
	default:
		return g.Refuse(d)
	}
}

// replan voids the open question and plans again, because a person requested
// it.
func (t *turn) replan(c Command) error {
	d := c.Decision
	if d == nil || d.By == "" {
		return fmt.Errorf("%w: missing the person who requests a new plan", ErrInvalid)
	}
	if err := t.refuseReplan(*d); err != nil {
		t.ignore(d, "fresh plan: "+err.Error())
		return err
	}
	asked := *d
	asked.Gate, asked.Digest = t.s.Gate.ID, t.s.Gate.Digest
	t.emit(Event{Kind: GateVoided, State: t.s.Current, Decision: &asked, Message: d.By + " wants a fresh plan"})
	t.open(ActionPlan)
	return nil
}

func (t *turn) refuseReplan(d Decision) error {
	g := t.s.Gate
	switch {
	case t.s.Phase == PhaseEnded:
		return fmt.Errorf("%w %s: no further planning", ErrEnded, t.s.Ending.Outcome)
	case g == nil || t.s.Lever == nil:
		return fmt.Errorf("%w: run %s has no plan in question, it is %s", ErrNoGate, t.s.Start.Run, t.s.Phase)
	case g.Undo:
		return fmt.Errorf("%w: the question is whether a change that was made is taken back; approve takes it back, deny keeps it", ErrNoGate)
	case d.Gate != "" && d.Gate != g.ID:
		return fmt.Errorf("%w: the open question is %s, not %s", ErrNoGate, g.ID, d.Gate)
	case !t.now.Before(g.Deadline):
		return fmt.Errorf("%w: the deadline was %s", ErrNoGate, g.Deadline.UTC().Format(time.RFC3339))
	case d.Digest != "" && d.Digest != g.Digest:
		return fmt.Errorf("%w: it names %s, the open question is about %s", ErrStale, d.Digest, g.Digest)
	case !g.concerns(d):
		return g.notAmong(d)
	case t.s.Lever.Replans >= MaxReplans:
		return fmt.Errorf("%w: %d new plans were requested; approve or deny this one", ErrTooMany, t.s.Lever.Replans)
	default:
		return nil
	}
}

func about(digest string) string {
	if digest == "" {
		return ""
	}
	return ", digest " + digest
}

// expire closes an undecided gate. Expiry never approves.
func (t *turn) expire() {
	g := *t.s.Gate
	t.emit(Event{Kind: GateExpired, State: t.s.Current, Gate: &g})
	msg := g.Missed("by " + g.Deadline.UTC().Format(time.RFC3339))
	if g.Undo {
		t.answered(g.Unanswered, msg)
		return
	}
	if l := t.s.Lever; l != nil && l.Plan != nil {
		msg = l.Plan.Summary + ": " + msg
	}
	end := Ending{Outcome: OutcomeEscalated, Reason: fault.Deadline, Message: msg}
	if end.Released = t.s.toAskAgain(); len(end.Released) > 0 {
		end.Unanswered = t.s.nobodyAnswered(t.now)
		end.Message += "; while the alert fires, another run will look at it"
	}
	t.unanswered(g.OnExpiry, end, "")
}

// Missed returns in words what the gate lacked when its deadline was over. when names that
// time, as in "by 14:00".
func (g Gate) Missed(when string) string {
	if n := len(g.Votes); n > 0 {
		return fmt.Sprintf("%d approved %s, still needed was %s", n, when, g.Needed())
	}
	return fmt.Sprintf("nobody of %s decided %s", g.Who(), when)
}

// toAskAgain returns the episodes of a run whose question nobody answered: those that
// fire may start another run, as nobody has taken over. Nobody waits for the answer of a
// run that was started by hand, and a loan is asked about by its own run.
func (s State) toAskAgain() []string {
	if s.Start.ByHand() || s.Start.Loan != "" {
		return nil
	}
	return s.FiringEpisodes()
}

// nobodyAnswered describes the run's question that nobody answered, and those before it.
func (s State) nobodyAnswered(now time.Time) *Unanswered {
	u := Unanswered{Times: 1, Since: now, Line: append(slices.Clip(s.Start.Line), Handed{s.Start.Run, s.Start.Playbook})}
	if before := s.Start.Unanswered; before != nil {
		u.Times, u.Since = before.Times+1, before.Since
	}
	return &u
}

// onExpiry returns the safe outcome of the state's question.
func onExpiry(st *playbook.State) playbook.Expiry {
	if st.Approve != nil {
		return st.Approve.OnExpiry
	}
	return playbook.ExpiryEscalate
}

// unanswered takes the safe way out of a question that nobody decided, or that
// could not be asked; why describes the latter and is empty for the former. end
// applies if that way ends the run.
func (t *turn) unanswered(safe playbook.Expiry, end Ending, why string) {
	st := t.s.current()
	named := slices.IndexFunc(st.Next, func(e playbook.Edge) bool { return e.On == playbook.OnExpired })
	switch {
	case named >= 0:
		if !t.stop() && !t.clear() {
			t.take(st.Next[named].To, edgeText(st.Next[named], playbook.OnExpired)+withWhy(why))
		}
	case safe != playbook.ExpiryDeny:
		if !t.stop() && !t.clear() {
			t.end(end)
		}
	case st.Kind == playbook.StateLever:
		t.signal(playbook.OnDenied)
	default:
		t.leaveGate(playbook.OnDenied, why)
	}
}

func withWhy(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// leaveGate leaves a gate state; why is added to the edge's text. A denial or
// an expiry never takes the edge of an approval.
func (t *turn) leaveGate(sig playbook.Signal, why string) {
	if t.stop() || t.clear() {
		return
	}
	st := t.s.current()
	c, err := choose(t.s, st.Next, sig, t.now)
	e := c.edge
	if err == nil && e != nil && sig != playbook.OnApproved && e.On != sig {
		yes, yesErr := choose(t.s, st.Next, playbook.OnApproved, t.now)
		if yesErr != nil || yes.edge == e {
			e = nil
		}
	}
	switch {
	case err != nil:
		t.end(Ending{Outcome: OutcomeEscalated, Reason: fault.Expression, Message: fmt.Sprintf("gate %s is %s, and then: %v%s", st.Name, sig, err, withWhy(why))})
	case e == nil:
		t.end(Ending{Outcome: OutcomeEscalated, Message: fmt.Sprintf("gate %s is %s and no edge handles it%s%s", st.Name, sig, withWhy(why), after(c.untold()))})
	default:
		t.take(e.To, edgeText(*e, sig)+withWhy(why), conditional(c.examined)...)
	}
}

// evolveGate folds the outcome of a question.
func evolveGate(s State, e Event) State {
	switch e.Kind {
	case DecisionIgnored:
		s.Ignored++
		if e.Decision != nil {
			by := maps.Clone(s.IgnoredBy)
			if by == nil {
				by = map[string]int{}
			}
			by[e.Decision.By]++
			s.IgnoredBy = by
		}
	case GateOpened:
		s.Gate = e.Gate
		s.Phase = PhaseDeciding
		s.Asked++
		*s.Tries.of(actionGate)++
		if e.Gate.Undo {
			break // the lever was approved before
		}
		s = s.consent(func(c *Consent) {
			c.AskedAt, c.Approved, c.Votes = e.At, nil, nil
			if c.FirstAsk.IsZero() {
				c.FirstAsk = e.At
			}
		})
	case GateVoted, GateReminded, GateEscalated:
		g := *s.Gate
		switch e.Kind {
		case GateVoted:
			g.Votes = append(slices.Clip(g.Votes), *e.Decision)
		case GateReminded:
			g.Reminded = true
		default:
			g.Told = e.Tier
		}
		s.Gate = &g
	case GateDecided:
		switch {
		case s.Gate.Undo:
		case e.Decision.Approve:
			gate := s.Gate
			s = s.consent(func(c *Consent) {
				c.Approved, c.Votes = e.Decision, append(slices.Clip(gate.Votes), *e.Decision)
				c.GoodUntil = e.At.Add(gate.Deadline.Sub(c.AskedAt))
			})
		case s.Lever != nil:
			l := s.lever()
			l.Signal, l.Message = playbook.OnDenied, e.Decision.Reason
			s.Lever = l
		}
		s.Gate, s.Phase = nil, PhaseEntering
	case GateVoided:
		s = s.consent(func(c *Consent) { c.Approved, c.Votes = nil, nil })
		if s.Gate != nil { // a person requested a new plan
			l := s.lever()
			l.Replans++
			s.Lever, s.Gate, s.Phase = l, nil, PhaseEntering
		}
	case GateExpired, GateWithdrawn:
		s.Gate, s.Phase = nil, PhaseEntering
	}
	return s
}

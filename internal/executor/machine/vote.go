package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// owners stands for the service's owners in a list of deciders.
const owners = "service.owners"

// nodeOwners is the decider that stands for the owners of the node that a lever
// changes.
const nodeOwners = "node.owners"

// Anonymous is everybody where nobody has to authenticate. Whoever approves a run
// that it started may have started it.
const Anonymous = "user:anonymous"

// unnamed returns what to do about a run of one's own where everybody is
// anonymous; empty otherwise.
func unnamed(by string) string {
	if by != Anonymous {
		return ""
	}
	return "; nobody has to authenticate here, so everybody is " + Anonymous +
		": configure credentials for people under auth, then start a new run, or name " + Anonymous +
		" in break_glass of a policy rule with break_glass_own"
}

// Who describes whose approval the need takes: "user:ada, group:ml", or "2 of
// group:sre through strong authentication".
func (n Need) Who() string {
	who := strings.Join(n.From, ", ")
	if who == "" {
		who = "nobody"
	}
	if n.Unknown != "" {
		who = fmt.Sprintf("%s of %s", n.Unknown, who)
	} else if n.Quorum > 1 {
		who = fmt.Sprintf("%d of %s", n.Quorum, who)
	}
	if n.As != "" {
		who += " (" + n.As + ")"
	}
	if n.Strong {
		who += " through strong authentication"
	}
	return who
}

// Given returns the distinct people whose approvals count towards the need, in
// the order of their votes.
func (n Need) Given(votes []Decision) []string {
	var people []string
	for _, d := range votes {
		if n.counts(d) && !slices.Contains(people, d.By) {
			people = append(people, d.By)
		}
	}
	return people
}

// Met reports whether these approvals meet the need.
func (n Need) Met(votes []Decision) bool {
	return n.Unknown == "" && len(n.Given(votes)) >= max(1, n.Quorum)
}

func (n Need) counts(d Decision) bool {
	return d.Approve && n.names(d) && n.lacks(d) == "" && (d.Strong || !n.Strong) && (d.Person || !n.people())
}

// lacks returns a service that the need speaks for, and about which the person lacks
// the right to approve; empty: there is none. The question of a run that acts on its
// own service only is put to nobody who lacks it.
func (n Need) lacks(d Decision) string {
	for _, service := range d.Lacks {
		if len(n.For) == 0 || slices.Contains(n.For, service) {
			return service
		}
	}
	return ""
}

// names reports whether the need is for this person, however authenticated.
func (n Need) names(d Decision) bool {
	return permits(n.From, d) && (len(n.Among) == 0 || permits(n.Among, d))
}

// people reports whether the need counts several people. A credential that
// auth.people does not list may be the second one of somebody who has voted.
func (n Need) people() bool { return n.Quorum > 1 }

// Who describes everybody whose approval the gate takes.
func (g Gate) Who() string { return whoOf(g.Needs) }

// Needed describes whose approvals are still missing.
func (g Gate) Needed() string { return whoOf(g.Unmet()) }

// Unmet returns the needs that the votes so far do not meet.
func (g Gate) Unmet() []Need { return unmet(g.Needs, g.Votes) }

// strong reports whether any need counts only strong authentication.
func strong(needs []Need) bool {
	return slices.ContainsFunc(needs, func(n Need) bool { return n.Strong })
}

func unmet(needs []Need, votes []Decision) []Need {
	var out []Need
	for _, n := range needs {
		if !n.Met(votes) {
			out = append(out, n)
		}
	}
	return out
}

// whoOf names the rules of the needs if there are several.
func whoOf(needs []Need) string {
	if len(needs) == 1 {
		return needs[0].Who()
	}
	parts := make([]string, len(needs))
	for i, n := range needs {
		parts[i] = n.Who() + " (" + n.Rule + ")"
	}
	return strings.Join(parts, " and ")
}

// permits reports whether the decider is in the list.
func permits(list []string, d Decision) bool {
	return slices.ContainsFunc(list, func(who string) bool {
		switch {
		case strings.HasPrefix(who, "user:"):
			return who == d.By
		case strings.HasPrefix(who, "group:"):
			return slices.Contains(d.Groups, who) || slices.Contains(d.Groups, strings.TrimPrefix(who, "group:"))
		default:
			return false
		}
	})
}

// concerns reports whether the question is for this person, who may then deny
// it or request a new plan.
func (g Gate) concerns(d Decision) bool {
	return permits(g.BreakGlass, d) || slices.ContainsFunc(g.Needs, func(n Need) bool { return n.names(d) })
}

// Refuse returns why a person's decision on the open question does not count;
// nil if it does. Views call it too, so that they offer only what will be
// accepted. Test its error with errors.Is.
func (g Gate) Refuse(d Decision) error {
	switch {
	case d.BreakGlass && !d.Approve:
		return fmt.Errorf("%w: only an approval can break the glass", ErrInvalid)
	case !d.Approve && !g.concerns(d):
		return g.notAmong(d)
	case !d.Approve:
		return nil // one denial is enough, through any channel
	case g.NotBy != "" && g.NotBy == d.By && (!d.BreakGlass || !g.GlassOwn):
		return fmt.Errorf("%w: %s started this run, and nobody approves their own; needed: %s%s", ErrNotAllowed, d.By, g.Who(), unnamed(d.By))
	case strings.HasPrefix(g.NotBy, "user:") && (g.NotBy == Anonymous || !d.Person) && (!d.BreakGlass || !g.GlassOwn):
		return fmt.Errorf("%w: %s started this run, and %s may be the same person; needed: %s%s", ErrNotAllowed, g.NotBy, d.By, g.Who(), undeclared(d))
	case d.BreakGlass:
		return g.refuseGlass(d)
	default:
		return g.refuseVote(d)
	}
}

// undeclared returns what to do about a credential that auth.people does not list;
// empty if it does.
func undeclared(d Decision) string {
	switch {
	case d.By == Anonymous:
		return unnamed(d.By)
	case !d.Person:
		return "; list the credential of " + d.By + " under auth.people"
	default:
		return ""
	}
}

func (g Gate) notAmong(d Decision) error {
	return fmt.Errorf("%w: %s is not among %s", ErrNotAllowed, d.By, g.Who())
}

// refuseGlass checks the conditions of a break-glass approval. It replaces the
// number of people, not their authentication.
func (g Gate) refuseGlass(d Decision) error {
	switch {
	case len(g.BreakGlass) == 0:
		return fmt.Errorf("%w: no rule lets anybody approve this alone; needed: %s", ErrNotAllowed, g.Who())
	case !permits(g.BreakGlass, d):
		return fmt.Errorf("%w: %s is not among those who may approve alone: %s", ErrNotAllowed, d.By, strings.Join(g.BreakGlass, ", "))
	case strings.TrimSpace(d.Reason) == "":
		return fmt.Errorf("%w: breaking the glass needs a reason", ErrInvalid)
	case len(d.Lacks) > 0:
		return fmt.Errorf("%w: %s; who approves alone needs it on each service that the change acts on", ErrNotAllowed, lackingRight(d.By, d.Lacks[0]))
	case strong(g.Needs) && !d.Strong:
		return fmt.Errorf("%w: this needs strong authentication, also to break the glass; use a channel that has it", ErrNotAllowed)
	default:
		return nil
	}
}

// lackingRight says which right somebody lacks.
func lackingRight(by, service string) string {
	return (&rights.MissingError{By: by, Right: rights.Approve, Service: rights.Service{Name: service}}).Error()
}

// refuseVote returns why an approval adds nothing to the votes.
func (g Gate) refuseVote(d Decision) error {
	counts, weak, nobody, without := false, false, false, ""
	for _, n := range g.Needs {
		if n.counts(d) && !slices.Contains(n.Given(g.Votes), d.By) {
			return nil
		}
		counts = counts || n.counts(d)
		if n.names(d) {
			without = cmp.Or(without, n.lacks(d))
		}
		weak = weak || n.names(d)
		nobody = nobody || n.names(d) && n.people() && !d.Person
	}
	switch {
	case counts:
		return fmt.Errorf("%s %w; still needed: %s", d.By, ErrVoted, whoOf(g.Unmet()))
	case without != "":
		return fmt.Errorf("%w: %s, so the approval does not count; needed: %s", ErrNotAllowed, lackingRight(d.By, without), g.Who())
	case nobody:
		return fmt.Errorf("%w: %s may be another credential of somebody who approves, so it does not count; needed: %s%s", ErrNotAllowed, d.By, g.Who(), undeclared(d))
	case weak:
		return fmt.Errorf("%w: the approval of %s counts only with strong authentication; needed: %s", ErrNotAllowed, d.By, g.Who())
	case permits(g.BreakGlass, d):
		return fmt.Errorf("%w: %s is not among %s, but may break the glass, with a reason", ErrNotAllowed, d.By, g.Who())
	default:
		return g.notAmong(d)
	}
}

// Needs returns what an approval of the lever or gate of a state must meet: the
// playbook's own demand if the level requires a decision, once for each service
// that the lever touches, and those of the policy in any case. None: it is applied
// without asking.
func (s State) Needs(state *playbook.State) []Need {
	var out []Need
	if l := s.Lever; l != nil && l.Plan != nil && l.Plan.Ends != "" {
		return nil
	}
	terms := s.terms()
	always := state.Kind == playbook.StateGate || (state.Approve != nil && state.Approve.Always)
	if l := s.Lever; l != nil && l.Plan != nil && l.Plan.Unseen != "" {
		always = true // the metrics may recover without it: people judge whether to try it
	}
	if l := s.Lever; l != nil && l.Plan != nil && l.Plan.Asks != "" {
		always = true
	}
	if always || s.Autonomy(state) != playbook.Auto {
		own := Need{Rule: fmt.Sprintf("playbook %s, state %s", s.Start.Playbook, state.Name), From: s.defaultDeciders(), Quorum: 1}
		if a := state.Approve; a != nil {
			own.From = a.By
			if n, err := s.count(playbook.NumberQuorum, a.Quorum, s.Updated); err != nil {
				own.Unknown = a.Quorum.Source()
			} else {
				own.Quorum = max(1, n)
			}
		}
		if !always && s.uncapped(state) == playbook.Auto {
			own.Rule = terms.Cap.Rule // without this rule nobody would be asked
		}
		out = s.ownNeeds(own, state)
	}
	for _, n := range terms.Needs {
		out = append(out, s.resolved(n, state))
	}
	for i := range out {
		out[i].Quorum = max(1, out[i].Quorum)
		out[i] = s.speaking(out[i])
	}
	return out
}

// Concerned returns the services that the current lever acts on: the run's own, then
// the others that its plan touches. Of the latter only name, namespace and owners are set.
func (s State) Concerned() []playbook.Service {
	all := []playbook.Service{s.Start.Service}
	if s.Lever == nil || s.Lever.Plan == nil {
		return all
	}
	for _, t := range s.Lever.Plan.Touches {
		if t.Service != "" {
			all = append(all, playbook.Service{Name: t.Service, Namespace: t.Namespace, Owners: t.Owners})
		}
	}
	return all
}

// Lacks returns the services of the current lever about which somebody lacks the right
// to approve, as check reports it. The error is set if they lack it about all of them.
func (s State) Lacks(check func(playbook.Service) error) (some []string, err error) {
	all := s.Concerned()
	for _, svc := range all {
		if missing := check(svc); missing != nil {
			some, err = append(some, svc.Name), cmp.Or(err, missing)
		}
	}
	if len(some) < len(all) {
		return some, nil
	}
	return some, err
}

// speaking returns the need with the services that it speaks for, if the lever acts on
// several: all of them, unless it says which.
func (s State) speaking(n Need) Need {
	all := s.Concerned()
	if len(n.For) > 0 || len(all) == 1 {
		return n
	}
	for _, svc := range all {
		n.For = append(n.For, svc.Name)
	}
	return n
}

// ownNeeds returns the playbook's demand, and the same of the owners of each other
// service that the lever touches. Where the owners of a node pool are asked, they
// decide for all of them.
func (s State) ownNeeds(own Need, state *playbook.State) []Need {
	by, first := own.From, s.narrowed(s.resolved(own, state), s.Start.Service.Owners)
	if len(s.Concerned()) == 1 {
		return []Need{first}
	}
	first.For = []string{s.Start.Service.Name}
	out := []Need{first}
	for _, t := range s.Lever.Plan.Touches {
		if t.Service == "" {
			continue
		}
		n := own
		n.From, n.As = s.decidersFor(by, t.Owners), "owners of "+t.String()
		n = s.narrowed(n, t.Owners)
		if slices.Equal(n.From, first.From) && slices.Equal(n.Among, first.Among) {
			out[0].For = append(out[0].For, t.Service)
			continue
		}
		n.For = []string{t.Service}
		out = append(out, n)
	}
	return out
}

// resolved returns the need with names in place of service.owners and node.owners.
func (s State) resolved(n Need, state *playbook.State) Need {
	if slices.Contains(n.From, nodeOwners) {
		n.As = s.askedAs(state)
	}
	n.From = s.deciders(n.From)
	return n
}

// narrowed keeps whom a playbook names to the owners of the service, or of the
// node's pool, and to whom the policy lets it name.
func (s State) narrowed(n Need, owners []string) Need {
	may := slices.Concat(owners, s.terms().Approvers)
	if s.pooled() {
		may = append(may, s.Lever.Plan.NodeOwners.Owners...)
	}
	switch {
	case !slices.ContainsFunc(n.From, func(who string) bool { return !slices.Contains(may, who) }):
	case len(may) == 0:
		n.From = nil
	default:
		n.Among = may
		if n.As != "" {
			n.As += ", "
		}
		n.As += "who are among " + strings.Join(may, ", ")
	}
	return n
}

// Consent returns the answers about the current lever or gate so far; the zero
// value before its guards answered.
func (s State) Consent() Consent {
	switch {
	case s.Lever != nil:
		return s.Lever.Consent
	case s.GateConsent != nil:
		return *s.GateConsent
	default:
		return Consent{}
	}
}

// consent changes the answers in a copy of the state.
func (s State) consent(change func(*Consent)) State {
	if s.Lever != nil {
		l := s.lever()
		change(&l.Consent)
		s.Lever = l
		return s
	}
	c := s.Consent()
	change(&c)
	s.GateConsent = &c
	return s
}

// terms returns the terms of the last guards of the current lever or gate.
func (s State) terms() Terms {
	if t := s.Consent().Terms; t != nil {
		return *t
	}
	return Terms{}
}

// Under returns the state with the policy's current terms, before they are
// journaled.
func (s State) Under(terms *Terms) State {
	return s.consent(func(c *Consent) { c.Terms = terms })
}

// lacking returns what the approval of the current lever or gate lacks; empty
// if it meets the current needs.
func (s State) lacking(state *playbook.State) string {
	c, needs := s.Consent(), s.Needs(state)
	a := c.Approved
	if a.BreakGlass {
		switch {
		case !permits(s.deciders(s.terms().BreakGlass), *a):
			return fmt.Sprintf("%s approved alone, and no rule allows that any more", a.By)
		case s.Start.By == a.By && !s.terms().GlassOwn:
			return fmt.Sprintf("%s started this run and approved it alone, and no rule allows that any more", a.By)
		case strong(needs) && !a.Strong:
			return "strong authentication is needed now: " + whoOf(needs)
		}
		return ""
	}
	left := unmet(needs, c.Votes)
	if len(left) == 0 {
		return ""
	}
	n := left[0]
	return fmt.Sprintf("%s now needs %s, and the approval has %d", n.Rule, n.Who(), len(n.Given(c.Votes)))
}

// deciders replaces service.owners by the service's owners, and node.owners by
// those of the node's pool. A node of no pool is its service's matter.
func (s State) deciders(by []string) []string { return s.decidersFor(by, s.Start.Service.Owners) }

// decidersFor is deciders for a service with these owners.
func (s State) decidersFor(by, own []string) []string {
	var out []string
	for _, who := range by {
		names := []string{who}
		switch who {
		case owners:
			names = own
		case nodeOwners:
			if names = own; s.pooled() {
				names = s.Lever.Plan.NodeOwners.Owners
			}
		}
		for _, n := range names {
			if n != "" && n != owners && n != nodeOwners && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// pooled reports whether the plan is about a node of a pool.
func (s State) pooled() bool {
	return s.Lever != nil && s.Lever.Plan != nil && s.Lever.Plan.NodeOwners != nil && s.Lever.Plan.NodeOwners.Pool != ""
}

// askedAs returns what the people behind node.owners are asked as.
func (s State) askedAs(state *playbook.State) string {
	service := "owners of service " + s.Start.Service.Name
	_, onNode := state.With["node"]
	switch planned := s.Lever != nil && s.Lever.Plan != nil; {
	case s.pooled():
		return "owners of node pool " + s.Lever.Plan.NodeOwners.Pool
	case planned && s.Lever.Plan.Target.Kind == "Node":
		return fmt.Sprintf("%s: node %s is in no node pool", service, s.Lever.Plan.Target.Name)
	case !planned && onNode:
		return service + ", unless the node is in a node pool"
	default:
		return service + ": no node is changed"
	}
}

// defaultDeciders returns who decides about a change where the playbook names
// nobody.
func (s State) defaultDeciders() []string {
	if s.pooled() {
		return []string{nodeOwners}
	}
	return []string{owners}
}

package machine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestAnyDecision lets a crowd decide about a lever or a gate state while plans,
// rules and alerts change under it, gates expire and the process restarts: there
// is at most one change for one answer, and none that too few people said yes
// to, and no gate is left by a yes of too few.
func TestAnyDecision(t *testing.T) {
	set := testPlaybooks(t)
	rapid.Check(t, func(t *rapid.T) {
		d := &driver{t: t, now: epoch}
		level := rapid.SampledFrom([]playbook.Autonomy{playbook.Auto, playbook.Suggest}).Draw(t, "level")
		start := testStart(set, rapid.SampledFrom([]string{"ladder", "ladder", "asks"}).Draw(t, "playbook"), level)
		start.Start.By = rapid.SampledFrom([]string{"", "", "user:ada", "user:cap"}).Draw(t, "asked for by")
		d.state.Playbook = start.Playbook
		d.do(start)
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			d.now = d.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 30, 300}).Draw(t, "seconds")) * time.Second)
			d.do(d.crowd())
		}
		d.toEnd()
	})
}

// crowd is a command while people decide: mostly their words, and what keeps
// the run going.
func (d *driver) crowd() Command {
	t := d.t
	if c, ok := d.outcome(d.movingOutcome); ok && d.state.Gate == nil {
		return c
	}
	switch rapid.IntRange(0, 19).Draw(t, "what") {
	case 0:
		return Command{Kind: CmdTick}
	case 1:
		d.state = foldAgain(t, d.state.Playbook, d.events)
		return Command{Kind: CmdResume}
	case 2:
		a := testAlert("Slow")
		a.Status = rapid.SampledFrom([]playbook.AlertStatus{playbook.Firing, playbook.Firing, playbook.Resolved}).Draw(t, "status")
		return Command{Kind: CmdAlert, Alert: &a}
	case 3, 4:
		return Command{Kind: CmdReplan, Decision: d.decision()}
	default:
		return Command{Kind: CmdDecide, Decision: d.decision()}
	}
}

// movingOutcome is a good one of a world in which the target moves at times.
func (d *driver) movingOutcome(e Effect) Outcome {
	out := d.goodOutcome(e)
	if out.Plan != nil && rapid.IntRange(0, 3).Draw(d.t, "moved") == 0 {
		out.Plan.Target.Generation++
	}
	return out
}

// ballot is what people said, counted from the commands they gave and the
// events that answered, by other means than the machine's own.
type ballot struct {
	terms   Terms           // as the guards passed last
	gate    string          // the question the yes-men answered
	digest  string          // of the plan asked about
	yes     []Decision      // since the question was opened
	decided bool            // approved
	applied map[string]bool // questions whose answer was used
}

// count keeps the books of the ballot.
func (d *driver) count(c Command, e Event) {
	b := &d.ballot
	switch e.Kind {
	case GuardsPassed:
		b.terms = Terms{}
		if e.Terms != nil {
			b.terms = *e.Terms
		}
	case GateOpened:
		b.gate, b.digest, b.yes, b.decided = e.Gate.ID, e.Digest, nil, false
	case GateVoted, GateDecided:
		said := *c.Decision
		if said.Approve {
			b.yes = append(b.yes, said)
		}
		b.decided = e.Kind == GateDecided && said.Approve
	case GateVoided, GateExpired, GateWithdrawn, StateEntered:
		b.yes, b.decided = nil, false
	case Applied:
		if b.applied == nil {
			b.applied = map[string]bool{}
		}
		if b.decided && b.applied[b.gate] {
			d.t.Fatalf("one answer, to %s, let two changes be applied", b.gate)
		}
		b.applied[b.gate] = true
	}
}

// checkBallot holds an apply of that digest, or a gate left by a yes, to
// everything that people have to say yes to.
func (d *driver) checkBallot(digest string, level playbook.Autonomy) {
	s, b := d.state, d.ballot
	if b.terms.Cap != nil && level > b.terms.Cap.Level {
		d.t.Fatalf("an apply at level %s over a cap of %s", level, b.terms.Cap.Level)
	}
	needs := slices.Clone(b.terms.Needs)
	st := s.Playbook.State(s.Current)
	if st.Kind == playbook.StateGate {
		needs = append(needs, Need{From: []string{"user:ada"}, Quorum: 1})
	} else if level < playbook.Auto || (st.Approve != nil && st.Approve.Always) {
		needs = append(needs, Need{From: []string{"user:ada", "group:ml", "group:sre"}, Quorum: 1}) // those of every lever of the test playbooks
	}
	if len(needs) == 0 {
		return
	}
	if !b.decided || b.digest != digest {
		d.t.Fatalf("a yes to %q is used, asked was about %q, approved %v", digest, b.digest, b.decided)
	}
	last := b.yes[len(b.yes)-1]
	for _, n := range needs {
		people := map[string]bool{}
		for _, v := range b.yes {
			second := !v.Person && (n.Quorum > 1 || s.Start.By != "") // of somebody who votes or started the run, perhaps
			if member(n.From, v) && v.By != s.Start.By && (v.Strong || !n.Strong) && !v.BreakGlass && !second {
				people[v.By] = true
			}
		}
		alone := last.BreakGlass && last.Reason != "" && (last.By != s.Start.By && (last.Person || s.Start.By == "") || b.terms.GlassOwn) && member(b.terms.BreakGlass, last) && (last.Strong || !n.Strong)
		if len(people) < n.Quorum && !alone {
			d.t.Fatalf("a yes with %d of %d people of %v; said was %+v", len(people), n.Quorum, n.From, b.yes)
		}
	}
}

// member is who the people of these tests are.
func member(list []string, d Decision) bool {
	for _, who := range list {
		if who == d.By || slices.Contains(d.Groups, who) {
			return true
		}
	}
	return false
}

// decision is somebody's word, often one that counts.
func (d *driver) decision() *Decision {
	t := d.t
	by := &Decision{
		By:         "user:" + rapid.SampledFrom([]string{"ada", "ada", "bob", "cap", "eve"}).Draw(t, "by"),
		Approve:    rapid.IntRange(0, 9).Draw(t, "approve") > 0,
		Digest:     rapid.SampledFrom([]string{"", "", "", "", "", "", "sha256:0"}).Draw(t, "digest"),
		Person:     rapid.IntRange(0, 4).Draw(t, "declared") > 0,
		Strong:     rapid.Bool().Draw(t, "strong"),
		BreakGlass: rapid.IntRange(0, 4).Draw(t, "glass") == 0,
		Reason:     rapid.SampledFrom([]string{"", "because"}).Draw(t, "reason"),
	}
	switch by.By {
	case "user:ada":
		by.Groups = []string{"group:oncall"}
	case "user:bob":
		by.Groups = []string{"group:oncall", "group:ml"}
	case "user:cap":
		by.Groups = []string{"group:captains"}
	}
	if d.state.Gate != nil && rapid.IntRange(0, 2).Draw(t, "names the question") > 0 {
		by.Gate = d.state.Gate.ID
	}
	return by
}

// anyTerms are those of a policy that changes all the time, or of none.
func (d *driver) anyTerms() *Terms {
	t := d.t
	kind := rapid.IntRange(0, 5).Draw(t, "terms")
	if kind < 2 {
		return nil
	}
	terms := &Terms{Remind: time.Minute, Tiers: []Tier{{After: 2 * time.Minute, To: []string{"pager"}}}}
	if kind > 2 {
		terms.Needs = []Need{{
			Rule: "policy", From: []string{"group:oncall"}, Strong: rapid.Bool().Draw(t, "wants strong"),
			Quorum: rapid.IntRange(1, 2).Draw(t, "quorum"),
		}}
	}
	if rapid.Bool().Draw(t, "may break the glass") {
		terms.BreakGlass, terms.GlassOwn = []string{"group:captains"}, rapid.Bool().Draw(t, "also the starter")
	}
	if level := rapid.IntRange(0, 5).Draw(t, "cap"); level < 3 {
		terms.Cap = &Cap{Rule: "policy", Level: []playbook.Autonomy{playbook.Suggest, playbook.Auto, playbook.Observe}[level]}
	}
	return terms
}

// Where everybody is the same one nobody can approve a run started by hand: the
// question and the refusal say so, and what to do.
func TestAnonymousApprovesNoneOfItsOwn(t *testing.T) {
	n := Need{Rule: "playbook p, state s", From: []string{Anonymous}, Quorum: 1}
	const says = "name user:anonymous in break_glass"
	if why := n.Unreachable(Start{By: Anonymous}); !strings.Contains(why, says) {
		t.Errorf("the question says %q", why)
	}
	g := Gate{Needs: []Need{n}, NotBy: Anonymous}
	if err := g.Refuse(Decision{By: Anonymous, Approve: true}); !errors.Is(err, ErrNotAllowed) || !strings.Contains(err.Error(), says) {
		t.Errorf("the refusal says %v", err)
	}
	g.NotBy = "user:ada"
	if err := g.Refuse(Decision{By: "user:ada", Approve: true}); !errors.Is(err, ErrNotAllowed) || strings.Contains(err.Error(), says) {
		t.Errorf("to somebody with a name it says %v", err)
	}
	g.BreakGlass, g.GlassOwn, g.NotBy = []string{Anonymous}, true, Anonymous
	if err := g.Refuse(Decision{By: Anonymous, Approve: true, BreakGlass: true, Reason: "alone here"}); err != nil {
		t.Errorf("what it says does not help: %v", err)
	}
}

// Where nobody has to authenticate, whoever approves a run that was started there may
// have started it.
func TestNobodyApprovesARunOfAnonymous(t *testing.T) {
	g := Gate{Needs: []Need{{Rule: "playbook p, state s", From: []string{"user:ada"}, Quorum: 1}}, NotBy: Anonymous}
	if err := g.Refuse(Decision{By: "user:ada", Person: true, Approve: true}); !errors.Is(err, ErrNotAllowed) || !strings.Contains(err.Error(), "may be the same person") {
		t.Errorf("the refusal says %v", err)
	}
}

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// approval is the effect require_approval: who must approve.
type approval struct {
	quorum     int
	from       []string
	within     time.Duration // 0: not set by the rule
	remind     time.Duration // 0: no reminder
	tiers      []machine.Tier
	strong     bool
	breakGlass []string
	glassOwn   bool // they may also break the glass for their own runs
}

func (a *approval) judge(*Input) finding { return finding{need: a} }

func (a *approval) String() string {
	text := fmt.Sprintf("%d of %s", a.quorum, strings.Join(a.from, ", "))
	if a.strong {
		text += ", strongly authenticated"
	}
	return text
}

// require adds a rule's demand to the terms. Times only get shorter; needs and
// tiers only grow. Every rule that asks must name the people who may break the
// glass, also for their own run. first is set if there was no need before.
func (a *approval) require(t *machine.Terms, n machine.Need, first bool) {
	same := func(o machine.Need) bool { return o.Rule == n.Rule && slices.Equal(o.From, n.From) }
	if i := slices.IndexFunc(t.Needs, same); i < 0 {
		t.Needs = append(t.Needs, n)
	} else {
		t.Needs[i].For = union(t.Needs[i].For, n.For)
	}
	t.Within = shorter(t.Within, a.within)
	t.Remind = shorter(t.Remind, a.remind)
	for _, tier := range a.tiers {
		t.Tiers = addTier(t.Tiers, tier)
	}
	t.GlassOwn = a.glassOwn && (first || t.GlassOwn)
	if first {
		t.BreakGlass = slices.Clone(a.breakGlass)
		return
	}
	t.BreakGlass = slices.DeleteFunc(t.BreakGlass, func(who string) bool { return !slices.Contains(a.breakGlass, who) })
}

// union returns the words of either list.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// shorter returns the shorter of two times; 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// addTier inserts a tier in order of time and merges it with a tier of the same
// time.
func addTier(tiers []machine.Tier, t machine.Tier) []machine.Tier {
	i, there := slices.BinarySearchFunc(tiers, t.After, func(o machine.Tier, after time.Duration) int { return cmp.Compare(o.After, after) })
	if !there {
		return slices.Insert(tiers, i, machine.Tier{After: t.After, To: slices.Clone(t.To)})
	}
	for _, channel := range t.To {
		if !slices.Contains(tiers[i].To, channel) {
			tiers[i].To = append(tiers[i].To, channel)
		}
	}
	return tiers
}

package api

import (
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

func approvalOf(c machine.Consent) *Approval {
	if c.Approved == nil && len(c.Votes) == 0 {
		return nil
	}
	return &Approval{Approved: one(c.Approved, decisionOf), Votes: each(c.Votes, decisionOf), GoodUntil: utc(c.GoodUntil)}
}

func gateOf(g machine.Gate) Gate {
	return Gate{
		Gate: g.ID, Digest: g.Digest, Opened: g.Opened.UTC(), Deadline: g.Deadline.UTC(), OnExpiry: string(g.OnExpiry), Text: g.Text,
		TakeBack: g.Undo, Unanswered: string(g.Unanswered), Follows: some(g.Follows, func(f machine.FateLine) Follow { return Follow{string(f.Verdict), f.Text} }),
		Needs: each(g.Needs, NeedOf), BreakGlass: g.BreakGlass, NotBy: g.NotBy, GlassOwn: g.GlassOwn,
		RemindAt: utc(g.RemindAt), Reminded: g.Reminded, Tiers: some(g.Tiers, TierOf), Told: g.Told, Votes: each(g.Votes, decisionOf),
	}
}

func (g Gate) machine() machine.Gate {
	return machine.Gate{
		ID: g.Gate, Digest: g.Digest, Opened: g.Opened, Deadline: g.Deadline, OnExpiry: playbook.Expiry(g.OnExpiry), Text: g.Text,
		Undo: g.TakeBack, Unanswered: machine.Consequence(g.Unanswered),
		Follows: some(g.Follows, func(f Follow) machine.FateLine {
			return machine.FateLine{Verdict: machine.Verdict(f.Verdict), Text: f.Text}
		}),
		Needs: some(g.Needs, func(n Need) machine.Need { return machine.Need(n) }), BreakGlass: g.BreakGlass, NotBy: g.NotBy, GlassOwn: g.GlassOwn,
		RemindAt: g.RemindAt, Reminded: g.Reminded, Told: g.Told, Votes: some(g.Votes, Decision.machine),
		Tiers: some(g.Tiers, func(t Tier) machine.Tier { return machine.Tier{After: parseDuration(t.After), To: t.To} }),
	}
}

// NeedOf returns one approval that a gate needs.
func NeedOf(n machine.Need) Need {
	return Need{Rule: n.Rule, From: list(n.From), Among: n.Among, As: n.As, Quorum: n.Quorum, Strong: n.Strong, For: n.For, Unknown: n.Unknown}
}

// TierOf returns who is told after some time.
func TierOf(t machine.Tier) Tier {
	return Tier{After: playbook.FormatDuration(t.After), To: list(t.To)}
}

func decisionOf(d machine.Decision) Decision {
	return Decision{
		Gate: d.Gate, Digest: d.Digest, Approve: d.Approve, By: d.By, Groups: d.Groups,
		Person: d.Person, Channel: d.Channel, Strong: d.Strong, BreakGlass: d.BreakGlass, Reason: d.Reason, Lacks: d.Lacks,
	}
}

func (d Decision) machine() machine.Decision {
	return machine.Decision{
		Gate: d.Gate, Digest: d.Digest, Approve: d.Approve, By: d.By, Groups: d.Groups,
		Person: d.Person, Channel: d.Channel, Strong: d.Strong, BreakGlass: d.BreakGlass, Reason: d.Reason, Lacks: d.Lacks,
	}
}

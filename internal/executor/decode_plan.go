package executor

import (
	"github.com/inference-responder/responder/internal/executor/machine"
)

func (d *decoder) plan(p *machine.Plan) *problem {
	fields := [...]string{
		"step", "target", "summary", "diff", "undo", "risk", "class", "back", "why", "locks", "lacks", "unseen", "asks", "good", "payload", "mergeWithin", "staged", "ends",
		"stepwise", "stops", "unrepeatable", "rehold", "nodeOwners", "touches", "capacity", "others", "rest", "pool", "shares", "notes", "loading", "rounds", "lowest", "beside",
	}
	return d.object(fields[:], func(field string) *problem {
		switch field {
		case "step":
			return text(d, &p.Step)
		case "target":
			return d.target(&p.Target)
		case "summary":
			return text(d, &p.Summary)
		case "diff":
			return list(d, &p.Diff, &d.changes, d.change)
		case "undo":
			return text(d, &p.Undo)
		case "risk":
			return text(d, &p.Risk)
		case "class":
			return text(d, &p.Class)
		case "back":
			return d.values(&p.Back)
		case "why":
			return text(d, &p.Why)
		case "locks":
			return d.texts(&p.Locks)
		case "lacks":
			return text(d, &p.Lacks)
		case "unseen":
			return text(d, &p.Unseen)
		case "asks":
			return text(d, &p.Asks)
		case "good":
			return d.other(&p.Good)
		case "payload":
			return d.raw(&p.Payload)
		case "mergeWithin":
			return whole(d, &p.MergeWithin)
		case "staged":
			return whole(d, &p.Staged)
		case "stepwise":
			return d.truth(&p.Stepwise)
		case "stops":
			return d.truth(&p.Stops)
		case "loading":
			return whole(d, &p.Loading)
		case "rounds":
			return whole(d, &p.Rounds)
		case "ends":
			return text(d, &p.Ends)
		case "unrepeatable":
			return d.truth(&p.Unrepeatable)
		case "rehold":
			return d.other(&p.Rehold)
		case "nodeOwners":
			return d.other(&p.NodeOwners)
		case "touches":
			return d.other(&p.Touches)
		case "capacity":
			return d.capacity(&p.Capacity)
		case "others":
			return d.other(&p.Others)
		case "rest":
			return d.other(&p.Rest)
		case "pool":
			return d.other(&p.Pool)
		case "shares":
			return d.other(&p.Shares)
		case "notes":
			return d.texts(&p.Notes)
		case "lowest":
			return d.other(&p.Lowest)
		default: // beside
			return d.other(&p.Drift)
		}
	})
}

func (d *decoder) target(t *machine.Target) *problem {
	fields := [...]string{"apiVersion", "kind", "namespace", "name", "uid", "generation"}
	return d.object(fields[:], func(field string) *problem {
		switch field {
		case "apiVersion":
			return text(d, &t.APIVersion)
		case "kind":
			return text(d, &t.Kind)
		case "namespace":
			return text(d, &t.Namespace)
		case "name":
			return text(d, &t.Name)
		case "uid":
			return text(d, &t.UID)
		default: // generation
			return whole(d, &t.Generation)
		}
	})
}

func (d *decoder) change(c *machine.FieldChange) *problem {
	return d.object([]string{"path", "from", "to"}, func(field string) *problem {
		switch field {
		case "path":
			return text(d, &c.Path)
		case "from":
			return text(d, &c.From)
		default: // to
			return text(d, &c.To)
		}
	})
}

func (d *decoder) capacity(c *machine.Capacity) *problem {
	fields := [...]string{"unknown", "readyNow", "lowestReady", "readyAfter", "tokensPerSecond"}
	return d.object(fields[:], func(field string) *problem {
		switch field {
		case "unknown":
			return d.truth(&c.Unknown)
		case "readyNow":
			return whole(d, &c.ReadyNow)
		case "lowestReady":
			return whole(d, &c.LowestReady)
		case "readyAfter":
			return whole(d, &c.ReadyAfter)
		default: // tokensPerSecond
			return pointer(d, &c.TokensPerSecond, d.number)
		}
	})
}

func (d *decoder) gate(g *machine.Gate) *problem {
	fields := [...]string{
		"id", "digest", "opened", "deadline", "onExpiry", "text", "undo", "unanswered", "follows", "needs", "breakGlass", "notBy", "glassOwn", "remindAt", "reminded", "tiers", "told", "votes",
	}
	return d.object(fields[:], func(field string) *problem {
		switch field {
		case "id":
			return text(d, &g.ID)
		case "digest":
			return text(d, &g.Digest)
		case "opened":
			return d.at(&g.Opened)
		case "deadline":
			return d.at(&g.Deadline)
		case "onExpiry":
			return text(d, &g.OnExpiry)
		case "text":
			return text(d, &g.Text)
		case "undo":
			return d.truth(&g.Undo)
		case "unanswered":
			return text(d, &g.Unanswered)
		case "follows":
			return d.other(&g.Follows)
		case "needs":
			return list(d, &g.Needs, &d.needs, d.need)
		case "breakGlass":
			return d.texts(&g.BreakGlass)
		case "notBy":
			return text(d, &g.NotBy)
		case "glassOwn":
			return d.truth(&g.GlassOwn)
		case "remindAt":
			return d.at(&g.RemindAt)
		case "reminded":
			return d.truth(&g.Reminded)
		case "tiers":
			return d.other(&g.Tiers)
		case "told":
			return whole(d, &g.Told)
		default: // votes
			return d.other(&g.Votes)
		}
	})
}

func (d *decoder) need(n *machine.Need) *problem {
	return d.object([]string{"rule", "from", "among", "as", "quorum", "strong", "for"}, func(field string) *problem {
		switch field {
		case "rule":
			return text(d, &n.Rule)
		case "from":
			return d.texts(&n.From)
		case "among":
			return d.texts(&n.Among)
		case "as":
			return text(d, &n.As)
		case "quorum":
			return whole(d, &n.Quorum)
		case "strong":
			return d.truth(&n.Strong)
		default: // for
			return d.texts(&n.For)
		}
	})
}

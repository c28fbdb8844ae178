package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// subject is the input of a rule: one GPU and what it is judged against.
type subject struct {
	snap  gpu.Snapshot
	gpu   gpu.GPU // without the values that cannot be true
	peers peers
	now   time.Time
	odd   []gpu.ReadError // the values that cannot be true
	lacks []gpu.ReadError // the values that are not known
	twin  string          // another node that says that it has this GPU; empty: none does
}

// Nodes returns the verdict about every GPU of every node. The snapshots are of
// nodes that do the same work, such as those of one service: GPUs of the same
// product are compared with each other. Readings that are too old or too far ahead
// of now are not believed.
func Nodes(now time.Time, snaps ...gpu.Snapshot) []NodeJudgement {
	out := make([]NodeJudgement, 0, len(snaps))
	all := newFleet(now, snaps)
	for i, s := range snaps {
		n := NodeJudgement{Node: s.Node, Source: s.Source, TakenAt: s.TakenAt, Verdict: Healthy, GPUs: []Judgement{}}
		n.Reasons = reasons(nodeRules, subject{snap: s, now: now}, func(x sign) {
			n.Verdict = worst(n.Verdict, x.verdict)
			if x.reset && n.Repair == "" {
				n.Repair = x.text
			}
		})
		for _, g := range s.GPUs {
			believed, odd := believe(g)
			j := judgeGPU(subject{snap: s, gpu: believed, peers: all.peersOf(believed, i), now: now, odd: odd, lacks: gpu.Missing(believed), twin: all.twinOf(g, i, snaps)})
			n.GPUs = append(n.GPUs, j)
			n.Verdict = worst(n.Verdict, j.Verdict)
		}
		out = append(out, n)
	}
	return out
}

// Unseen returns the verdict about a node without a usable snapshot: unknown, and
// why.
func Unseen(node, why string) NodeJudgement {
	return NodeJudgement{
		Node: node, Verdict: Uncertain, GPUs: []Judgement{},
		Reasons: []Reason{{Rule: "no-answer", Verdict: Uncertain, Text: "no readings of the node's GPUs: " + why, Source: sourceOwn}},
	}
}

func judgeGPU(u subject) Judgement {
	j := Judgement{UUID: u.gpu.UUID, Index: u.gpu.Index, Name: u.gpu.Name, Verdict: Healthy}
	var asks sign
	j.Reasons = reasons(gpuRules, u, func(s sign) {
		j.Verdict = worst(j.Verdict, s.verdict)
		if needs := s.reset || s.rma; needs && (j.Repair == "" || s.rma && !asks.rma || s.rma == asks.rma && s.verdict.WorseThan(asks.verdict)) {
			asks, j.Repair = s, s.text
		}
		j.Reset, j.RMA = j.Reset || s.reset, j.RMA || s.rma
		if throttleRank[s.throttle] > throttleRank[j.Throttle] {
			j.Throttle = s.throttle
		}
	})
	return j
}

// throttleRank orders the kinds of throttling. Hardware slowdown is set along with
// the other two, so it ranks lowest.
var throttleRank = map[Throttle]int{"": 0, Hardware: 1, PowerBrake: 2, Thermal: 3}

// reasons runs rules and returns their findings, worst first.
func reasons(rules []rule, u subject, each func(sign)) []Reason {
	out := []Reason{}
	for _, r := range rules {
		for _, s := range r.look(u) {
			out = append(out, Reason{Rule: r.id, Verdict: s.verdict, Text: s.text, Evidence: s.evidence, Source: r.source, Since: s.since})
			each(s)
		}
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.Verdict.rank(), a.Verdict.rank()) })
	return out
}

func worst(a, b Verdict) Verdict {
	if b.WorseThan(a) {
		return b
	}
	return a
}

// clock formats a time of day as the runbooks do, with the date if it is not
// today.
func (u subject) clock(t time.Time) string {
	t = t.UTC()
	if u.now.UTC().Sub(t) < 24*time.Hour {
		return t.Format("15:04") + " UTC"
	}
	return t.Format("2006-01-02 15:04") + " UTC"
}

// since returns " since 02:14 UTC", or nothing when the time is not known.
func (u subject) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + u.clock(t)
}

// ongoing is like since, for what the minutes show. What the oldest minute shows
// may have begun before it.
func (u subject) ongoing(t time.Time) string {
	if len(u.gpu.Minutes) > 0 && t.Equal(u.gpu.Minutes[0].Start) {
		return u.since(t) + " or before"
	}
	return u.since(t)
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Answers is [Nodes] for the answers of several nodes that do the same work. A
// failed answer, or one about another node, makes its node unknown.
func Answers(now time.Time, answers []gpu.Answer) []NodeJudgement {
	out := make([]NodeJudgement, len(answers))
	var snaps []gpu.Snapshot
	var places []int
	for i, a := range answers {
		switch {
		case a.Err != nil:
			out[i] = Unseen(a.Node, a.Err.Error())
		case a.Snapshot.Node != a.Node:
			out[i] = Unseen(a.Node, fmt.Sprintf("the answer is about node %.60q", a.Snapshot.Node))
		default:
			snaps, places = append(snaps, a.Snapshot), append(places, i)
		}
	}
	for k, j := range Nodes(now, snaps...) {
		out[places[k]] = j
	}
	return out
}

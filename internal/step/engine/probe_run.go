package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// goldenRun is one probe of a service.
type goldenRun struct {
	with     goldenWith
	set      golden.Settings
	prompts  []golden.Prompt
	service  playbook.Service
	now      time.Time
	workload kube.Workload
	note     string // what is not known of the replicas; empty: nothing

	pods    []kube.Pod // that are asked
	beyond  []kube.Pod // ready ones that are not
	gateway golden.Answer
	answers []golden.Answer // of pods, in their order
	soon    bool            // one of pods was asked less than probe.every ago, by this or another run
}

// choose selects the replicas to ask: of each revision in turn, those first that were
// not asked for longest.
func (r *goldenRun) choose(p *golden.Probes) {
	of := map[int64][]kube.Pod{}
	var revisions []int64
	for _, pod := range r.workload.Pods {
		if !pod.Ready || pod.Worker {
			continue
		}
		if of[pod.Revision] == nil {
			revisions = append(revisions, pod.Revision)
		}
		of[pod.Revision] = append(of[pod.Revision], pod)
	}
	slices.SortFunc(revisions, func(a, b int64) int { return cmp.Compare(b, a) })
	for _, pods := range of {
		slices.SortFunc(pods, func(a, b kube.Pod) int {
			return cmp.Or(p.LastAsked(r.service.Name, a.Name).Compare(p.LastAsked(r.service.Name, b.Name)), strings.Compare(a.Name, b.Name))
		})
	}
	for i := 0; ; i++ {
		some := false
		for _, n := range revisions {
			if i >= len(of[n]) {
				continue
			}
			some = true
			if len(r.pods) < r.set.Replicas {
				r.pods = append(r.pods, of[n][i])
			} else {
				r.beyond = append(r.beyond, of[n][i])
			}
		}
		if !some {
			return
		}
	}
}

// ask asks the endpoint and the chosen replicas, side by side.
func (r *goldenRun) ask(ctx context.Context, p *golden.Probes) {
	var all sync.WaitGroup
	r.answers = make([]golden.Answer, len(r.pods))
	all.Go(func() { r.gateway = p.AskGateway(ctx, r.service.Name, r.prompts, r.now) })
	for i, pod := range r.pods {
		one := golden.Replica{Name: pod.Name, IP: pod.IP, Port: enginePort(pod, r.service.Container)}
		all.Go(func() { r.answers[i] = p.AskReplica(ctx, r.service.Name, one, r.prompts, r.now) })
	}
	all.Wait()
	r.soon = slices.ContainsFunc(r.pods, func(pod kube.Pod) bool { return r.now.Sub(p.LastAsked(r.service.Name, pod.Name)) < r.set.Every })
}

// engineContainer returns the container of the engine: the one of that name, else the
// first.
func engineContainer(pod kube.Pod, name string) (kube.PodContainer, bool) {
	for _, c := range pod.Containers {
		if name == "" || c.Name == name {
			return c, true
		}
	}
	return kube.PodContainer{}, false
}

// enginePort returns the port that the engine of a pod listens on, as far as the pod
// declares it; 0: it does not.
func enginePort(pod kube.Pod, container string) int {
	c, _ := engineContainer(pod, container)
	return cmp.Or(c.Port, c.Readiness.Port, c.Startup.Port)
}

// judge turns the answers into evidence.
func (r *goldenRun) judge(digest string) goldenOut {
	out := emptyGolden("")
	out.Prompts, out.Golden, out.Skipped = len(r.prompts), digest, len(r.beyond)
	differed, changed := make([]bool, len(r.prompts)), make([]bool, len(r.prompts))
	compared := make([]bool, len(r.prompts))
	var firsts, steps []float64
	for i, pod := range r.pods {
		a := r.answers[i]
		one := goldenReplica{Name: pod.Name, Node: pod.Node, Revision: pod.Revision, State: string(a.State), Why: a.Why, Answered: a.State == golden.Answered, Status: a.Status}
		v := r.verdict(a)
		for n, m := range v.matches {
			differed[n], changed[n], compared[n] = differed[n] || m.At >= 0, changed[n] || m.Prompt, compared[n] || m.Compared
		}
		one.Matched, one.Differed, one.DifferedAt, one.Wrong = v.matched, v.differed, v.at, v.wrong
		one.TTFT, one.ITL = known(milli(median(v.ttft))), known(milli(median(v.itl)))
		firsts, steps = append(firsts, v.ttft...), append(steps, v.itl...)
		out.count(one, v)
		out.Replicas = append(out.Replicas, one)
	}
	for _, pod := range r.beyond {
		out.Replicas = append(out.Replicas, goldenReplica{Name: pod.Name, Node: pod.Node, Revision: pod.Revision, State: string(golden.Skipped), Why: "probe.replicas are asked already", DifferedAt: -1})
	}
	for n := range r.prompts {
		switch {
		case differed[n]:
			out.Differed++
			out.Differing = append(out.Differing, r.prompts[n].Name)
		case compared[n]:
			out.Matched++
		}
		if changed[n] {
			out.PromptChanged++
		}
	}
	out.TTFTP50, out.ITLP50 = known(milli(median(firsts))), known(milli(median(steps)))
	if len(firsts) > 0 {
		out.TTFTMax = known(milli(slices.Max(firsts)))
	}
	v := r.verdict(r.gateway)
	out.Gateway = goldenGateway{
		State: string(r.gateway.State), Answered: r.gateway.State == golden.Answered, Status: r.gateway.Status, Why: r.gateway.Why,
		TTFT: known(milli(median(v.ttft))), Matched: v.matched, Differed: v.differed, DifferedAt: v.at, Wrong: v.wrong,
	}
	out.Agrees = r.agree()
	out.Probed = out.Asked > 0 || r.gateway.State != golden.Skipped
	out.Soon = !out.Probed && r.soon
	out.blame(r.workload.Revision)
	out.Why = r.why(out)
	out.sort()
	return out
}

// verdict is what the answers of one target come to.
type verdict struct {
	matches           []golden.Match
	matched, differed int
	at                int // the first token that differs; -1: none
	wrong             bool
	ttft, itl         []float64 // seconds
}

func (r *goldenRun) verdict(a golden.Answer) verdict {
	v := verdict{at: -1}
	expected, early := 0, 0
	for _, p := range r.prompts {
		if p.Expect != nil {
			expected++
		}
	}
	for i, c := range a.Completions {
		m := r.prompts[i].Compare(c, r.set.MaxTokens)
		v.matches = append(v.matches, m)
		v.ttft = append(v.ttft, c.TTFT.Seconds())
		if c.ITL > 0 {
			v.itl = append(v.itl, c.ITL.Seconds())
		}
		switch {
		case !m.Compared:
			continue
		case m.At < 0:
			v.matched++
			continue
		}
		v.differed++
		if v.at < 0 || m.At < v.at {
			v.at = m.At
		}
		if m.At < r.with.Within {
			early++
		}
	}
	v.wrong = early > 0 && early >= min(r.with.Least, expected)
	return v
}

// agree reports whether all replicas began every prompt alike.
func (r *goldenRun) agree() bool {
	for n := range r.prompts {
		var first *golden.Completion
		for _, a := range r.answers {
			if n >= len(a.Completions) {
				continue
			}
			if first == nil {
				first = &a.Completions[n]
			} else if at := first.Differ(a.Completions[n]); at >= 0 && at < r.with.Within {
				return false
			}
		}
	}
	return true
}

// count adds one replica.
func (out *goldenOut) count(one goldenReplica, v verdict) {
	switch golden.State(one.State) {
	case golden.Answered:
		out.Answered++
	case golden.Hung:
		out.Hung++
		if out.HungPod = one.Name; out.Hung > 1 {
			out.HungPod = ""
		}
	case golden.Failed:
		out.Failed++
	case golden.Skipped:
		out.Skipped++
	}
	if golden.State(one.State) != golden.Skipped {
		out.Asked++
	}
	if v.matched+v.differed == 0 {
		return
	}
	out.Compared++
	if v.at >= 0 && (out.DifferedAt < 0 || v.at < out.DifferedAt) {
		out.DifferedAt = v.at
	}
	if v.wrong {
		out.WrongReplicas, out.WrongPod = out.WrongReplicas+1, one.Name
		if !slices.Contains(out.WrongRevisions, one.Revision) {
			out.WrongRevisions = append(out.WrongRevisions, one.Revision)
		}
		return
	}
	if golden.State(one.State) != golden.Answered {
		return // what it would have answered to the other prompts is not known
	}
	out.RightReplicas++
	if !slices.Contains(out.RightRevisions, one.Revision) {
		out.RightRevisions = append(out.RightRevisions, one.Revision)
	}
}

// blame names the replica or the revision that is wrong.
func (out *goldenOut) blame(current int64) {
	out.Wrong = out.WrongReplicas > 0
	if out.WrongReplicas != 1 || out.RightReplicas == 0 {
		out.WrongPod = ""
	}
	slices.Sort(out.WrongRevisions)
	slices.Sort(out.RightRevisions)
	if len(out.WrongRevisions) == 1 && !slices.Contains(out.RightRevisions, out.WrongRevisions[0]) {
		out.WrongRevision = out.WrongRevisions[0]
	}
	out.WrongCurrent = out.WrongRevision != 0 && out.WrongRevision == current
}

func (out *goldenOut) sort() {
	rank := func(r goldenReplica) int {
		switch {
		case r.State == string(golden.Hung):
			return 0
		case r.State == string(golden.Failed):
			return 1
		case r.Wrong:
			return 2
		case r.State == string(golden.Skipped):
			return 3
		}
		return 4
	}
	slices.SortStableFunc(out.Replicas, func(a, b goldenReplica) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	out.Replicas = out.Replicas[:min(len(out.Replicas), maxReplicas)]
}

// median of a copy; NaN of nothing.
func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	all = slices.Sorted(slices.Values(all))
	return all[(len(all)-1)/2]
}

// milli rounds seconds to a tenth of a millisecond.
func milli(s float64) float64 { return math.Round(s*1e4) / 1e4 }

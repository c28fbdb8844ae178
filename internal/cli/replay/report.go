package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// Report is the answer of a replay, with what only its text form shows.
type Report struct {
	api.Replay
	runs []*run // one for each of Runs
}

// notes say what no replay covers.
func notes() []string {
	return []string{
		"a run stops at its first change: after it the past would have been another",
		"guards, policy and approvals are not asked, and plans are not computed: a change that is proposed here may be refused then",
		"services, objectives and playbooks are those of now; a check takes no time",
	}
}

func newReport(o *Options, chosen *selection, results []result, interrupted bool) Report {
	r := Report{Replay: api.Replay{
		From: o.From.UTC(), To: o.To.UTC(), Interrupted: interrupted, Episodes: len(chosen.episodes),
		Runs: []api.ReplayRun{}, Without: []api.ReplayWithout{}, Playbooks: []api.ReplayPlaybook{}, Notes: notes(),
	}}
	if chosen.outside > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("left out, since they began before or after the span: %s", runview.Count(chosen.outside, "episode")))
	}
	if o.Querier == nil {
		r.Notes = append(r.Notes, "no Prometheus is configured: what it would have answered is unknown")
	}
	blank := 0
	for _, one := range results {
		r.Queries += one.queries
		if one.base == nil {
			continue
		}
		for _, x := range one.base.runs {
			if x.over() {
				r.runs = append(r.runs, x)
			}
			if x.past.blank() {
				blank++
			}
		}
	}
	if blank > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("Prometheus had none of the series that %s asked for: are they older than its retention?", runview.Count(blank, "run")))
	}
	slices.SortStableFunc(r.runs, func(a, b *run) int {
		return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.s.Start.Service.Name, b.s.Start.Service.Name))
	})
	for _, x := range r.runs {
		r.Runs = append(r.Runs, runOf(x, chosen.episodes))
	}
	r.without(chosen, results)
	r.summarise(results)
	if o.Against != nil {
		r.Compared = compare(chosen, results)
	}
	return r
}

// WithEvents adds the events of the runs.
func (r *Report) WithEvents() {
	for i, x := range r.runs {
		for n, e := range x.events {
			r.Runs[i].Events = append(r.Runs[i].Events, api.EventOf(uint64(n), e))
		}
	}
}

func runOf(r *run, episodes map[string]*episode) api.ReplayRun {
	start := r.s.Start
	out := api.ReplayRun{
		Run: r.id, Playbook: start.Playbook, Service: start.Service.Name, Began: r.first.UTC(), Alert: api.AlertOf(start.Alert),
		Episodes: r.s.Episodes.Len(), DivertedFrom: start.DivertedFrom, Path: r.path(), Steps: []api.PlaybookStep{},
		End: r.end.kind, Message: r.end.message, Took: playbook.FormatDuration(r.end.at.Sub(r.first).Round(time.Second)), Unknown: r.unknown(),
	}
	for _, e := range r.events {
		if e.Kind == machine.EdgeTaken {
			out.Steps = append(out.Steps, api.PlaybookStep{After: playbook.FormatDuration(e.At.Sub(r.first).Round(time.Second)), From: e.State, To: e.To, Why: e.Message})
		}
	}
	if r.end.kind == EndProposed {
		out.Lever = &api.ReplayLever{State: r.end.state, Step: r.end.step, With: r.end.with}
	}
	if e := episodes[start.Alert.Episode()]; e != nil {
		if d, ok := e.lasted(); ok {
			out.Lasted = playbook.FormatDuration(d.Round(time.Second))
		}
	}
	return out
}

// path returns the states that the run entered, up to its end.
func (r *run) path() []string {
	out := []string{}
	for _, e := range r.events {
		if e.Kind == machine.StateEntered {
			out = append(out, e.State)
		}
	}
	return out
}

// without adds what became of episodes that had a part in no run, by alert.
func (r *Report) without(chosen *selection, results []result) {
	type key struct{ alert, decision, playbook string }
	found := map[key]*api.ReplayWithout{}
	for _, e := range slices.SortedFunc(maps.Values(chosen.episodes), first) {
		for _, one := range results {
			if one.base == nil {
				continue
			}
			f, ok := one.base.became[e.alert.Episode()]
			if !ok || f.started() {
				continue
			}
			k := key{e.alert.Labels["alertname"], strings.TrimPrefix(f.kind, "alert."), f.Playbook}
			if found[k] == nil {
				found[k] = &api.ReplayWithout{Alert: k.alert, Decision: k.decision, Playbook: k.playbook, Reason: f.Reason}
			}
			found[k].Episodes++
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(found), func(a, b key) int {
		return cmp.Or(found[b].Episodes-found[a].Episodes, cmp.Compare(a.alert, b.alert), cmp.Compare(a.decision, b.decision))
	}) {
		r.Without = append(r.Without, *found[k])
	}
}

// started reports whether the episode had a part in a run.
func (f fate) started() bool {
	return f.kind == dispatch.KindMatched || f.kind == dispatch.KindCoalesced
}

// summarise counts by playbook.
func (r *Report) summarise(results []result) {
	all := map[string]*api.ReplayPlaybook{}
	of := func(name string) *api.ReplayPlaybook {
		if all[name] == nil {
			all[name] = &api.ReplayPlaybook{Playbook: name, Proposed: []api.ReplayCount{}, Ended: []api.ReplayCount{}}
		}
		return all[name]
	}
	for _, one := range results {
		if one.base == nil {
			continue
		}
		for _, f := range one.base.became {
			if f.started() {
				of(f.Playbook).Episodes++
			}
		}
	}
	for _, run := range r.Runs {
		p := of(run.Playbook)
		p.Runs++
		if run.Lever != nil {
			p.Proposed = count(p.Proposed, run.Lever.Step)
			continue
		}
		p.Ended = count(p.Ended, run.End)
		if machine.RunOutcome(run.End).WithPeople() {
			p.People++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r.Playbooks = append(r.Playbooks, *all[name])
	}
}

func count(all []api.ReplayCount, what string) []api.ReplayCount {
	for i := range all {
		if all[i].What == what {
			all[i].Runs++
			return all
		}
	}
	return append(all, api.ReplayCount{What: what, Runs: 1})
}

// text returns the end of a run in a few words, with the edge that led there.
func (r *run) text() string {
	switch r.end.kind {
	case "":
		return "interrupted"
	case EndProposed:
		return leverText(r.end.step, r.end.with)
	case EndAsked:
		return "asks people (" + r.end.state + ")"
	case EndUnknown:
		return "not known: Prometheus gave no answer"
	case EndPresent:
		return "still under way"
	}
	why := ""
	for _, e := range r.events {
		if e.Kind == machine.EdgeTaken {
			why = e.Message
		}
	}
	if why == "" {
		return r.end.kind
	}
	return r.end.kind + " (" + why + ")"
}

// leverText returns a lever with its parameters.
func leverText(step string, with map[string]any) string {
	var out strings.Builder
	out.WriteString(step)
	for _, name := range slices.Sorted(maps.Keys(with)) {
		value, err := json.Marshal(with[name])
		if err != nil {
			value = fmt.Append(nil, with[name])
		}
		fmt.Fprintf(&out, " %s=%s", name, strings.Trim(string(value), `"`))
	}
	return out.String()
}

package replay

import (
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
)

// compare lists the episodes of which the other set makes something else.
func compare(chosen *selection, results []result) *api.ReplayComparison {
	c := &api.ReplayComparison{Differs: []api.ReplayDifference{}, Runs: []api.ReplayRun{}}
	for _, e := range slices.SortedFunc(maps.Values(chosen.episodes), first) {
		for _, one := range results {
			if one.against == nil {
				continue
			}
			id := e.alert.Episode()
			was, knew := one.base.outcome(id)
			is, knows := one.against.outcome(id)
			switch {
			case !knew && !knows:
			case was == is:
				c.Same++
			default:
				d := api.ReplayDifference{
					Began: e.alert.StartsAt.UTC(), Service: one.base.service, Alert: e.alert.Labels["alertname"], Was: was.text, Against: is.text,
				}
				if was.text == is.text {
					d.Was, d.Against = was.way+": "+was.text, is.way+": "+is.text
				}
				c.Differs = append(c.Differs, d)
			}
		}
	}
	for _, one := range results {
		if one.against == nil {
			continue
		}
		for _, x := range one.against.runs {
			if x.over() {
				c.Runs = append(c.Runs, runOf(x, chosen.episodes))
			}
		}
	}
	return c
}

// outcome is what becomes of an episode: in words, and the states that its runs entered.
type outcome struct{ text, way string }

// outcome returns what becomes of an episode; false: nothing is known of it.
func (t *timeline) outcome(id string) (outcome, bool) {
	f, ok := t.became[id]
	if !ok {
		return outcome{}, false
	}
	if !f.started() {
		return outcome{text: "no run: " + strings.TrimPrefix(f.kind, "alert.")}, true
	}
	var books, way []string
	for r := t.byID(f.Run); r != nil; {
		books, way = append(books, r.s.Start.Playbook), append(way, r.path()...)
		if next := t.successor(r.id); next != nil {
			r = next
			continue
		}
		return outcome{strings.Join(books, " > ") + ": " + r.text(), strings.Join(way, " -> ")}, true
	}
	return outcome{}, false // unreachable: the record names a run of this timeline
}

// successor returns the run that took over from another; nil: none did.
func (t *timeline) successor(id string) *run {
	i := slices.IndexFunc(t.runs, func(r *run) bool { return r.s.Start.DivertedFrom == id })
	if i < 0 {
		return nil
	}
	return t.runs[i]
}

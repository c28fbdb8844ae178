package worlds

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Failure is one way in which a result is not what the scenario wants.
type Failure struct {
	What string // a word: alert, cause, path, lever, verdict, harm, useless, recovery, time, outcome, runs, notices, minutes
	Text string
}

// Figures are the sums over many scenarios.
type Figures struct {
	Scenarios int
	Causes    int // scenarios that have a cause to name
	Named     int // of them, those whose cause people were told
	Reached   int // with all the changes that they want, and none where they want none
	Harmful   int // harmful or needless changes
	Useless   int // changes that did not address the cause
	Undone    int // of them, those that were undone, given back, or are owed by an open run
	Curable   int // scenarios that a lever or time can repair
	Recovered int // of them, those that were well at the end
	Bad       int // minutes after the alert in which a service missed its objectives
}

// Add adds a result.
func (f *Figures) Add(r Result) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	s := r.Scenario
	f.Scenarios++
	count(&f.Causes, s.want.named())
	count(&f.Named, s.want.named() && r.Named())
	count(&f.Reached, r.Reached())
	f.Harmful += len(r.Harm())
	for _, c := range r.Changes {
		if s.useless(c) {
			f.Useless++
			count(&f.Undone, c.taken())
		}
	}
	count(&f.Curable, s.want.recovered)
	count(&f.Recovered, s.want.recovered && !r.Red)
	f.Bad += r.Bad
}

// Named reports whether the cause was named: people were told, or the evidence of a run
// has it.
func (r Result) Named() bool {
	w := r.Scenario.want
	in := func(texts []string, pattern *regexp.Regexp) bool {
		return pattern != nil && slices.ContainsFunc(texts, pattern.MatchString)
	}
	return !w.named() || in(r.told, w.told) || in(r.found, w.evidence)
}

// Reached reports whether the wanted changes were made, or none where none is wanted.
func (r Result) Reached() bool {
	w := r.Scenario.want
	for _, l := range w.levers {
		if !slices.ContainsFunc(r.Changes, func(c Change) bool { return !c.Return && c.Lever == l.kind }) {
			return false
		}
	}
	return len(w.levers) > 0 || !slices.ContainsFunc(r.Changes, func(c Change) bool { return !slices.Contains(w.may, c.Lever) })
}

// Harm returns the harmful and needless changes.
func (r Result) Harm() []string {
	w, over := r.Scenario.want, r.Scenario.incident.Over()
	var out []string
	for _, c := range r.Changes {
		ended := func(at time.Duration) bool { return over > 0 && at >= over }
		wanted := slices.ContainsFunc(w.levers, func(l lever) bool { return l.kind == c.Lever })
		switch {
		case slices.Contains(w.harmful, c.Lever):
			out = append(out, "harmful: "+c.String())
		case slices.Contains(w.may, c.Lever):
		case !wanted:
			out = append(out, "needless: "+c.String())
		case c.Return && c.Verdict != string(machine.VerdictVerified) && !ended(c.At):
			out = append(out, "given back too early: "+c.String())
		case !c.Return && c.Undone > 0 && !ended(c.Undone):
			out = append(out, "right and undone: "+c.String())
		}
	}
	return out
}

// useless reports whether a change did not address the cause.
func (s *Scenario) useless(c Change) bool {
	wanted := slices.ContainsFunc(s.want.levers, func(l lever) bool { return l.kind == c.Lever })
	return !c.Return && !wanted && c.Verdict != string(machine.VerdictVerified)
}

// taken reports whether a change was taken back, or will be.
func (c Change) taken() bool { return c.Undone > 0 || c.Back > 0 || c.Owed }

// judge compares a result with what is wanted.
func (s *Scenario) judge(r *Result) {
	w := s.want
	add := func(is bool, what, text string, args ...any) {
		if is {
			r.Failures = append(r.Failures, Failure{what, fmt.Sprintf(text, args...)})
		}
	}
	add(s.Alert != "" && !slices.Contains(r.Alerts, s.Alert), "alert", "alerts: got %s, want %s", strings.Join(r.Alerts, ", "), s.Alert)
	add(!r.Named(), "cause", "the cause was not named: nothing that was told matches %s, no evidence %s", patternOr(w.told), patternOr(w.evidence))
	if w.runs != nil {
		got, want := r.paths(), pathsText(w.runs)
		add(got != want, "path", "runs: got %s, want %s", got, want)
	}
	add(!r.Reached(), "lever", "levers: got %s, want %s", r.levers(), w.leversText())
	for _, l := range w.levers {
		for _, c := range r.Changes {
			add(!c.Return && c.Lever == l.kind && l.verdict != "" && c.Verdict != l.verdict, "verdict", "verdict of %s: got %s, want %s", c.Lever, c.Verdict, l.verdict)
		}
	}
	harm := r.Harm()
	add(len(harm) > 0, "harm", "%s", strings.Join(harm, ", "))
	for _, c := range r.Changes {
		add(s.useless(c) && !c.taken(), "useless", "did not help, and was neither undone nor given back: %s", c)
	}
	add(r.Red && w.recovered, "recovery", "not recovered after %s", minutes(s.length))
	add(!r.Red && !w.recovered, "recovery", "recovered, and the scenario says that it cannot")
	add(w.within > 0 && (r.Red || r.Recovered > w.within), "time", "recovered %s after the alert, want within %s", minutes(r.Recovered), minutes(w.within))
	add(r.Outcome != w.outcome, "outcome", "outcome: got %s, want %s", r.Outcome, w.outcome)
	add(w.runs == nil && r.started > w.mostRuns, "runs", "%d runs were started, want at most %d", r.started, w.mostRuns)
	if w.notices >= 0 {
		named := 0
		for _, n := range r.notices {
			if w.told == nil || w.told.MatchString(n) {
				named++
			}
		}
		add(named != w.notices, "notices", "%d messages name the cause, want %d: %s", named, w.notices, strings.Join(r.notices, "; "))
	}
	add(w.bad >= 0 && r.Bad > w.bad, "minutes", "%d bad minutes, want at most %d", r.Bad, w.bad)
	if s.Known.Fails != "" {
		r.excuse(s.Known)
	}
}

// excuse takes the failures away that are known, or adds that they are no more.
func (r *Result) excuse(k Known) {
	var what []string
	for _, f := range r.Failures {
		what = append(what, f.What)
	}
	switch {
	case strings.Join(what, " ") == k.Fails:
		r.Excused, r.Failures = r.Failures, nil
	case len(what) == 0:
		r.Failures = []Failure{{"known", "it is right now; take what is known out of the scenario: " + k.Why}}
	}
}

func (r Result) levers() string {
	var out []string
	for _, c := range r.Changes {
		out = append(out, c.String())
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (w want) leversText() string {
	var out []string
	for _, l := range w.levers {
		out = append(out, l.kind)
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (r Result) paths() string {
	var out []path
	for _, x := range r.Runs {
		if !x.Return {
			out = append(out, path{playbookName(x.Playbook), x.Path})
		}
	}
	return pathsText(out)
}

func pathsText(paths []path) string {
	var out []string
	for _, p := range paths {
		out = append(out, p.playbook+": "+strings.Join(p.states, " -> "))
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, "; ")
}

// String returns the figures in a line.
func (f Figures) String() string {
	return fmt.Sprintf("%d scenarios: cause named in %d of %d, right levers in %d, harmful or needless changes %d, useless changes taken back %d of %d, recovered %d of %d, %d bad minutes",
		f.Scenarios, f.Named, f.Causes, f.Reached, f.Harmful, f.Undone, f.Useless, f.Recovered, f.Curable, f.Bad)
}

func patternOr(p *regexp.Regexp) string {
	if p == nil {
		return "(none is wanted)"
	}
	return strings.TrimPrefix(p.String(), "(?is)")
}

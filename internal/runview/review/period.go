package review

import (
	"cmp"
	"maps"
	"slices"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

// Period collects the pages of a period.
type Period struct {
	report api.PeriodReport
	runs   []api.RunDigest
}

// Add adds a page.
func (p *Period) Add(page api.DigestPage) {
	r := &p.report
	r.Since, r.Until, r.Service, r.Playbook = page.Since, page.Until, page.Service, page.Playbook
	if page.Alerts != nil {
		r.Alerts = page.Alerts
	}
	r.Archived += page.Archived
	r.Unreadable = append(r.Unreadable, page.Unreadable...)
	p.runs = append(p.runs, page.Runs...)
}

// Report returns the sums over all pages that were added.
func (p *Period) Report() api.PeriodReport {
	r := p.report
	r.Unreadable = append([]string{}, r.Unreadable...)
	r.LookAt = []api.PeriodLook{}
	phases := repaired(p.runs)
	services, playbooks := groups{}, groups{}
	levers, autonomy, causes := map[string]*api.PeriodLever{}, map[string]*api.PeriodAutonomy{}, map[[2]string]*api.PeriodCause{}
	for _, d := range p.runs {
		count(&r.Runs, d)
		r.AlertsInRuns += d.Alerts
		services.add(d.Service, d, phases)
		playbooks.add(d.Playbook, d, phases)
		if d.Cause != "" && d.Became != runview.BecameLoanReturn {
			c := entry(causes, [2]string{d.Playbook, d.Cause})
			c.Playbook, c.Cause = d.Playbook, d.Cause
			c.Runs++
			if d.Became == runview.BecameResponder {
				c.Resolved++
			}
		}
		if len(d.Attention) > 0 {
			r.LookAt = append(r.LookAt, api.PeriodLook{Run: d.Run, Service: d.Service, Began: d.Began, Status: d.Status, Why: d.Attention})
		}
		for _, c := range d.Changes {
			change(&r.Changes, c)
			l := entry(levers, c.Lever)
			l.Lever = c.Lever
			verdict(l, c)
			a := entry(autonomy, c.Lever)
			a.Lever = c.Lever
			asked(a, c)
		}
	}
	r.Services, r.Playbooks = services.sorted(), playbooks.sorted()
	r.Levers = sorted(levers, func(a, b api.PeriodLever) int { return cmp.Or(b.Changes-a.Changes, cmp.Compare(a.Lever, b.Lever)) })
	r.Causes = sorted(causes, func(a, b api.PeriodCause) int {
		return cmp.Or(b.Runs-a.Runs, cmp.Compare(a.Playbook, b.Playbook), cmp.Compare(a.Cause, b.Cause))
	})
	maps.DeleteFunc(autonomy, func(_ string, a *api.PeriodAutonomy) bool { return a.Approved+a.Denied == 0 })
	r.Autonomy = sorted(autonomy, func(a, b api.PeriodAutonomy) int {
		return cmp.Or(cmp.Compare(b.WaitedSeconds, a.WaitedSeconds), cmp.Compare(a.Lever, b.Lever))
	})
	r.Repair = repair(phases)
	return r
}

// entry returns the value of a key, and adds a zero one if there is none.
func entry[K comparable, V any](m map[K]*V, key K) *V {
	if m[key] == nil {
		m[key] = new(V)
	}
	return m[key]
}

// sorted returns the values of a map in the given order.
func sorted[K comparable, V any](m map[K]*V, order func(a, b V) int) []V {
	out := make([]V, 0, len(m))
	for _, v := range m {
		out = append(out, *v)
	}
	slices.SortFunc(out, order)
	return out
}

func count(r *api.PeriodRuns, d api.RunDigest) {
	r.Total++
	switch d.Became {
	case runview.BecameResponder:
		r.Responder++
	case runview.BecameItself:
		r.Itself++
	case runview.BecameNothingToDo:
		r.NothingToDo++
	case runview.BecameObserved:
		r.Observed++
	case runview.BecameDiverted:
		r.Diverted++
	case runview.BecameLoanReturn:
		r.LoanReturns++
	case runview.BecameOpen:
		r.Open++
	default:
		r.People++ // also a value of a later version
	}
}

func change(r *api.PeriodChanges, c api.DigestChange) {
	if c.Planned {
		r.Proposed++
	}
	switch c.Question {
	case runview.AskedApproved:
		r.Approved++
	case runview.AskedDenied:
		r.Denied++
	case runview.AskedExpired:
		r.Expired++
	}
	if c.Applied {
		r.Applied++
		if c.Undone {
			r.Undone++
		}
	}
}

func verdict(l *api.PeriodLever, c api.DigestChange) {
	l.Changes++
	if c.Applied && c.Undone {
		l.Undone++
	}
	switch {
	case c.Verdict == runview.ChangeRefused && !c.Applied:
		l.Refused++
	case !c.Applied:
		l.NotApplied++
	case c.Verdict == "verified":
		l.Verified++
	case c.Verdict == "improved":
		l.Improved++
	case c.Verdict == "no_effect":
		l.NoEffect++
	case c.Verdict == "worse":
		l.Worse++
	case c.Verdict == "inconclusive":
		l.Inconclusive++
	default:
		l.Unjudged++
	}
}

// asked counts what asking people about a change cost, and what it protected from.
func asked(a *api.PeriodAutonomy, c api.DigestChange) {
	switch {
	case c.Question == runview.AskedDenied:
		a.Denied++
	case c.Question != runview.AskedApproved || !c.Applied:
	case c.Verdict == "verified":
		a.Approved++
		a.Verified++
		a.WaitedSeconds += c.WaitedSeconds
	default:
		a.Approved++
		a.NotVerified++
		if c.Verdict == "worse" {
			a.Worse++
		}
	}
}

// group counts the runs of a service or a playbook.
type group struct {
	runs     api.PeriodRuns
	changes  api.PeriodChanges
	verified int // of the changes applied
	took     spread
}

type groups map[string]*group

func (g groups) add(name string, d api.RunDigest, phases map[string]map[string]float64) {
	x := entry(g, name)
	count(&x.runs, d)
	for _, c := range d.Changes {
		change(&x.changes, c)
		if c.Applied && c.Verdict == "verified" {
			x.verified++
		}
	}
	if all, ok := phases[d.Run]; ok {
		x.took = append(x.took, all[runview.PhaseTotal])
	}
}

func (g groups) sorted() []api.PeriodGroup {
	out := make([]api.PeriodGroup, 0, len(g))
	for name, x := range g {
		r := x.runs
		row := api.PeriodGroup{
			Name: name, Runs: r.Total, Responder: r.Responder, Itself: r.Itself, People: r.People, Open: r.Open,
			Other:   r.NothingToDo + r.Observed + r.Diverted + r.LoanReturns,
			Applied: x.changes.Applied, Verified: x.verified, Undone: x.changes.Undone,
		}
		if median, _, ok := x.took.medianAndP90(); ok {
			row.MedianSeconds = &median
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b api.PeriodGroup) int { return cmp.Or(b.Runs-a.Runs, cmp.Compare(a.Name, b.Name)) })
	return out
}

// repaired returns for each run that Responder resolved the seconds of each phase since the
// alert, with those of the runs that handed over to it. A run is left out if one of those
// is not known.
func repaired(runs []api.RunDigest) map[string]map[string]float64 {
	byID := map[string]api.RunDigest{}
	for _, d := range runs {
		byID[d.Run] = d
	}
	out := map[string]map[string]float64{}
	for _, d := range runs {
		if d.Became != runview.BecameResponder {
			continue
		}
		spent, seen := map[string]float64{}, map[string]bool{}
		for at, ok := d, true; ; at, ok = byID[at.DivertedFrom], byID[at.DivertedFrom].Run != "" {
			if !ok || seen[at.Run] {
				spent = nil
				break
			}
			seen[at.Run] = true
			for _, p := range at.Phases {
				spent[p.Name] += p.Seconds
				spent[runview.PhaseTotal] += p.Seconds
			}
			if at.DivertedFrom == "" {
				break
			}
		}
		if spent != nil {
			out[d.Run] = spent
		}
	}
	return out
}

// repair returns the median and the 90th percentile of each part of the time.
func repair(runs map[string]map[string]float64) []api.PeriodPhase {
	out := []api.PeriodPhase{}
	for _, name := range append(runview.PhaseNames(), runview.PhaseTotal) {
		var took spread
		for _, spent := range runs {
			if s, ok := spent[name]; ok {
				took = append(took, s)
			}
		}
		if median, p90, ok := took.medianAndP90(); ok {
			out = append(out, api.PeriodPhase{Name: name, Runs: len(took), MedianSeconds: median, P90Seconds: p90})
		}
	}
	return out
}

// spread holds the values of several runs.
type spread []float64

// medianAndP90 returns the middle value, or the mean of the middle two, and the smallest
// value that at least nine of ten do not exceed. It reports false where there is no value.
// It sorts the values.
func (s spread) medianAndP90() (median, p90 float64, ok bool) {
	n := len(s)
	if n == 0 {
		return 0, 0, false
	}
	slices.Sort(s)
	return (s[(n-1)/2] + s[n/2]) / 2, s[(9*n+9)/10-1], true
}

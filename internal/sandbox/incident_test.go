package sandbox

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Incident is one case of the bench: a world, and what a good on-call engineer
// with the shipped playbooks would have made of it.
type Incident struct {
	Name string

	Cause     string        // pattern that what people were told has to match; empty: there is none to name
	Right     []string      // changes that address the cause
	May       []string      // changes that do not, and do no harm; every other one is harmful or needless
	Outcome   string        // of the service's last run
	Runs      int           // the most that may be started, without those of loans; 0: one and what it hands over to
	Notices   int           // messages to people that name the cause; 0: any number
	Bad       int           // the most bad minutes of the services after the first alert
	Red       bool          // it cannot be repaired by a lever
	Over      time.Duration // after the alert: the cause is gone by itself; 0: it stays
	Approvals time.Duration // until people approve; 0: 10 s

	// Gap is what the product is known to do wrong, in the words of [Incident.Check].
	// Another wrong result fails, and so does a right one, so that nobody forgets to
	// take the gap away. Empty: everything is as it should be.
	Gap string

	world scenario
}

// Incidents returns the cases of the bench.
func Incidents() []Incident {
	return []Incident{
		benchBadRelease(), benchBadAndSaturated(), benchSlowLoad(), benchErrors(), benchTwoAlerts(), benchLeaves(), benchNoisy(), benchTwoSeconds(),
		benchBurst(), benchRamp(), benchHarmlessRelease(), benchAtMaximum(), benchNoGPUs(), benchDecode(), benchCache(),
		benchBlip(), benchComing(), benchClears(), benchAway(),
		benchStuck(), benchAllStuck(), benchHangs(), benchSlowReplica(),
		benchGPU(), benchGPUAndBurst(), benchSlowSuccessor(), benchHot(), benchHotRoom(), benchSharedRelease(),
	}
}

// Open opens the world of the incident.
func (i Incident) Open(clock *Clock) *World { return build(i.world, clock, clock.Now(), nil) }

// Result is what happened in an incident.
type Result struct {
	Runs     []string // playbook and path of each
	Told     []string // edges, proposals, notices and endings, in words
	Notices  []string // messages to people
	Changes  []Change
	Outcome  string // of the service's last run that is not of a loan
	Bad      int    // minutes after the first alert in which a service missed its objectives
	Red      bool   // it misses them at the end
	NumRuns  int    // without those of loans
	Timeline []string
}

// Change is a change that was applied.
type Change struct {
	What    string // kind of the lever
	Return  bool   // it gives a loan back
	At      time.Duration
	Undone  time.Duration // when it was taken back; 0: it was not
	Verdict string
}

// String implements [fmt.Stringer].
func (c Change) String() string {
	s := c.What
	if c.Return {
		s += " back"
	}
	s = fmt.Sprintf("%s@%s", s, short(c.At))
	if c.Verdict != "" {
		s += " " + c.Verdict
	}
	if c.Undone > 0 {
		s += " undone@" + short(c.Undone)
	}
	return s
}

func short(d time.Duration) string { return fmt.Sprintf("%.1fm", d.Minutes()) }

// Named reports whether people were told the cause.
func (i Incident) Named(r Result) bool {
	return i.Cause == "" || slices.ContainsFunc(r.Told, regexp.MustCompile("(?is)"+i.Cause).MatchString)
}

// Reached reports whether the right changes were made, or none where none is right.
func (i Incident) Reached(r Result) bool {
	for _, want := range i.Right {
		if !slices.ContainsFunc(r.Changes, func(c Change) bool { return !c.Return && c.What == want }) {
			return false
		}
	}
	return len(i.Right) > 0 || !slices.ContainsFunc(r.Changes, func(c Change) bool { return !slices.Contains(i.May, c.What) })
}

// Harm returns the harmful and needless changes.
func (i Incident) Harm(r Result) []string {
	var out []string
	for _, c := range r.Changes {
		ended := func(at time.Duration) bool { return i.Over > 0 && at >= i.Over }
		switch {
		case slices.Contains(i.May, c.What):
		case !slices.Contains(i.Right, c.What):
			out = append(out, "needless "+c.String())
		case c.Return && !ended(c.At):
			out = append(out, "given back too early: "+c.String())
		case !c.Return && c.Undone > 0 && !ended(c.Undone):
			out = append(out, "right and undone: "+c.String())
		}
	}
	return out
}

// Recovered reports whether the service is well at the end, where it can be.
func (i Incident) Recovered(r Result) bool { return i.Red == r.Red }

// Check returns what is wrong with a result, in a word each and in sentences;
// empty: nothing is.
func (i Incident) Check(r Result) (what string, wrong []string) {
	var words []string
	add := func(is bool, word, text string) {
		if is {
			words, wrong = append(words, word), append(wrong, text)
		}
	}
	add(!i.Named(r), "cause", "cause not named")
	add(!i.Reached(r), "lever", "right lever not reached")
	harm := i.Harm(r)
	add(len(harm) > 0, "harm", strings.Join(harm, ", "))
	add(!i.Recovered(r), "recovery", "not recovered")
	add(r.Outcome != i.Outcome, "outcome", fmt.Sprintf("ends %s, want %s", r.Outcome, i.Outcome))
	add(r.NumRuns > max(1, i.Runs), "runs", fmt.Sprintf("%d runs, want at most %d", r.NumRuns, max(1, i.Runs)))
	named := slices.DeleteFunc(slices.Clone(r.Notices), func(n string) bool { return !regexp.MustCompile(i.Cause).MatchString(n) })
	add(i.Notices > 0 && len(named) != i.Notices, "notices", fmt.Sprintf("%d messages name the cause, want %d: %s", len(named), i.Notices, strings.Join(named, "; ")))
	add(r.Bad > i.Bad, "minutes", fmt.Sprintf("%d bad minutes, want at most %d", r.Bad, i.Bad))
	return strings.Join(words, " "), wrong
}

package ladder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// A demotion judges one lever on one service. Several failed changes in a row, on any
// service, suggest that Responder's measurements are wrong or that no lever can repair
// the cause. Everything is then paused.

// failure is a change that was not proven to help.
type failure struct {
	LeverID
	result Result
	run    string
	at     time.Time
}

// Break is why everything is paused: the changes that failed in a row, oldest first.
type Break struct {
	failed []failure
	within time.Duration
}

// Breaks reports whether these results, after those recorded, trip the circuit breaker.
func (t *TrackRecord) Breaks(results []LeverResult, at time.Time) (Break, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, found := t.failing, Break{}
	for _, r := range results {
		row = failures(row, r, at)
		if b := t.config.breaks(row); b.failed != nil && r.Result.failed() {
			found = b
		}
	}
	return found, found.failed != nil
}

// failures returns the failures in a row after a result, at most MaxDemoteAfter.
// Results that are no evidence of whether changes help are skipped. So is a step that
// another may follow, because a burst takes several: of the steps of a lever in a run,
// the last one counts.
func failures(row []failure, r LeverResult, at time.Time) []failure {
	switch {
	case !r.Applied || r.Neutral:
		return row
	case r.Result == ResultVerified || r.Result == ResultImproved:
		return nil
	case !r.Result.failed(), r.Further, slices.ContainsFunc(row, func(f failure) bool { return f.run == r.Run && f.LeverID == r.LeverID }):
		return row
	}
	row = append(slices.Clone(row), failure{r.LeverID, r.Result, r.Run, at})
	return row[max(0, len(row)-MaxDemoteAfter):]
}

// breaks returns the break that the newest failures in a row ask for; zero: none.
func (c Config) breaks(row []failure) Break {
	if c.BreakAfter == 0 || len(row) < c.BreakAfter {
		return Break{}
	}
	newest := row[len(row)-c.BreakAfter:]
	if newest[len(newest)-1].at.Sub(newest[0].at) > c.BreakWithin {
		return Break{}
	}
	return Break{newest, c.BreakWithin}
}

// Rearm folds that a person lifted the pause of everything: what failed until then does
// not count any more, so that the next failure alone does not bring it back.
func (t *TrackRecord) Rearm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing = nil
}

// Reason is the reason of the pause.
func (b Break) Reason() string {
	var each []string
	for _, f := range b.failed {
		each = append(each, fmt.Sprintf("%s on %s (%s, run %s)", f.Lever, f.Service, f.result, f.run))
	}
	return fmt.Sprintf("circuit breaker: %d changes in a row were not proven to help within %s: %s",
		len(b.failed), playbook.FormatDuration(b.within), strings.Join(each, ", "))
}

// Text is what people are told of it.
func (b Break) Text() string {
	return "Everything is paused. " + b.Reason() + ". Check for a common cause, such as a network, a model store or a metric that is wrong. " +
		"No new change starts until a person lifts the pause; changes under way are finished or undone: responder unpause --reason ..."
}

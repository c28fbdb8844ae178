package ladder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// A demotion judges one lever on one service. Changes that fail in a row whatever
// they are and wherever say that what Responder reads of the world is wrong, or that
// something is broken which no lever repairs. Then everything is paused.

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

// Breaks returns the break that these results ask for, on top of what is known; false:
// none.
func (t *TrackRecord) Breaks(results []LeverResult, at time.Time) (Break, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, found := t.failing, Break{}
	for _, r := range results {
		var b Break
		if row, b = t.config.fails(row, r, at); len(b.failed) > 0 {
			found = b
		}
	}
	return found, len(found.failed) > 0
}

// fails returns the failures in a row after a result. With the one that breaks the
// circuit they begin anew, so that a person who lifts the pause is not paused again by
// the next failure alone.
func (c Config) fails(row []failure, r LeverResult, at time.Time) ([]failure, Break) {
	switch {
	case c.BreakAfter == 0 || !r.Applied:
		return row, Break{}
	case r.Result == ResultVerified || r.Result == ResultImproved:
		return nil, Break{}
	case !r.Result.failed():
		return row, Break{}
	}
	row = slices.DeleteFunc(slices.Clone(row), func(f failure) bool { return at.Sub(f.at) > c.BreakWithin })
	row = append(row, failure{r.LeverID, r.Result, r.Run, at})
	if len(row) < c.BreakAfter {
		return row, Break{}
	}
	return nil, Break{row, c.BreakWithin}
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
	return "Everything is paused. " + b.Reason() + ". Look for what they share, such as a network, a model store or a metric that is wrong. " +
		"Nothing is changed until a person lifts the pause: responder unpause --reason ..."
}

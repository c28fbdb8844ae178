package web

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// auditQuery is which entries a person looks for: what they typed, and what it means.
type auditQuery struct {
	Run, Person, Kind, Since, Until, Before string

	runID        string // whole; empty: any
	since, until time.Time
	before       uint64 // only entries below it, if hasBefore
	hasBefore    bool
}

// narrow reports whether the query leaves entries out.
func (q *auditQuery) narrow() bool { return q.Run+q.Person+q.Kind+q.Since+q.Until != "" }

// address returns the address of the page before an entry; empty: of the first page.
func (q *auditQuery) address(before string) string {
	out := url.Values{}
	for name, value := range map[string]string{"run": q.Run, "person": q.Person, "kind": q.Kind, "since": q.Since, "until": q.Until, "before": before} {
		if value != "" {
			out.Set(name, value)
		}
	}
	return "?" + out.Encode()
}

// passes reports whether an entry is looked for, its time and run apart. Case does not
// count.
func (q *auditQuery) passes(e Entry) bool {
	return q.readsKind(e.Kind) && within(e.By, q.Person)
}

// readsKind reports whether entries of a kind are looked for.
func (q *auditQuery) readsKind(kind string) bool { return within(kind, q.Kind) }

func within(s, part string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(part)) }

// auditQueryOf reads a query from an address. What was typed is in it with an error too.
func (s *Site) auditQueryOf(values url.Values) (q auditQuery, err error) {
	note := func(failed error) {
		if err == nil {
			err = failed
		}
	}
	for _, f := range []struct {
		name string
		to   *string
	}{{"run", &q.Run}, {"person", &q.Person}, {"kind", &q.Kind}, {"since", &q.Since}, {"until", &q.Until}, {"before", &q.Before}} {
		var failed error
		*f.to, failed = field(values, f.name)
		note(failed)
	}
	if err != nil {
		return q, err
	}
	var failed error
	q.since, failed = timeOf("since", q.Since, s.o.Now(), false)
	note(failed)
	q.until, failed = timeOf("until", q.Until, s.o.Now(), true)
	note(failed)
	if err == nil && !q.since.IsZero() && !q.until.IsZero() && q.until.Before(q.since) {
		note(fmt.Errorf("%w: until: %s is before since, which is %s", ErrInvalid, stamp(q.until), stamp(q.since)))
	}
	if q.Before != "" {
		q.hasBefore = true
		if q.before, failed = strconv.ParseUint(q.Before, 10, 63); failed != nil {
			note(fmt.Errorf("%w: before: %.64q is not the number of an entry: follow the links Older and Newer", ErrInvalid, q.Before))
		}
	}
	if err == nil && q.Run != "" {
		q.runID, err = s.runNamed(q.Run)
	}
	return q, err
}

// dayOnly matches a day without a time.
var dayOnly = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)

// timeOf reads a time: a day, a day with a time in UTC, or how long ago. A day is its
// beginning, or its end.
func timeOf(name, text string, now time.Time, end bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		at, err := time.Parse(layout, strings.TrimSuffix(text, " UTC"))
		if err != nil {
			continue
		}
		if end && dayOnly.MatchString(text) {
			at = at.AddDate(0, 0, 1).Add(-1)
		}
		return at, nil
	}
	if ago, err := playbook.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%w: %s: %.64q is no time: write 2026-03-01, 2026-03-01 14:30 (UTC), or how long ago, such as 2h or 3d", ErrInvalid, name, text)
}

// runBegin matches the beginning of a run's name.
var runBegin = regexp.MustCompile(`^(?i:r-[0-9A-Z-]{0,64})$`)

// runNamed returns the run whose name begins with a text.
func (s *Site) runNamed(text string) (string, error) {
	if !runBegin.MatchString(text) {
		return "", fmt.Errorf("%w: run: %.64q is not the beginning of a run's name, which is like r-01JD3Q", ErrInvalid, text)
	}
	found := s.runsBegin(text).Runs
	switch {
	case len(found) == 1 || len(found) > 1 && strings.EqualFold(found[0].Start.Run, text):
		return found[0].Start.Run, nil
	case len(found) > 1:
		return "", fmt.Errorf("%w: run: %.64q begins the names of several runs, such as %s and %s: write more of it", ErrInvalid, text, found[0].Start.Run, found[1].Start.Run)
	case runID.MatchString(text):
		return text, nil // its entries may be there although it is not listed any more
	default:
		return "", fmt.Errorf("%w: run: no run's name begins with %.64q: History lists them", ErrInvalid, text)
	}
}

// runsBegin returns the newest two of the runs whose IDs begin with a text. Case does not
// count.
func (s *Site) runsBegin(text string) Found {
	begins := func(run machine.State) bool {
		return len(run.Start.Run) >= len(text) && strings.EqualFold(run.Start.Run[:len(text)], text)
	}
	return s.o.Runs.Search(Search{Passes: begins, Text: text, Limit: 2, Read: readRuns})
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// Period selects the runs that began in a period.
type Period struct {
	Since, Until time.Time // Until is excluded
	Before       string    // an ID: only runs that began before it; empty: all
	Limit        int       // runs that are read for one answer, > 0
}

// Part is what one answer about a period left out, and where the next one goes on.
type Part struct {
	Archived   []string // runs whose events are archived: that they began in the period, their IDs say
	Unreadable []string // runs that this program cannot read
	Next       string   // the Before of the next answer; empty: no older run is left
}

// idSlack is how far the time in a run's ID may be from that of its first event.
const idSlack = time.Minute

// Began calls each with the runs that began in a period and their events, newest first.
// It reads one run at a time, and never more than the limit. It ends early with the
// error of ctx.
func (e *Executor) Began(ctx context.Context, p Period, each func(machine.State, []machine.Event)) (Part, error) {
	ids, err := e.startedIn(p)
	if err != nil {
		return Part{}, err
	}
	out := Part{}
	for i, id := range ids {
		if i == p.Limit {
			out.Next = ids[i-1]
			break
		}
		if err := ctx.Err(); err != nil {
			return Part{}, err
		}
		s, events, err := e.RunHistory(id)
		switch {
		case errors.Is(err, audit.ErrArchived):
			out.Archived = append(out.Archived, id)
		case errors.Is(err, ErrNotFound):
		case err != nil:
			e.log.Warn("a run cannot be read, a report leaves it out", "run", id, "err", err)
			out.Unreadable = append(out.Unreadable, id)
		case !s.Began.Before(p.Since) && s.Began.Before(p.Until):
			s.ObservedOutcome = e.observedOutcome(s)
			each(s, events)
		}
	}
	return out, nil
}

// startedIn returns the IDs of the runs that may have begun in a period, newest first:
// the time in an ID spares reading the others. An ID without a time is among them.
func (e *Executor) startedIn(p Period) ([]string, error) {
	var ids []string
	for info, err := range e.o.Journal.Streams(prefixRun) {
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		id := strings.TrimPrefix(info.Name, prefixRun)
		if p.Before != "" && id >= p.Before {
			continue
		}
		if u, err := ulid.ParseStrict(strings.TrimPrefix(id, "r-")); err == nil {
			at := ulid.Time(u.Time())
			if at.Before(p.Since.Add(-idSlack)) || !at.Before(p.Until.Add(idSlack)) {
				continue
			}
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids, nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/webhook"
)

// The receiver knows neither the journal nor the executor. What it asks of
// them goes through the adapters of this file, which translate and add nothing.

// The journal's streams; see the executor's package documentation.
const (
	controlStream = "control"
	LadderStream  = "ladder" // LadderStream holds the track record of levers
	runStreams    = "run/"
)

// journalRefusal reports in the receiver's words why the journal did not take
// something.
func journalRefusal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, audit.ErrFull):
		return fmt.Errorf("%w: %w", webhook.ErrBusy, err)
	case errors.Is(err, audit.ErrUnavailable):
		return fmt.Errorf("%w: %w", webhook.ErrUnavailable, err)
	default:
		return err
	}
}

// admission hands notifications to the intake.
type admission struct{ intake *dispatch.Intake }

// Admit makes a notification durable.
func (a admission) Admit(ctx context.Context, n playbook.Notification) error {
	err := a.intake.Admit(ctx, n)
	if errors.Is(err, dispatch.ErrPaused) {
		return &refused{as: webhook.ErrPaused, because: err, message: err.Error()}
	}
	return journalRefusal(err)
}

// control hands commands to the executor.
type control struct{ executor *executor.Executor }

// Command sends a person's command; the executor sets the time.
func (c control) Command(ctx context.Context, run string, cmd machine.Command) error {
	return refusalOf(c.executor.Command(ctx, run, cmd))
}

// refusalOf reports in the receiver's words why the executor did not do something.
func refusalOf(err error) error {
	for _, kind := range []struct{ theirs, ours error }{
		{executor.ErrNotFound, webhook.ErrNotFound},
		{executor.ErrForbidden, webhook.ErrForbidden},
		{executor.ErrConflict, webhook.ErrConflict},
		{executor.ErrInvalid, webhook.ErrInvalid},
		{audit.ErrArchived, webhook.ErrArchived},
	} {
		if errors.Is(err, kind.theirs) {
			return &refused{as: kind.ours, because: err, message: strings.TrimPrefix(err.Error(), kind.theirs.Error()+": ")}
		}
	}
	return journalRefusal(err)
}

// refused is a refusal of the executor as one of the receiver's, which says in
// its status what the executor's words begin with.
type refused struct {
	as      error
	because error // the executor's; nil: this program's own refusal
	message string
}

func (r *refused) Error() string { return r.message }

func (r *refused) Unwrap() []error {
	if r.because == nil {
		return []error{r.as}
	}
	return []error{r.as, r.because}
}

// starter starts runs that people ask for.
type starter struct{ executor *executor.Executor }

// Start starts a run, or gives the one that the same request started before.
func (s starter) Start(ctx context.Context, r webhook.StartRequest) (string, bool, error) {
	run, again, err := s.executor.StartRun(ctx, executor.StartRequest{
		Key: r.Key, Playbook: r.Playbook, Service: r.Service, Labels: r.Labels, Reason: r.Reason, By: r.By,
	})
	return run, again, refusalOf(err)
}

// pauses switches automation and intake off and on.
type pauses struct {
	executor *executor.Executor
	intake   *dispatch.Intake
}

// Pauses lists what is paused now.
func (p pauses) Pauses() []webhook.Pause {
	var all []webhook.Pause
	if off := p.intake.Paused(); off != nil {
		all = append(all, webhook.Pause{Intake: true, By: off.By, Reason: off.Reason, Since: off.Since})
	}
	for _, s := range p.executor.Pauses() {
		all = append(all, webhook.Pause{Service: s.Scope.Service, Playbook: s.Scope.Playbook, By: s.By, Reason: s.Reason, Since: s.Since})
	}
	return all
}

// Pause stops what p names.
func (p pauses) Pause(ctx context.Context, w webhook.Pause) error {
	if w.Intake {
		return journalRefusal(p.intake.Pause(ctx, w.By, w.Reason))
	}
	return refusalOf(p.executor.Pause(ctx, executor.Scope{Service: w.Service, Playbook: w.Playbook}, w.By, w.Reason))
}

// Unpause lifts the pause with the same scope.
func (p pauses) Unpause(ctx context.Context, w webhook.Pause) error {
	if w.Intake {
		err := p.intake.Unpause(ctx, w.By, w.Reason)
		if errors.Is(err, dispatch.ErrNotPaused) {
			return notPaused(w)
		}
		return journalRefusal(err)
	}
	err := p.executor.Unpause(ctx, executor.Scope{Service: w.Service, Playbook: w.Playbook}, w.By, w.Reason)
	if errors.Is(err, executor.ErrNotFound) {
		return notPaused(w)
	}
	return refusalOf(err)
}

// notPaused refuses to lift what is not there.
func notPaused(w webhook.Pause) error {
	return &refused{as: webhook.ErrNotFound, message: fmt.Sprintf("there is no %s pause; 'responder pauses' lists those in force", w.Scope())}
}

// trackRecord shows and lifts what was learned of levers.
type trackRecord struct {
	executor *executor.Executor
	record   *ladder.TrackRecord
}

// Levers lists the levers there is a record of.
func (l trackRecord) Levers(service, playbook string) []api.TrackRecord {
	var out []api.TrackRecord
	for _, t := range l.executor.Ladder(executor.Filter{Service: service, Playbook: playbook}) {
		x := api.TrackRecord{
			Playbook: t.Playbook, Service: t.Service, Lever: t.State, Kind: t.Lever,
			Tried: t.Attempts, OK: t.Verified, Improved: t.Improved, Ineffective: t.Ineffective, Inconclusive: t.Inconclusive, Undone: t.Undone,
			Overridden: t.Overridden, Refused: t.Refused, Denied: t.Denied,
			WouldApply: t.WouldApply, Recovered: t.Recovered, Watched: t.Watched,
			InARow: t.Streak, Since: t.Since, Results: []string{}, Last: t.LastAt,
			Level: t.Level.String(), HeldBy: []api.Limit{}, Demoted: t.Demoted, Changed: t.Changed, Why: t.Why, Proposal: t.Proposal,
		}
		for _, r := range t.Last {
			x.Results = append(x.Results, string(r))
		}
		for _, limit := range t.Limits {
			x.HeldBy = append(x.HeldBy, api.LimitOf(limit))
		}
		out = append(out, x)
	}
	return out
}

// Promote lifts the demotion of a lever.
func (l trackRecord) Promote(ctx context.Context, p webhook.Promotion) error {
	id := ladder.LeverID{Playbook: p.Playbook, Service: p.Service, State: p.Lever}
	return refusalOf(l.executor.PromoteLever(ctx, id, p.By, p.Reason))
}

// Good lists what was last verified.
func (l trackRecord) Good(service string) []api.LastGood {
	var out []api.LastGood
	for _, g := range l.record.Goods(service) {
		out = append(out, api.LastGood{
			Service: g.Service, Variable: g.Variable, Value: g.Value, Commit: g.Revision, Verified: g.At.UTC(), Run: g.Run, Lever: g.Lever,
		})
	}
	return out
}

// views reads runs.
type views struct{ executor *executor.Executor }

// Runs lists runs, newest first.
func (v views) Runs(f webhook.RunFilter) []machine.State {
	return v.executor.Runs(executor.Filter{Service: f.Service, Playbook: f.Playbook, Open: f.Open, Limit: f.Limit})
}

// Run returns one run.
func (v views) Run(id string) (machine.State, bool) { return v.executor.RunState(id) }

// Events returns a run's events from index from on.
func (v views) Events(id string, from uint64) ([]machine.Event, error) {
	events, err := v.executor.RunEventsFrom(id, from)
	return events, refusalOf(err)
}

// journalLog shows the journal.
type journalLog struct{ journal *audit.Journal }

// Entries yields the entries from seq from on.
func (l journalLog) Entries(from uint64) iter.Seq2[api.Entry, error] {
	return func(yield func(api.Entry, error) bool) {
		for r, err := range l.journal.Log(from) {
			if !yield(EntryOf(r, err)) {
				return
			}
		}
	}
}

// EntryOf returns an entry of the journal as the API shows it. Of an archived one there
// is the place, and the segment that has the rest.
func EntryOf(r audit.Record, err error) (api.Entry, error) {
	var absent *audit.ArchivedError
	if errors.As(err, &absent) {
		return api.Entry{Seq: r.Seq, Archived: absent.Segment}, nil
	}
	return api.Entry{Seq: r.Seq, Time: r.Time, Stream: r.Stream, Index: r.Index, Kind: r.Kind, Data: r.Data}, err
}

// Checkpoint returns a signed checkpoint over everything.
func (l journalLog) Checkpoint() ([]byte, error) { return l.journal.Checkpoint() }

// Snapshot writes a consistent copy of the whole journal.
func (l journalLog) Snapshot(w io.Writer) error { return l.journal.Snapshot(w) }

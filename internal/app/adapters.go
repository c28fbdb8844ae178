package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
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

// DecodeNotification decodes a body of Alertmanager as the receiver of a
// configuration does. The error is a [*playbook.FieldError].
func DecodeNotification(c config.Receiver, body []byte) (playbook.Notification, error) {
	return webhook.Decode(body, c.DropLabels)
}

// admission passes notifications to the intake.
type admission struct{ intake *dispatch.Intake }

// Admit makes a notification durable.
func (a admission) Admit(ctx context.Context, n playbook.Notification) (stored int, err error) {
	stored, err = a.intake.Admit(ctx, n)
	if errors.Is(err, dispatch.ErrPaused) {
		return 0, &refused{as: webhook.ErrPaused, because: err, message: err.Error()}
	}
	return stored, journalRefusal(err)
}

// take makes a notification durable that nobody sent.
func (a admission) take(ctx context.Context, n playbook.Notification) error {
	_, err := a.intake.Admit(ctx, n)
	return err
}

// control passes commands to the executor, with the right that the person lacks.
type control struct {
	executor *executor.Executor
	rights   rights.Rules
}

// Command sends a person's command; the executor sets the time. Where the person lacks
// the right, the executor only records that.
func (c control) Command(ctx context.Context, run string, cmd machine.Command) error {
	cmd, missing := c.missing(run, cmd)
	if missing != nil {
		cmd.Refused = missing.Error()
	}
	err := refusalOf(c.executor.Command(ctx, run, cmd))
	if missing != nil && errors.Is(err, webhook.ErrForbidden) {
		return lacking(missing)
	}
	return err
}

// missing returns the right that a command's person lacks; nil: none. About the
// services of a lever that acts on several, the right to approve may be there for some:
// the command then says for which it lacks, and the run counts it for the others.
func (c control) missing(run string, cmd machine.Command) (machine.Command, error) {
	if cmd.Decision == nil {
		return cmd, nil // the executor refuses it
	}
	s, _ := c.executor.RunState(run) // of a run that is not there, or cannot be read, all services
	who := rights.Actor{By: cmd.Decision.By, Groups: cmd.Decision.Groups}
	right := machine.RightOf(cmd.Kind)
	if right != rights.Approve {
		return cmd, c.rights.Check(who, right, subject(s.Start.Service))
	}
	d := *cmd.Decision
	var err error
	d.Lacks, err = s.Lacks(func(svc playbook.Service) error { return c.rights.Check(who, right, subject(svc)) })
	cmd.Decision = &d
	return cmd, err
}

// subject is a service in the words of the rights.
func subject(s playbook.Service) rights.Service {
	return rights.Service{Name: s.Name, Owners: s.Owners}
}

// lacking is a missing right as a refusal of the receiver's.
func lacking(missing error) error {
	return &refused{as: webhook.ErrForbidden, because: missing, message: missing.Error()}
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
type starter struct {
	executor *executor.Executor
	permits  permits
}

// Start starts a run, or gives the one that the same request started before.
func (s starter) Start(ctx context.Context, r webhook.StartRequest) (string, bool, error) {
	q := executor.StartRequest{
		Key: r.Key, Playbook: r.Playbook, Service: r.Service, Labels: r.Labels, Reason: r.Reason, By: r.Who.By, Person: r.Who.Person,
	}
	missing := s.permits.missing(r.Who, rights.Start, r.Service)
	if missing != nil {
		q.Refused = missing.Error()
	}
	run, again, err := s.executor.StartRun(ctx, q)
	if missing != nil && errors.Is(err, executor.ErrForbidden) {
		return "", false, lacking(missing)
	}
	return run, again, refusalOf(err)
}

// permits refuses requests about services for which somebody lacks the right.
type permits struct {
	executor *executor.Executor
	rights   rights.Rules
	services func() []playbook.Service
}

// check returns nil if somebody has the right about the service of that name; empty:
// about all of them. It records the refusal.
func (p permits) check(who rights.Actor, right rights.Right, service string) error {
	missing := p.missing(who, right, service)
	if missing == nil {
		return nil
	}
	p.executor.RecordRefused(who.By, right, service, missing.Error())
	return lacking(missing)
}

// missing is check without the record. A service that the catalog does not have has no
// owners.
func (p permits) missing(who rights.Actor, right rights.Right, service string) error {
	about := rights.Service{Name: service}
	if service != "" {
		all := p.services()
		if i := slices.IndexFunc(all, func(s playbook.Service) bool { return s.Name == service }); i >= 0 {
			about = subject(all[i])
		}
	}
	return p.rights.Check(who, right, about)
}

// pauses switches automation and intake off and on.
type pauses struct {
	executor *executor.Executor
	intake   *dispatch.Intake
	permits  permits
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
func (p pauses) Pause(ctx context.Context, who rights.Actor, w webhook.Pause) error {
	if err := p.permits.check(who, rights.Pause, w.Service); err != nil {
		return err
	}
	if w.Intake {
		return journalRefusal(p.intake.Pause(ctx, w.By, w.Reason))
	}
	return refusalOf(p.executor.Pause(ctx, executor.Scope{Service: w.Service, Playbook: w.Playbook}, w.By, w.Reason))
}

// Unpause lifts the pause with the same scope.
func (p pauses) Unpause(ctx context.Context, who rights.Actor, w webhook.Pause) error {
	if err := p.permits.check(who, rights.Unpause, w.Service); err != nil {
		return err
	}
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
	permits  permits
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
	if err := l.permits.check(p.Who, rights.Promote, p.Service); err != nil {
		return err
	}
	id := ladder.LeverID{Playbook: p.Playbook, Service: p.Service, State: p.Lever}
	return refusalOf(l.executor.PromoteLever(ctx, id, p.Who.By, p.Reason))
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
	return v.executor.Runs(executor.Filter{Service: f.Service, Playbook: f.Playbook, Begins: f.Begins, Open: f.Open, Limit: f.Limit})
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

// resolver is a function as the executor's interface.
type resolver func(playbook.Alert) ([]playbook.Service, string, error)

// Resolve finds the services of an alert.
func (r resolver) Resolve(a playbook.Alert) ([]playbook.Service, string, error) { return r(a) }

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/playbook"
)

const (
	// retainEvery is how often the service looks whether a stretch of the journal is old
	// enough to be archived.
	retainEvery = time.Hour

	// A segment has the entries of a day at least, so that there are not too many, and
	// about segmentBytes at most, so that one is written, read back and dropped in seconds.
	segmentSpan  = 24 * time.Hour
	segmentBytes = 64 << 20
)

// noArchive is what an empty journal.archive comes to.
const noArchive = "journal.archive is not set: nothing is archived, and the journal only grows"

// retention moves what is old out of the journal into the archive.
type retention struct {
	journal *audit.Journal
	keep    time.Duration
	archive string // directory; empty: nothing is archived
	rule    func(now time.Time) (*executor.Retention, error)
	now     func() time.Time
	log     *slog.Logger

	step sync.Mutex // one at a time

	mu     sync.Mutex // guards failed
	failed *api.JournalFailure
}

// retain archives until ctx is done. What fails is tried again: the service goes on,
// with a journal that grows.
func (s *Service) retain(ctx context.Context) error {
	if s.library.await(ctx) { // to be ready is more urgent
		s.retention.run(ctx)
	}
	return nil
}

// run archives at once and then every hour.
func (r *retention) run(ctx context.Context) {
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		r.archiveOld(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// archiveOld archives every stretch that is old and long enough.
func (r *retention) archiveOld(ctx context.Context) {
	if r.archive == "" {
		return
	}
	for {
		done, err := r.next(ctx, segmentSpan)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("the journal could not be archived; everything stays in it, and it is tried again", "err", err)
		}
		if err != nil || !done.More {
			return
		}
	}
}

// next archives the next stretch, if it is old enough and spans that long or is full.
func (r *retention) next(ctx context.Context, span time.Duration) (_ api.JournalArchive, err error) {
	r.step.Lock()
	defer r.step.Unlock()
	defer func() { r.note(ctx, err) }()
	if r.archive == "" {
		return api.JournalArchive{Waits: noArchive}, nil
	}
	if err := r.finish(ctx); err != nil {
		return api.JournalArchive{}, err
	}
	at, err := r.journal.Status()
	if err != nil {
		return api.JournalArchive{}, err
	}
	plan, leaving, err := r.plan(at.End, span)
	if err != nil || plan.Stretch == nil {
		return plan, err
	}
	sealed, err := r.journal.Seal(ctx, r.archive, audit.Stretch{First: plan.Stretch.First, End: plan.Stretch.Last + 1}, executor.ArchivedStreams())
	if err != nil {
		return api.JournalArchive{}, err
	}
	plan.Stretch.Segment = sealed.Segment
	if err := r.drop(ctx, sealed, leaving); err != nil {
		return api.JournalArchive{}, err
	}
	r.log.Info("journal archived", "segment", sealed.Segment, "from", plan.Stretch.From, "to", plan.Stretch.To, "bodies", plan.Stretch.Bodies)
	return plan, nil
}

// preview returns the stretch that begins with an entry and would be archived now.
func (r *retention) preview(from uint64, span time.Duration) (api.JournalArchive, error) {
	if r.archive == "" {
		return api.JournalArchive{Waits: noArchive}, nil
	}
	at, err := r.journal.Status()
	if err != nil {
		return api.JournalArchive{}, err
	}
	plan, _, err := r.plan(max(from, at.End), span)
	return plan, err
}

// plan finds the stretch that begins with an entry, and what may leave the file with it.
func (r *retention) plan(from uint64, span time.Duration) (api.JournalArchive, executor.Leaving, error) {
	s, why, err := r.journal.Sealable(from, r.now().Add(-r.keep), segmentBytes)
	if err != nil {
		return api.JournalArchive{}, executor.Leaving{}, err
	}
	if s.End == s.First {
		return api.JournalArchive{Waits: fmt.Sprintf("%s; journal.keep is %s", why, playbook.FormatDuration(r.keep))}, executor.Leaving{}, nil
	}
	if !s.Full && s.To.Sub(s.From) < span {
		return api.JournalArchive{Waits: "a segment has the entries of a day at least; 'responder journal archive' does not wait for them"}, executor.Leaving{}, nil
	}
	rule, err := r.rule(r.now())
	if err != nil {
		return api.JournalArchive{}, executor.Leaving{}, err
	}
	l, err := rule.Leaving(s.First, s.End)
	if err != nil || l.Waits != "" {
		return api.JournalArchive{Waits: l.Waits}, l, err
	}
	return api.JournalArchive{More: true, Stretch: &api.JournalStretch{
		First: s.First, Last: s.End - 1, From: s.From.UTC(), To: s.To.UTC(),
		Bodies: len(l.Entries), Notifications: l.Notifications, Decisions: l.Decisions, Runs: l.Runs, Kept: l.Kept,
	}}, l, nil
}

// finish drops the bodies of segments that an earlier attempt recorded.
func (r *retention) finish(ctx context.Context) error {
	left, err := r.journal.Undropped()
	if err != nil || len(left) == 0 {
		return err
	}
	rule, err := r.rule(r.now())
	if err != nil {
		return err
	}
	for _, s := range left {
		l, err := rule.Leaving(s.First, s.End)
		if err == nil && l.Waits != "" {
			err = errors.New(l.Waits) // unreachable unless the journal is an older copy of itself
		}
		if err == nil {
			err = r.drop(ctx, s, l)
		}
		if err != nil {
			return fmt.Errorf("finish segment %s: %w", s.Segment, err)
		}
	}
	return nil
}

// drop lets the bodies leave the file that a segment has, and records that they did.
func (r *retention) drop(ctx context.Context, s audit.Sealed, l executor.Leaving) error {
	if err := r.journal.Drop(ctx, r.archive, l.Entries); err != nil {
		return err
	}
	return r.journal.Dropped(s)
}

// note remembers how the last attempt ended.
func (r *retention) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return // it was cut off: nothing is known
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = nil
	if err != nil {
		r.failed = &api.JournalFailure{At: r.now().UTC(), Message: err.Error()}
	}
}

// failure returns why the last attempt failed, nil when it did not.
func (r *retention) failure() *api.JournalFailure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Status implements [webhook.Journal].
func (r *retention) Status() (api.JournalStatus, error) {
	at, err := r.journal.Status()
	if err != nil {
		return api.JournalStatus{}, err
	}
	s := statusOf(at)
	s.Keep, s.Archive, s.Failed = playbook.FormatDuration(r.keep), r.archive, r.failure()
	plan, err := r.preview(at.End, segmentSpan)
	s.Next, s.Waits = plan.Stretch, plan.Waits
	return s, journalRefusal(err)
}

// Archive implements [webhook.Journal].
func (r *retention) Archive(ctx context.Context, q api.JournalArchiveRequest) (api.JournalArchive, error) {
	if q.DryRun {
		return r.preview(q.From, 0)
	}
	return r.next(ctx, 0)
}

func statusOf(at audit.Status) api.JournalStatus {
	s := api.JournalStatus{
		Origin: at.Origin, Entries: at.Entries, Archived: at.Archived, Bytes: at.Bytes, Oldest: at.Oldest, Segments: []api.JournalSegment{},
	}
	for _, x := range at.Segments {
		s.Segments = append(s.Segments, SegmentOf(x))
	}
	return s
}

// SegmentOf returns a segment of the archive as the API has it.
func SegmentOf(x audit.Sealed) api.JournalSegment {
	return api.JournalSegment{Segment: x.Segment, First: x.First, Last: x.End - 1, Bytes: x.Bytes, SHA256: x.Digest}
}

// JournalStatus reads a journal's file that no service has open.
func JournalStatus(ctx context.Context, file string) (_ api.JournalStatus, err error) {
	check, err := SelfChecker()
	if err != nil {
		return api.JournalStatus{}, err
	}
	r, err := audit.OpenReader(ctx, file, check)
	if err != nil {
		return api.JournalStatus{}, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	at, err := r.Status()
	return statusOf(at), err
}

// A StoppedJournal is the journal of a service that does not run, to archive it.
type StoppedJournal struct{ r *retention }

// OpenStoppedJournal opens the journal of a configuration. It fails while a service, or
// another tool, has it open.
func OpenStoppedJournal(c config.Journal) (*StoppedJournal, error) {
	if c.Keep < executor.KeepAtLeast {
		return nil, fmt.Errorf("keep %s: it must be at least %s, which the service reads again when it starts", playbook.FormatDuration(c.Keep), playbook.FormatDuration(executor.KeepAtLeast))
	}
	j, err := openJournal(c, nil, nil)
	if err != nil {
		return nil, err
	}
	rule := func(now time.Time) (*executor.Retention, error) { return executor.NewRetention(j, now) }
	return &StoppedJournal{&retention{
		journal: j, keep: c.Keep, archive: c.Archive, rule: rule, now: time.Now, log: slog.New(slog.DiscardHandler),
	}}, nil
}

// Archive archives the next stretch, or says what it would be.
func (s *StoppedJournal) Archive(ctx context.Context, q api.JournalArchiveRequest) (api.JournalArchive, error) {
	return s.r.Archive(ctx, q)
}

// Close closes the journal.
func (s *StoppedJournal) Close() error { return s.r.journal.Close() }

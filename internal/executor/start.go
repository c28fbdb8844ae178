package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// StartRequest is a person's wish for a run. Playbook, Service and By are
// required.
type StartRequest struct {
	Key      string            // who repeats a request with the same key gets the run of the first; empty: it cannot be repeated
	Playbook string            // by name; what it matches is not asked
	Service  string            // of the catalog, by name
	Labels   map[string]string // stand for the labels of an alert; what is read and not among them fails
	Reason   string
	By       string // user:ada
	Person   bool   // the configuration declares whose credential it is
	Refused  string // the right that the person lacks: nothing starts, and it is recorded. Empty: none
}

// Requested is the record of a run that a person asked for. It is written in one
// batch with the run's first events, so that neither is ever there without the
// other.
type Requested struct {
	Run      string            `json:"run"`
	Key      string            `json:"key,omitempty"`
	Playbook string            `json:"playbook"`
	Service  string            `json:"service"`
	Labels   map[string]string `json:"labels,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	By       string            `json:"by"`
}

// RequestRefused is the record of a wish for a run that was not granted: who
// tries what, and why it did not go, is a fact like any other decision's.
type RequestRefused struct {
	Playbook string `json:"playbook"` // as it was written, at most maxWritten characters
	Service  string `json:"service"`  // likewise
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by"`
	Why      string `json:"why"` // it was refused
}

// RightRefused is the record of a request for which somebody lacked a right. About a
// run that can be processed, its own record has it.
type RightRefused struct {
	By      string       `json:"by"`
	Right   rights.Right `json:"right"`
	Service string       `json:"service,omitempty"` // at most maxWritten characters; empty: all, or the right itself is not for the credential
	Why     string       `json:"why"`
}

// Bounds of what is recorded of refused requests: the journal is not for those
// to fill who may ask and get nothing.
const (
	maxRefused   = 60 // within an hour, all together
	maxRefusedBy = 10 // of one person or credential, so that none crowds the others out
	maxWritten   = 64 // characters of a name
)

// requests is what is remembered of runs that people asked for, so that a
// request which is sent again starts nothing. It is a projection of the stream
// control.
type requests struct {
	mu      sync.Mutex // guards all below; a leaf lock
	m       map[requestKey]requested
	since   time.Time      // the hour in which refused ones are counted began
	refused int            // recorded in it
	by      map[string]int // requests of each that were refused in it
}

type requestKey struct{ by, key string }

type requested struct {
	Requested
	at time.Time
}

func newRequests() *requests { return &requests{m: map[requestKey]requested{}} }

func (x *requests) fold(r Requested, at time.Time) {
	if r.Key == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.m[requestKey{r.By, r.Key}] = requested{r, at}
}

func (x *requests) get(by, key string) (Requested, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, ok := x.m[requestKey{by, key}]
	return r.Requested, ok && key != ""
}

// refuse returns what the record of a refused request says; false where enough of
// them are recorded already.
func (x *requests) refuse(by, why string, now time.Time) (string, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if since := now.Sub(x.since); since >= time.Hour || since < 0 {
		x.since, x.refused, x.by = now, 0, map[string]int{}
	}
	if x.refused >= maxRefused || x.by[by] >= maxRefusedBy {
		return "", false
	}
	x.refused++
	x.by[by]++
	if x.refused == maxRefused || x.by[by] == maxRefusedBy {
		why += "; more of them are answered and, until an hour is over, no longer recorded"
	}
	return why, true
}

// prune forgets what is as old as episodes are remembered.
func (x *requests) prune(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.m, func(_ requestKey, r requested) bool { return now.Sub(r.at) > dispatch.EpisodesKept })
}

// StartRun starts a run because a person wants it, and gives its id. From there
// on it goes the way of a run that an alert started: one open run about a
// playbook and a service, pauses, guards, policy, and an autonomy of suggest at most:
// somebody else says yes to what it changes. It is durable when
// StartRun returns. again: it is the run of an earlier request with that key. A
// request that makes sense and is refused is recorded.
func (e *Executor) StartRun(ctx context.Context, q StartRequest) (run string, again bool, err error) {
	if q.By == "" || q.Playbook == "" || q.Service == "" {
		return "", false, fmt.Errorf("%w: a start needs a playbook, a service and who wants it", ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	if err := e.Ready(); err != nil {
		return "", false, err
	}
	t := &task{person: true}
	t.decide = func(b *batch) (err error) {
		run, again, err = b.startByHand(q, t)
		return err
	}
	if err = q.allowed(); err == nil {
		err = e.do(ctx, t)
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrForbidden) {
		e.recordRefused(q, err)
	}
	if err != nil {
		return "", false, err
	}
	return run, again, nil
}

// allowed refuses who may start no run. A credential that auth.people does not list
// may be the second one of somebody who then approves the run.
func (q StartRequest) allowed() error {
	switch {
	case q.Refused != "":
		return fmt.Errorf("%w: %s", ErrForbidden, q.Refused)
	case !q.Person && q.By != machine.Anonymous:
		return fmt.Errorf("%w: only declared people start runs, and auth.people does not list the credential %s", ErrForbidden, q.By)
	default:
		return nil
	}
}

// recordRefused records that a request was refused. Nothing follows from it, so
// that a journal which does not take it changes no answer.
func (e *Executor) recordRefused(q StartRequest, err error) {
	why, record := e.requests.refuse(q.By, err.Error(), e.clock.now())
	if !record {
		return
	}
	r := RequestRefused{Playbook: written(q.Playbook), Service: written(q.Service), Reason: q.Reason, By: q.By, Why: why}
	if err := e.recordControl(KindRequestRefused, r); err != nil {
		e.log.Error("the journal did not take a refused request for a run", "playbook", r.Playbook, "err", err)
	}
}

// RecordRefused records that somebody lacked a right about a service; empty: about all of
// them. Nothing follows from it, as of every refused request.
func (e *Executor) RecordRefused(by string, right rights.Right, service, why string) {
	if e.Ready() != nil {
		return
	}
	why, record := e.requests.refuse(by, why, e.clock.now())
	if !record {
		return
	}
	if err := e.recordControl(KindRightRefused, RightRefused{By: by, Right: right, Service: written(service), Why: why}); err != nil {
		e.log.Error("journal did not take a refused request", "by", by, "err", err)
	}
}

// written shortens a name as somebody wrote it.
func written(name string) string { return fmt.Sprintf("%.*s", maxWritten, name) }

// startByHand stages the request and the run's beginning, or finds the run that
// the same request started before.
func (b *batch) startByHand(q StartRequest, t *task) (run string, again bool, err error) {
	e := b.e
	if was, ok := e.requests.get(q.By, q.Key); ok {
		if was.Playbook != q.Playbook || was.Service != q.Service || was.Reason != q.Reason || !maps.Equal(was.Labels, q.Labels) {
			return "", false, fmt.Errorf("%w: key %q was used for another request, which started run %s; use a new key for a new request", ErrConflict, q.Key, was.Run)
		}
		return was.Run, true, nil
	}
	p, svc, err := b.wanted(q)
	if err != nil {
		return "", false, err
	}
	start := machine.Start{
		Run: e.ids.next(b.now), Playbook: p.Name, Digest: p.Digest, Service: svc, Autonomy: min(e.o.Autonomy, playbook.Suggest), By: q.By, Reason: q.Reason,
		Alert: playbook.Alert{Labels: maps.Clone(q.Labels), StartsAt: b.now},
	}
	if open := b.about(keyOf(start)); open != nil {
		return "", false, fmt.Errorf("%w: run %s of playbook %s on %s is open already; 'responder runs show %s' says where it stands", ErrConflict, open.id, p.Name, svc.Name, open.id)
	}
	if err := b.start(start, p, nil); err != nil {
		return "", false, fmt.Errorf("%w: the run cannot start: %s", ErrConflict, strings.TrimPrefix(err.Error(), "executor: "))
	}
	record := Requested{Run: start.Run, Key: q.Key, Playbook: q.Playbook, Service: q.Service, Labels: q.Labels, Reason: q.Reason, By: q.By}
	b.record(KindRunRequested, record)
	t.then = func() { e.requests.fold(record, b.now) }
	return start.Run, false, nil
}

// wanted finds the playbook and the service of a request, and says why no run
// may start.
func (b *batch) wanted(q StartRequest) (*playbook.Playbook, playbook.Service, error) {
	var svc playbook.Service
	e, p := b.e, b.set.ByName(q.Playbook)
	if p == nil {
		return nil, svc, fmt.Errorf("%w: no playbook is named %.*q; 'responder playbook list --server URL' shows those in force", ErrNotFound, maxWritten, q.Playbook)
	}
	var all []playbook.Service
	var unsure error
	if e.o.Catalog != nil {
		all, unsure = e.o.Catalog()
	}
	i := slices.IndexFunc(all, func(s playbook.Service) bool { return s.Name == q.Service })
	switch {
	case i < 0 && unsure != nil:
		return nil, svc, fmt.Errorf("%w: the catalog cannot say whether there is a service %.*q: %w; try again in a moment", ErrConflict, maxWritten, q.Service, unsure)
	case i < 0:
		return nil, svc, fmt.Errorf("%w: no service is named %.*q; 'responder services' lists them", ErrNotFound, maxWritten, q.Service)
	case !p.Serves(q.Service):
		return nil, svc, fmt.Errorf("%w: playbook %s is for other services than %s", ErrInvalid, q.Playbook, q.Service)
	}
	if why := e.pauses.why(q.Service, q.Playbook); why != "" {
		return nil, svc, fmt.Errorf("%w: %s; no run starts until that is lifted", ErrConflict, why)
	}
	if e.countOpen() >= e.o.MaxOpenRuns {
		return nil, svc, fmt.Errorf("%w: %d runs are open already", ErrConflict, e.o.MaxOpenRuns)
	}
	return p, all[i], nil
}

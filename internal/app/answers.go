package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Limits of what pages ask of Prometheus.
const (
	answerTimeout = 2 * time.Second // a page waits no longer
	mostAnswers   = 64              // that are kept
	failedFresh   = time.Minute     // a failure is kept no longer
)

// errUnanswered is for people.
var errUnanswered = errors.New("no answer from Prometheus in time")

// answers keeps for a moment what Prometheus answered for pages, failures too, so that many
// viewers cost one query.
type answers[T any] struct {
	now    func() time.Time
	fresh  time.Duration // how long an answer serves all viewers
	within time.Duration // for an answer, which comes after a viewer has left, too

	flight singleflight.Group
	mu     sync.Mutex // guards kept
	kept   map[string]answer[T]
}

type answer[T any] struct {
	at    time.Time
	value T
	err   error
}

func newAnswers[T any](now func() time.Time, fresh time.Duration) *answers[T] {
	return &answers[T]{now: now, fresh: fresh, within: answerTimeout, kept: map[string]answer[T]{}}
}

// get returns the answer that is kept, or asks for one. Viewers who come meanwhile wait for
// the same one.
func (a *answers[T]) get(ctx context.Context, key string, ask func(context.Context) (T, error)) (T, error) {
	if k, ok := a.recent(key); ok {
		return k.value, k.err
	}
	asked := a.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.within)
		defer cancel()
		value, err := ask(ctx)
		if err != nil && ctx.Err() != nil {
			err = errUnanswered
		}
		a.keep(key, answer[T]{a.now(), value, err})
		return value, err
	})
	select {
	case r := <-asked:
		return r.Val.(T), r.Err //nolint:forcetypeassert // the function above returns nothing else
	case <-ctx.Done():
		var none T
		return none, errUnanswered
	}
}

func (a *answers[T]) recent(key string) (answer[T], bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.kept[key]
	age := a.now().Sub(k.at)
	fresh := a.fresh
	if k.err != nil {
		fresh = min(fresh, failedFresh)
	}
	return k, ok && age >= 0 && age < fresh
}

// keep keeps an answer in place of those that are too old, or of any when there are many.
func (a *answers[T]) keep(key string, k answer[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, old := range a.kept {
		if len(a.kept) >= mostAnswers || k.at.Sub(old.at) >= a.fresh {
			delete(a.kept, other)
		}
	}
	a.kept[key] = k
}

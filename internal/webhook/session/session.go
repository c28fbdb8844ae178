// Package session holds what a signed-in browser is known by: the [Store] of sessions, and
// the sealed [Attempt] of a sign-in under way.
//
// A session is an opaque random id in a cookie and a record in this process. Only a hash
// of the id is kept. Nothing is written to disk, so a restart signs everybody out. The
// package knows neither HTTP nor who people are; package webhook, the only caller, does.
package session

import (
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// Grace is how long an id is still accepted after the one that replaced it was first
// used, so that requests under way are not cut off.
const Grace = time.Minute

// Limits bound sessions.
type Limits struct {
	Lifetime  time.Duration // of a session, however much it is used
	Idle      time.Duration // without use
	Rotate    time.Duration // after which a session gets a new id
	PerPerson int           // sessions of one person; one more ends the one that was unused longest
	All       int           // sessions; likewise
}

// Store keeps sessions, each with a value. It is safe for concurrent use.
type Store[T any] struct {
	limits Limits

	reused func(person string) // called when a session ends because an old id of it came again

	mu     sync.Mutex // guards everything below
	byID   map[hash]*record[T]
	recent *list.List // of *record[T]; the most recently used is first
}

// hash is the hash of an id. The zero hash is no id.
type hash [sha256.Size]byte

// record is one session. It has up to three ids: a new one replaces the current one
// when the browser uses it, since an answer with a new cookie may get lost. Ids before
// those are remembered, so that a copy of one is noticed.
type record[T any] struct {
	person      string
	value       T
	began, used time.Time
	id          hash
	since       time.Time // when id became current
	next        hash      // given to the browser and not used yet; zero: none
	offered     time.Time // when next was
	last        hash      // the one before id; zero: none
	lastUntil   time.Time
	old         []hash // before last, of which none may come again; at most Lifetime / Rotate
	at          *list.Element
}

// Session is one session, as [Store.All] lists it.
type Session[T any] struct {
	Person      string
	Value       T
	Began, Used time.Time
}

// NewStore returns an empty store. All limits are required. reused must not call it.
func NewStore[T any](l Limits, reused func(person string)) *Store[T] {
	return &Store[T]{limits: l, reused: reused, byID: map[hash]*record[T]{}, recent: list.New()}
}

// Open begins a session and returns its id, which is new.
func (s *Store[T]) Open(person string, value T, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(person)
	id, h := newID()
	r := &record[T]{person: person, value: value, began: now, used: now, id: h, since: now}
	r.at = s.recent.PushFront(r)
	s.byID[h] = r
	return id
}

// Get returns the value of a session, and false if there is none or it has expired. With
// touch the session counts as used now.
func (s *Store[T]) Get(id string, now time.Time, touch bool) (value T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, h := s.find(id, now)
	if r == nil {
		return value, false
	}
	if h == r.next {
		if r.last != (hash{}) {
			r.old = append(r.old, r.last)
		}
		r.last, r.lastUntil = r.id, now.Add(Grace)
		r.id, r.since, r.next = h, now, hash{}
	}
	if touch {
		r.used = now
		s.recent.MoveToFront(r.at)
	}
	return r.value, true
}

// Rotate returns a new id for a session, and false if its present id is not due to be
// replaced. The present id is accepted until the new one is used.
func (s *Store[T]) Rotate(id string, now time.Time) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, h := s.find(id, now)
	if r == nil || h != r.id || now.Sub(r.since) < s.limits.Rotate || r.next != (hash{}) && now.Sub(r.offered) < Grace {
		return "", false
	}
	delete(s.byID, r.next)
	fresh, next := newID()
	r.next, r.offered = next, now
	s.byID[next] = r
	return fresh, true
}

// Close ends a session, and reports whether there was one.
func (s *Store[T]) Close(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _ := s.find(id, now)
	if r != nil {
		s.remove(r)
	}
	return r != nil
}

// CloseIf ends the sessions for whose person it holds, and returns how many of them had
// not expired.
func (s *Store[T]) CloseIf(holds func(person string) bool, now time.Time) (closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.recent.Front(); e != nil; {
		r := e.Value.(*record[T]) //nolint:forcetypeassert // the list holds nothing else
		if e = e.Next(); !holds(r.person) {
			continue
		}
		if !s.expired(r, now) {
			closed++
		}
		s.remove(r)
	}
	return closed
}

// All lists the sessions that have not expired, the most recently used first.
func (s *Store[T]) All(now time.Time) []Session[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Session[T]
	for e := s.recent.Front(); e != nil; e = e.Next() {
		r := e.Value.(*record[T]) //nolint:forcetypeassert // the list holds nothing else
		if !s.expired(r, now) {
			all = append(all, Session[T]{r.person, r.value, r.began, r.used})
		}
	}
	return all
}

func (s *Store[T]) expired(r *record[T], now time.Time) bool {
	return now.Sub(r.began) >= s.limits.Lifetime || now.Sub(r.used) >= s.limits.Idle
}

// find returns the session of an id; nil: there is none. It removes a session that has
// expired. It also removes a session whose id was replaced more than [Grace] ago: then two
// browsers have the session, and nothing tells which of them is the person's.
func (s *Store[T]) find(id string, now time.Time) (*record[T], hash) {
	h := hash(sha256.Sum256([]byte(id)))
	r := s.byID[h]
	switch {
	case r == nil:
		return nil, h
	case s.expired(r, now):
		s.remove(r)
		return nil, h
	case h == r.last && !now.Before(r.lastUntil), slices.Contains(r.old, h):
		s.remove(r)
		s.reused(r.person)
		return nil, h
	}
	return r, h
}

// makeRoom ends the sessions that were unused longest, until the person may have one more.
func (s *Store[T]) makeRoom(person string) {
	own := 1
	for e := s.recent.Front(); e != nil; {
		r := e.Value.(*record[T]) //nolint:forcetypeassert // the list holds nothing else
		e = e.Next()
		if r.person != person {
			continue
		}
		if own++; own > s.limits.PerPerson {
			s.remove(r)
		}
	}
	for s.recent.Len() >= s.limits.All {
		s.remove(s.recent.Back().Value.(*record[T])) //nolint:forcetypeassert // as above
	}
}

func (s *Store[T]) remove(r *record[T]) {
	for _, h := range append([]hash{r.id, r.next, r.last}, r.old...) {
		delete(s.byID, h)
	}
	s.recent.Remove(r.at)
}

// newID returns a random id of 26 characters, and its hash.
func newID() (string, hash) {
	id := rand.Text()
	return id, hash(sha256.Sum256([]byte(id)))
}

// Package session holds what a signed-in browser is known by: the [Store] of sessions,
// the sealed [Attempt] of a sign-in under way, and the [LocalPath] that it goes back to.
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
	old         []hash // before last, of which none may come again
	at          *list.Element
}

// maxOld bounds the ids of a session that are remembered: a week of the shortest use.
const maxOld = 700

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

// Get returns the value of a session, and false if there is none, or no more. Without
// touch the session is not taken for used.
func (s *Store[T]) Get(id string, now time.Time, touch bool) (value T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, h := s.find(id, now)
	if r == nil {
		return value, false
	}
	if h == r.next {
		s.retire(r)
		r.last, r.lastUntil = r.id, now.Add(Grace)
		r.id, r.since, r.next = h, now, hash{}
	}
	if touch {
		r.used = now
		s.recent.MoveToFront(r.at)
	}
	return r.value, true
}

// Rotate returns a new id for a session whose id is old, and false if it is not. The
// present id is accepted until the new one is used.
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

// Close ends a session.
func (s *Store[T]) Close(id string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, _ := s.find(id, now); r != nil {
		s.remove(r)
	}
}

// CloseAll ends the sessions of a person.
func (s *Store[T]) CloseAll(person string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.recent.Front(); e != nil; {
		r := e.Value.(*record[T]) //nolint:forcetypeassert // the list holds nothing else
		if e = e.Next(); r.person == person {
			s.remove(r)
		}
	}
}

// Len returns the number of sessions, of which some may have expired.
func (s *Store[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recent.Len()
}

// find returns the session of an id. It removes one that has expired, and one of which an
// id comes that was replaced a while ago: two browsers have it, and nothing tells which
// of them is the person's.
func (s *Store[T]) find(id string, now time.Time) (*record[T], hash) {
	h := hash(sha256.Sum256([]byte(id)))
	r := s.byID[h]
	switch {
	case r == nil:
		return nil, h
	case now.Sub(r.began) >= s.limits.Lifetime || now.Sub(r.used) >= s.limits.Idle:
		s.remove(r)
		return nil, h
	case h == r.last && !now.Before(r.lastUntil), slices.Contains(r.old, h):
		s.remove(r)
		s.reused(r.person)
		return nil, h
	}
	return r, h
}

// retire moves the last id to the old ones.
func (s *Store[T]) retire(r *record[T]) {
	if r.last == (hash{}) {
		return
	}
	if r.old = append(r.old, r.last); len(r.old) > maxOld {
		delete(s.byID, r.old[0])
		r.old = r.old[1:]
	}
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

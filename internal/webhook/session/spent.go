package session

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// maxSpent bounds the attempts that are remembered; they take a few MiB.
const maxSpent = 1 << 15

// Spent remembers the attempts that were answered, so that each is answered once: a
// copied cookie has the same state. It forgets none that [Sealer.Open] would still open.
// The zero value is empty. It is safe for concurrent use.
type Spent struct {
	mu    sync.Mutex // guards everything below
	known map[hash]bool
	order list.List // of spentState; the oldest is first
}

type spentState struct {
	state hash
	until time.Time
}

// ErrSpent reports a state that was spent before. ErrFull reports that no more states can
// be remembered for now: whoever calls bounds how many of them one address can spend.
var (
	ErrSpent = errors.New("the answer was taken before")
	ErrFull  = errors.New("too many sign-ins are under way")
)

// Spend spends a state. Its error is [ErrSpent] or [ErrFull].
func (s *Spent) Spend(state string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[hash]bool{}
	}
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		oldest := e.Value.(spentState) //nolint:forcetypeassert // the list holds nothing else
		if now.Before(oldest.until) {
			break
		}
		delete(s.known, oldest.state)
		s.order.Remove(e)
	}
	h := hash(sha256.Sum256([]byte(state)))
	switch {
	case s.known[h]:
		return ErrSpent
	case len(s.known) >= maxSpent:
		return ErrFull
	}
	s.known[h] = true
	s.order.PushBack(spentState{h, now.Add(MaxAttempt + time.Nanosecond)}) // an attempt opens at MaxAttempt still
	return nil
}

package session

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// maxSpent bounds the attempts that are remembered.
const maxSpent = 4096

// Spent remembers the attempts that were answered, so that each is answered once: a
// copied cookie has the same state. The zero value is empty. It is safe for concurrent use.
type Spent struct {
	mu    sync.Mutex // guards everything below
	known map[hash]bool
	order list.List // of spentState; the oldest is first
}

type spentState struct {
	state hash
	until time.Time
}

// Spend reports whether the state was not spent before, and spends it.
func (s *Spent) Spend(state string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[hash]bool{}
	}
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		oldest := e.Value.(spentState) //nolint:forcetypeassert // the list holds nothing else
		if now.Before(oldest.until) && len(s.known) < maxSpent {
			break
		}
		delete(s.known, oldest.state)
		s.order.Remove(e)
	}
	h := hash(sha256.Sum256([]byte(state)))
	if s.known[h] {
		return false
	}
	s.known[h] = true
	s.order.PushBack(spentState{h, now.Add(MaxAttempt)})
	return true
}

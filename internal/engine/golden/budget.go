package golden

import (
	"fmt"
	"sync"
	"time"
)

// budget is what one service may be asked, over all runs of the process. It may be
// used by many goroutines.
type budget struct {
	perHour int
	every   time.Duration

	mu    sync.Mutex  // guards what follows: two runs never spend the same tokens
	spent []*spending // of the last hour, oldest first
	last  map[string]time.Time
	busy  map[string]bool
}

type spending struct {
	at     time.Time
	tokens int
}

func newBudget(perHour int, every time.Duration) *budget {
	return &budget{perHour: perHour, every: every, last: map[string]time.Time{}, busy: map[string]bool{}}
}

// take reserves tokens for one target, and the target itself until the returned
// function is called with what of them was not used. Otherwise why says what is in
// the way.
func (b *budget) take(target string, tokens int, now time.Time) (giveBack func(unused int), why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(now)
	again := b.last[target].Add(b.every)
	switch {
	case tokens > b.perHour:
		return nil, fmt.Sprintf("its prompts cost about %d tokens, probe.tokens_per_hour is %d", tokens, b.perHour)
	case b.busy[target]:
		return nil, "another run is asking it"
	case now.Before(again):
		return nil, "asked a moment ago, again at " + clock(again)
	}
	used := 0
	for _, s := range b.spent {
		used += s.tokens
	}
	for i := 0; used+tokens > b.perHour; i++ {
		used -= b.spent[i].tokens
		if used+tokens <= b.perHour {
			return nil, "probe budget spent until " + clock(b.spent[i].at.Add(time.Hour))
		}
	}
	mine := &spending{now, tokens}
	b.spent = append(b.spent, mine)
	b.busy[target], b.last[target] = true, now
	return func(unused int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.busy, target)
		mine.tokens -= unused
	}, ""
}

// forget drops what no longer counts.
func (b *budget) forget(now time.Time) {
	kept := b.spent[:0]
	for _, s := range b.spent {
		if now.Sub(s.at) < time.Hour {
			kept = append(kept, s)
		}
	}
	b.spent = kept
	for target, at := range b.last {
		if now.Sub(at) >= b.every && !b.busy[target] {
			delete(b.last, target)
		}
	}
}

// asked returns when a target was asked last, as far as that matters.
func (b *budget) asked(target string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last[target]
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05") + " UTC" }

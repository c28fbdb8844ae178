package webhook

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// shareOver is how long it takes until a sender that stored its share may store as
	// much again. It may store some of it all the time, so that an Alertmanager in a storm
	// is slowed down and not shut out.
	shareOver = 24 * time.Hour
	// leastShare is what a sender may store in that time on any volume, in bytes.
	leastShare = 16 << 20
	// entryBytes is what the journal's file takes for the two entries of a notification
	// beside its text, as measured of many small ones.
	entryBytes = 512
	// decidedBytes is what it takes for what became of an alert.
	decidedBytes = 96
	// refusedFor is how long a refusal is told of.
	refusedFor = 10 * time.Minute
	// calmFor is how long a sender must not be refused before the log is told that it is
	// accepted again: one that floods is accepted now and then.
	calmFor = 2 * time.Hour
)

// stored is what a sender stored, less what it may have stored since: a bucket that
// leaks a share in [shareOver].
type stored struct {
	bytes float64
	at    time.Time // when bytes was right
}

// leak takes off what a sender with that limit may store in the time since.
func (s *stored) leak(limit int64, now time.Time) {
	if past := now.Sub(s.at); !s.at.IsZero() && past > 0 {
		s.bytes = max(0, s.bytes-float64(limit)*past.Hours()/shareOver.Hours())
	}
	s.at = now
}

// limitOf returns what a sender may store at once while that much room is left for all.
// What it stored itself is part of the room that is shared.
func (q *quotas) limitOf(s stored, left int64) int64 {
	return max(leastShare, (max(0, left)+int64(s.bytes))/100*int64(q.Share))
}

// fits reports whether so many more bytes are within a sender's share of the journal's
// room, and how long it has to wait for them if not.
func (q *quotas) fits(name string, size, left int64, now time.Time) (ok bool, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of(name)
	limit := q.limitOf(s.stored, left)
	s.stored.leak(limit, now)
	over := s.stored.bytes + float64(size) - float64(limit)
	if over <= 0 || s.stored.bytes == 0 { // one that is larger than a share is let in alone
		return true, 0
	}
	return false, min(time.Duration(over/float64(limit)*float64(shareOver)), shareOver) + time.Second
}

// took returns what a notification of that many alerts and bytes takes of the journal.
func took(alerts, bytes int64) int64 { return entryBytes + bytes + alerts*decidedBytes }

// store counts the bytes of a notification that was stored, and reports whether its
// sender is no longer refused.
func (q *quotas) store(name string, alerts, bytes int, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of(name)
	if s.stored.at.IsZero() {
		s.stored.at = now
	}
	s.stored.bytes += float64(took(int64(alerts), int64(bytes)))
	again := !s.full.IsZero() && now.Sub(s.full) >= calmFor
	if again {
		s.full = time.Time{}
	}
	return again
}

// Stored is a notification that was stored before the start.
type Stored struct {
	Sender        string
	Alerts, Bytes int
	At            time.Time
}

// recall counts what senders stored before a time, as if there had been no start since.
// What was left then is not known, so that what is left now counts.
func (q *quotas) recall(all iter.Seq2[Stored, error], left int64, before time.Time) error {
	earlier := map[string]stored{}
	for n, err := range all {
		if err != nil {
			return err
		}
		if _, known := earlier[n.Sender]; !n.At.Before(before) || !known && len(earlier) >= maxSenders {
			continue
		}
		s := earlier[n.Sender]
		s.leak(q.limitOf(s, left), n.At)
		s.bytes += float64(took(int64(n.Alerts), int64(n.Bytes)))
		earlier[n.Sender] = s
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, e := range earlier {
		s := q.of(name)
		e.leak(q.limitOf(e, left), before)
		if s.stored.at.IsZero() {
			s.stored.at = before
		}
		s.stored.bytes += e.bytes
	}
	return nil
}

// roomAgain is how soon a room that is unknown is asked for again.
const roomAgain = 10 * time.Second

// recallShares reads what senders stored before the server began to serve. Meanwhile their
// share is counted from then on.
func (s *Server) recallShares(ctx context.Context, began time.Time) {
	if s.o.Earlier == nil || s.o.Left == nil {
		return
	}
	left, known := s.o.Left()
	for warned := false; !known; left, known = s.o.Left() {
		if !warned {
			s.log.Warn("the room on the journal's volume is unknown: each sender has its whole share of the journal again until it is known")
			warned = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(roomAgain):
		}
	}
	if err := s.quotas.recall(s.o.Earlier(ctx, began.Add(-shareOver)), left, began); err != nil && ctx.Err() == nil {
		s.log.Warn("what senders stored before the start cannot be read: each has its whole share of the journal again", "err", err)
	}
}

// overShare returns how many senders were just refused because of their share.
func (q *quotas) overShare(now time.Time) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.senders {
		if !s.full.IsZero() && now.Sub(s.full) < refusedFor {
			n++
		}
	}
	return n
}

// setFull records that a sender is refused because of its share, and reports whether
// that is new.
func (q *quotas) setFull(name string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of(name)
	news := s.full.IsZero()
	s.full = now
	return news
}

// withinShare refuses a notification of that many alerts and bytes if its sender has
// no room for it in the journal, and tells the log when that begins and ends.
func (s *Server) withinShare(c echo.Context, name string, alerts, size int64) error {
	if s.o.Left == nil {
		return nil
	}
	left, known := s.o.Left()
	if !known {
		return nil // the journal says itself when it cannot write
	}
	ok, wait := s.quotas.fits(name, took(alerts, size), left, time.Now())
	if ok {
		return nil
	}
	if s.quotas.setFull(name, time.Now()) {
		s.log.Warn("a sender's notifications are refused: it stored its share of the room in the journal, faster than a share in a day; others are accepted; if it is no storm of alerts, its credential may be stolen: replace it",
			"sender", name, "share_percent", s.quotas.Share, "left_bytes", left)
	}
	c.Response().Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(wait.Seconds()), 'f', 0, 64))
	return problem(http.StatusServiceUnavailable, codeQuota,
		fmt.Sprintf("%s stored its share of the room in the journal: %d %%, and as much again in a day", name, s.quotas.Share),
		"try again later; receiver.quota.share of the configuration sets it, and more room on the volume of journal.dir raises it")
}

// stores counts what a notification took of its sender's share.
func (s *Server) stores(name string, alerts, bytes int) {
	if s.quotas.store(name, alerts, bytes, time.Now()) {
		s.log.Info("a sender's notifications are accepted again", "sender", name)
	}
}

// overShare says how many senders are refused because of their share; empty: none.
func (s *Server) overShare() string {
	n := s.quotas.overShare(time.Now())
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("senders whose notifications are refused, because they used up their share of the room in the journal: %d; the log names them", n)
}

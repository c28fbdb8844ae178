package webhook

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// shareHours is for how long stored bytes count against a sender's share: a day, and
	// the hour under way.
	shareHours = 24 + 1
	// leastShare is what a sender may store in that time on any volume, in bytes.
	leastShare = 16 << 20
	// decidedBytes is what the journal stores of an alert besides its notification, for
	// what became of it.
	decidedBytes = 64
	// refusedFor is how long a refusal is told of, and a sender must not be refused before
	// the log is told that it is accepted again.
	refusedFor = 10 * time.Minute
)

// stored counts the bytes that a sender stored, by hours.
type stored struct {
	hour  int64 // since 1970, of the last addition
	bytes [shareHours]int64
}

// forward forgets hours that no longer count.
func (s *stored) forward(now time.Time) {
	hour := now.Unix() / 3600
	for h := max(s.hour+1, hour-shareHours+1); h <= hour; h++ {
		s.bytes[h%shareHours] = 0
	}
	s.hour = max(s.hour, hour)
}

func (s *stored) add(n int64, now time.Time) {
	s.forward(now)
	s.bytes[s.hour%shareHours] += n
}

func (s *stored) sum(now time.Time) (n int64) {
	s.forward(now)
	for _, b := range s.bytes {
		n += b
	}
	return n
}

// wait returns how long it takes until the oldest of the bytes no longer count.
func (s *stored) wait(now time.Time) time.Duration {
	s.forward(now)
	for h := s.hour - shareHours + 1; h < s.hour; h++ {
		if s.bytes[h%shareHours] > 0 {
			return time.Unix((h+shareHours)*3600, 0).Sub(now)
		}
	}
	return shareHours * time.Hour
}

// shareOf returns what a sender stored, and what it may store while that much room is
// left for all. What it stored itself is part of the room that is shared.
func (q *quotas) shareOf(s *sender, left int64, now time.Time) (stored, limit int64) {
	stored = s.stored.sum(now)
	return stored, max(leastShare, (max(0, left)+stored)/100*int64(q.Share))
}

// fits reports whether so many more bytes are within a sender's share of the journal's
// room, and how long it has to wait for the next ones if not.
func (q *quotas) fits(name string, size, left int64, now time.Time) (ok bool, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of(name)
	if stored, limit := q.shareOf(s, left, now); stored+size <= limit {
		return true, 0
	}
	return false, s.stored.wait(now)
}

// store counts the bytes of a notification that was stored, and reports whether its
// sender is no longer refused.
func (q *quotas) store(name string, alerts, bytes int, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of(name)
	s.stored.add(int64(bytes)+int64(alerts)*decidedBytes, now)
	again := !s.full.IsZero() && now.Sub(s.full) >= refusedFor
	if again {
		s.full = time.Time{}
	}
	return again
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
	ok, wait := s.quotas.fits(name, size+alerts*decidedBytes, left, time.Now())
	if ok {
		return nil
	}
	if s.quotas.setFull(name, time.Now()) {
		s.log.Warn("a sender's notifications are refused: within a day it stored its share of the room in the journal; others are accepted; if it is no storm of alerts, its credential may be stolen: replace it",
			"sender", name, "share_percent", s.quotas.Share, "left_bytes", left)
	}
	c.Response().Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(wait.Seconds()), 'f', 0, 64))
	return problem(http.StatusServiceUnavailable, codeQuota,
		fmt.Sprintf("%s stored its share of the room in the journal within a day: %d %%", name, s.quotas.Share),
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

package webhook

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Quota bounds what one sender delivers, so that a stolen credential neither fills the
// journal's volume nor makes the service remember alerts without end. An alert counts
// as one, and each KiB of its notification as one more. What exceeds it is answered
// 503, as everything that Alertmanager has to deliver again.
type Quota struct {
	Burst int // at once
	Rate  int // a second
	// Share is how much of the room in the journal it may use up at once, and again in each
	// day, in per cent, 1 to 100; default 25. It is measured against what is left, so that
	// one sender alone takes weeks to fill the volume.
	Share int
}

// maxSenders bounds the senders that have a quota of their own. They are credentials of
// the configuration, and people of an issuer.
const maxSenders = 1024

// quotas keeps what each sender has left.
type quotas struct {
	Quota
	mu      sync.Mutex // guards everything below
	senders map[string]*sender
}

// sender is one credential.
type sender struct {
	left    *rate.Limiter
	refused bool      // since it had half of its burst
	stored  stored    // of late; see [stored]
	full    time.Time // when a notification last did not fit its share; zero: long ago
	crowded time.Time // when the log was last told that its bodies hold most
}

func newQuotas(q Quota) *quotas { return &quotas{Quota: q, senders: map[string]*sender{}} }

// spent reports, before a body of that size is read, whether a sender has too little
// left for it; a negative size is unknown.
func (q *quotas) spent(name string, size int64, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of(name).left.TokensAt(now) < float64(min(max(1, size>>10), int64(q.Burst)))
}

// take takes the cost of a notification, or nothing and false. One that costs more than
// a whole burst takes all of it.
func (q *quotas) take(name string, alerts, size int, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of(name).left.AllowN(now, min(alerts+size>>10, q.Burst))
}

// refuse records that the sender's notification was refused, and reports whether that
// is new.
func (q *quotas) refuse(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of(name)
	news := !s.refused
	s.refused = true
	return news
}

// crowds reports whether the log is to be told that a sender's bodies hold most: it was not
// of late.
func (q *quotas) crowds(name string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of(name)
	news := now.Sub(s.crowded) >= refusedFor
	if news {
		s.crowded = now
	}
	return news
}

// recovered reports whether a sender that was refused has half of its burst again: one
// that stays at its limit is told of once.
func (q *quotas) recovered(name string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of(name)
	if !s.refused || s.left.TokensAt(now) < float64(q.Burst)/2 {
		return false
	}
	s.refused = false
	return true
}

// of returns a sender. Where there are too many, the others share one quota.
func (q *quotas) of(name string) *sender {
	if _, ok := q.senders[name]; !ok && len(q.senders) >= maxSenders {
		name = ""
	}
	s, ok := q.senders[name]
	if !ok {
		s = &sender{left: rate.NewLimiter(rate.Limit(q.Rate), q.Burst)}
		q.senders[name] = s
	}
	return s
}

const codeQuota = "quota"

// overQuota refuses a notification, and tells the log when that begins.
func (s *Server) overQuota(name string) error {
	if s.quotas.refuse(name) {
		s.log.Warn("a sender's notifications are refused: it delivers more than its quota; if it is no storm of alerts, its credential may be stolen: replace it",
			"sender", name, "burst", s.quotas.Burst, "rate", s.quotas.Rate)
	}
	return problem(http.StatusServiceUnavailable, codeQuota,
		fmt.Sprintf("%s delivered more than its quota of %d alerts and KiB at once, and %d a second", name, s.quotas.Burst, s.quotas.Rate),
		"try again; receiver.quota of the configuration sets it")
}

// withinQuota tells the log when a sender is no longer refused.
func (s *Server) withinQuota(name string) {
	if s.quotas.recovered(name, time.Now()) {
		s.log.Info("a sender's notifications are accepted again", "sender", name)
	}
}

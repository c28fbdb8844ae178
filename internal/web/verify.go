package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Verification is what verifying the log found, in the words of 'responder audit verify'.
type Verification struct {
	Standing string // intact, or what it is instead
	Intact   bool
	Wrong    string      // and where; empty: nothing
	Facts    [][2]string // a name and a text each
}

// restShare bounds what people who have the log verified again and again cost: after each
// time, none begins for so many times as long as it took, and not for restLeast.
const (
	restShare = 9
	restLeast = 10 * time.Second
)

// verifying is the verification of the log that is under way, or the last one.
type verifying struct {
	mu    sync.Mutex // guards the rest
	state verifyingState
	began time.Time // by the real clock, as rest
	rest  time.Time // none begins before it
}

// verifyingState is what the page shows of it.
type verifyingState struct {
	By          string    // empty: nobody had the log verified since the start
	At          time.Time // when it began
	Running     bool
	Done, Total uint64 // entries, while it is running
	Took        time.Duration
	Found       Verification
	Why         string        // it came to no result
	Rest        time.Duration // none begins before it is over
}

// now returns the state at this moment.
func (x *verifying) now() verifyingState {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.state
	out.Rest = max(0, time.Until(x.rest))
	return out
}

// begin reports whether a verification may begin, and takes its turn.
func (x *verifying) begin(by string, at time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state.Running || time.Until(x.rest) > 0 {
		return false
	}
	x.state, x.began = verifyingState{By: by, At: at, Running: true}, time.Now()
	return true
}

func (x *verifying) progress(done, total uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state.Done, x.state.Total = done, total
}

// end records a result; why: there is none.
func (x *verifying) end(found Verification, why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state.Running, x.state.Found, x.state.Why, x.state.Took = false, found, why, time.Since(x.began)
	x.rest = time.Now().Add(max(restLeast, restShare*x.state.Took))
}

// Verify has the log verified for a visitor, as long as the request lasts, and sends the
// browser to the page that shows what was found. While it is verified for somebody else,
// or was just now, the page says so.
func (s *Site) Verify(w http.ResponseWriter, r *http.Request, v Visitor) {
	if s.verifying.begin(v.Name, s.o.Now()) {
		s.verify(r.Context())
	}
	// Relative, so that it is right behind a proxy that adds a prefix.
	w.Header().Set("Location", "../audit#verify")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
}

func (s *Site) verify(ctx context.Context) {
	why := "it broke off: the service's log shows why"
	var found Verification
	defer func() { s.verifying.end(found, why) }() // also of one that panics
	var err error
	switch found, err = s.o.Log.Verify(ctx, s.verifying.progress); {
	case err == nil:
		why = ""
	case errors.Is(err, context.Canceled):
		why = "it was cancelled: whoever began it left the page"
	default:
		s.o.Logger.Error("audit page cannot verify the log", "err", err)
	}
}

package notifytest

import (
	"net/http"
	"sync"
)

// Fault is an answer given in place of the right one.
type Fault struct {
	Status int
	Header map[string]string
	Body   string
	Lose   bool // do the right thing, then cut the connection: the answer is lost
	Hang   bool // do the right thing, then say nothing until the caller has gone
}

// Faults are the faults still to come. The zero value has none.
type Faults struct {
	mu   sync.Mutex // guards next and seen
	next []Fault
	seen int
}

// Fail makes the next requests go wrong, one fault each.
func (f *Faults) Fail(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = append(f.next, faults...)
}

// Seen returns the number of requests so far.
func (f *Faults) Seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// serve answers with the next fault, or hands over.
func (f *Faults) serve(w http.ResponseWriter, r *http.Request, right http.HandlerFunc) {
	f.mu.Lock()
	f.seen++
	var fault Fault
	if len(f.next) > 0 {
		fault, f.next = f.next[0], f.next[1:]
	}
	f.mu.Unlock()
	switch {
	case fault.Hang:
		right(discard{}, r)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case fault.Lose:
		right(discard{}, r)
		panic(http.ErrAbortHandler) // the server's own way to cut the connection
	case fault.Status != 0:
		for k, v := range fault.Header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(fault.Status)
		_, _ = w.Write([]byte(fault.Body)) // the client may have gone
	default:
		right(w, r)
	}
}

// discard is an answer nobody gets.
type discard struct{}

// Header implements [http.ResponseWriter].
func (discard) Header() http.Header { return http.Header{} }

// Write implements [http.ResponseWriter].
func (discard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements [http.ResponseWriter].
func (discard) WriteHeader(int) {}

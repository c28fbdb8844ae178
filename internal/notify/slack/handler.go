package slack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of requests before their signature is verified.
const (
	bodyWithin   = 2 * time.Second // for a body to arrive; Slack wants its answer within three
	maxUnproven  = 16 << 20        // bytes of bodies in memory, over all senders
	maxOfAddress = 4 << 20         // and of one address, without the first shareOfBody of each
	shareOfBody  = 64 << 10        // more than a click has, as a rule
	maxClicks    = 32              // bodies that are verified and parsed at once
)

// ServeHTTP is the interactivity endpoint. It reads nothing of a request whose headers
// cannot be Slack's, reads a bounded body before it verifies the signature and parses
// it, and answers before the click is processed.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "method not allowed: use POST", http.StatusMethodNotAllowed)
		return
	}
	now := time.Now()
	s, err := signatureOf(req.Header, now)
	if err != nil {
		r.answer(w, err)
		return
	}
	// A slower body cannot be answered within Slack's three seconds, and is not
	// from Slack. Not every writer supports the deadline; the server's own
	// timeout then holds.
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(now.Add(bodyWithin))
	unproven := r.bodies.of(req, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer unproven.release()
	body, err := io.ReadAll(http.MaxBytesReader(w, unproven, maxBody))
	if err != nil {
		var no *refusal
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			err = refuse(TooLarge, "the body exceeds %d bytes", maxBody)
		} else if !errors.As(err, &no) {
			err = refuse(Malformed, "the body is incomplete")
		}
		r.answer(w, err)
		return
	}
	// Only now: a slow sender has no slot.
	select {
	case r.clicks <- struct{}{}:
		defer func() { <-r.clicks }()
	case <-req.Context().Done():
		return // nobody waits for the answer
	}
	raw, id, err := r.prove(s, req.Header, body, now)
	if err != nil {
		r.answer(w, err)
		return
	}
	err = r.take(req.Context(), HTTP, hex.EncodeToString(id[:16]), raw, s.at)
	if because(err) == Busy {
		err = nil // the person is told; an error would add Slack's own, less precise message
	}
	respond(w, err)
}

// prove verifies that a request is Slack's and new, and returns its payload.
func (r *Receiver) prove(s signed, h http.Header, body []byte, now time.Time) (raw []byte, id [sha256.Size]byte, err error) {
	if id, err = s.verify(r.client.secrets().SigningSecret, body); err != nil {
		return nil, id, err
	}
	switch first, full := r.requests.first(id, s.at.Add(window), now); {
	case full:
		return nil, id, refuse(Busy, "too many requests in %s to detect repeats", window)
	case !first:
		return nil, id, refuse(Replayed, "the same request arrived before")
	}
	raw, err = form(h, body)
	return raw, id, err
}

// unproven bounds the bodies in memory whose signature is not verified yet. When there is
// too much, the largest that has not ended makes room: behind a proxy Slack and everybody
// else have one address, and Slack's bodies are small and do end.
type unproven struct {
	mu   sync.Mutex // guards everything below, and what is taken of each body
	all  int
	by   map[string]int // by address, without the first shareOfBody of each
	open map[*unprovenBody]struct{}
}

// unprovenBody is one of them. A byte counts when it has arrived, so that announcing a
// body costs nothing.
type unprovenBody struct {
	io.ReadCloser
	of      *unproven
	address string
	cut     func() // ends a Read that waits
	taken   int
	ended   bool
}

func (u *unproven) of(r *http.Request, cut func()) *unprovenBody {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	b := &unprovenBody{ReadCloser: r.Body, of: u, address: address, cut: cut}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open[b] = struct{}{}
	return b
}

// Read implements io.Reader.
func (b *unprovenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	u := b.of
	u.mu.Lock()
	defer u.mu.Unlock()
	b.ended = err != nil
	_, ok := u.open[b]
	if ok {
		u.count(b, b.taken+n)
	}
	for ok && (u.all > maxUnproven || u.by[b.address] > maxOfAddress) {
		u.makeRoom(b)
		_, ok = u.open[b]
	}
	if !ok {
		return n, refuse(Busy, "too many bytes of requests whose signature is not verified yet")
	}
	return n, err
}

// makeRoom drops the largest body that has not ended, of b's address if that one has too
// much; b itself where there is none.
func (u *unproven) makeRoom(b *unprovenBody) {
	largest, ofAddress := b, u.by[b.address] > maxOfAddress
	for o := range u.open {
		if !o.ended && o.taken > largest.taken && (!ofAddress || o.address == b.address) {
			largest = o
		}
	}
	u.drop(largest)
	if largest != b {
		largest.cut()
	}
}

// count counts so many bytes of a body.
func (u *unproven) count(b *unprovenBody, taken int) {
	u.all += taken - b.taken
	u.by[b.address] += max(0, taken-shareOfBody) - max(0, b.taken-shareOfBody)
	b.taken = taken
	if u.by[b.address] <= 0 {
		delete(u.by, b.address)
	}
}

// drop counts a body no more.
func (u *unproven) drop(b *unprovenBody) {
	if _, ok := u.open[b]; ok {
		u.count(b, 0)
		delete(u.open, b)
	}
}

// release counts the body no more.
func (b *unprovenBody) release() {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.drop(b)
}

// answer reports and answers a request that did not become an interaction.
func (r *Receiver) answer(w http.ResponseWriter, err error) {
	var no *refusal
	if errors.As(err, &no) {
		r.refused(no.reason, HTTP, Click{}, no.message)
	}
	respond(w, err)
}

// because returns the reason of a refusal; empty: err is not a refusal.
func because(err error) Refusal {
	if no := (*refusal)(nil); errors.As(err, &no) {
		return no.reason
	}
	return ""
}

// respond maps a result to HTTP. The text names only the class, so that a
// forger learns nothing.
func respond(w http.ResponseWriter, err error) {
	var no *refusal
	switch {
	case errors.Is(err, errNoReason):
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(needReason())
	case !errors.As(err, &no):
		w.WriteHeader(http.StatusOK)
	default:
		http.Error(w, string(no.reason), status(no.reason))
	}
}

func status(r Refusal) int {
	switch r {
	case BadSignature, Stale:
		return http.StatusUnauthorized
	case WrongApp, WrongTeam:
		return http.StatusForbidden
	case Replayed:
		return http.StatusConflict
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case Unprepared, Busy:
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}

// needReason keeps the dialog open and shows what is missing.
func needReason() []byte {
	b, err := json.Marshal(reasonMissing())
	if err != nil {
		panic("slack: encode an answer: " + err.Error()) // unreachable: constant strings
	}
	return b
}

func reasonMissing() map[string]any {
	return map[string]any{
		"response_action": "errors",
		"errors":          map[string]string{reasonBlock: "Enter a reason of at least 3 characters."},
	}
}

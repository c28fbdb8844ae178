package slack

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

const bodyWithin = 2 * time.Second

// ServeHTTP is the interactivity endpoint. It reads a bounded body before it
// parses it, verifies the signature, and answers before the click is processed.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "method not allowed: use POST", http.StatusMethodNotAllowed)
		return
	}
	now := time.Now()
	// A slower body cannot be answered within Slack's three seconds, and is not
	// from Slack. Not every writer supports the deadline; the server's own
	// timeout then holds.
	_ = http.NewResponseController(w).SetReadDeadline(now.Add(bodyWithin))
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			err = refuse(TooLarge, "the body exceeds %d bytes", maxBody)
		} else {
			err = refuse(Malformed, "the body is incomplete")
		}
		r.answer(w, err)
		return
	}
	id, at, err := verify(r.client.secrets().SigningSecret, req.Header, body, now)
	if err == nil {
		first, full := r.requests.first(id, at.Add(window), now)
		switch {
		case full:
			err = refuse(Busy, "too many requests in %s to detect repeats", window)
		case !first:
			err = refuse(Replayed, "the same request arrived before")
		}
	}
	var raw []byte
	if err == nil {
		raw, err = form(req.Header, body)
	}
	if err != nil {
		r.answer(w, err)
		return
	}
	err = r.take(req.Context(), HTTP, hex.EncodeToString(id[:16]), raw, at)
	if because(err) == Busy {
		err = nil // the person is told; an error would add Slack's own, less precise message
	}
	respond(w, err)
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

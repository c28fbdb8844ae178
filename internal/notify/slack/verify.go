package slack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	window   = 5 * time.Minute // accepted difference between a request's timestamp and our clock
	maxBody  = 1 << 20         // bytes of a request; a full message with its state, form-encoded, has about 300 KiB
	maxKnown = 20_000          // signatures kept for the window: far more than people can click
)

// signed is what the headers of a request say about its signature.
type signed struct {
	stamp string    // the timestamp as it is signed
	at    time.Time // when the request was made
	mac   []byte
}

// signatureOf reads the headers that sign a request, and checks the age they claim.
// It needs no body, so that nothing is read of a request that cannot be Slack's.
func signatureOf(h http.Header, now time.Time) (s signed, err error) {
	stamps, signatures := h.Values("X-Slack-Request-Timestamp"), h.Values("X-Slack-Signature")
	if len(stamps) != 1 || len(signatures) != 1 {
		return s, refuse(BadSignature, "signature: want one timestamp and one signature header")
	}
	seconds, err := strconv.ParseInt(stamps[0], 10, 64)
	if err != nil {
		return s, refuse(BadSignature, "signature: the timestamp is not a number")
	}
	hexed, ok := strings.CutPrefix(signatures[0], "v0=")
	given, err := hex.DecodeString(hexed)
	if !ok || err != nil || len(given) != sha256.Size {
		return s, refuse(BadSignature, "signature: malformed, want v0=...")
	}
	at := time.Unix(seconds, 0)
	if age := now.Sub(at); age > window || age < -window {
		return s, refuse(Stale, "signature: %s old, more than the allowed %s: a replay, or this host's clock is wrong", age.Round(time.Second), window)
	}
	return signed{stamp: stamps[0], at: at, mac: given}, nil
}

// verify checks the signature over the raw body. It returns what identifies the request.
func (s signed) verify(secret Secret, body []byte) (id [sha256.Size]byte, err error) {
	if secret.Empty() {
		return id, refuse(BadSignature, "signature: no signing secret is configured")
	}
	mac := hmac.New(sha256.New, []byte(secret.Read()))
	mac.Write([]byte("v0:" + s.stamp + ":"))
	mac.Write(body)
	sum := mac.Sum(nil)
	if !hmac.Equal(sum, s.mac) {
		return id, refuse(BadSignature, "signature: mismatch: the body was changed, or the signing secret belongs to another app")
	}
	return sha256.Sum256(sum), nil
}

// form returns the one field of a form-encoded body. Anything that two readers
// could interpret differently is refused.
func form(h http.Header, body []byte) ([]byte, error) {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return nil, refuse(Malformed, "form: want one content type")
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/x-www-form-urlencoded" {
		return nil, refuse(Malformed, "form: the content type is not application/x-www-form-urlencoded")
	}
	for name, v := range params {
		if name != "charset" || !strings.EqualFold(v, "utf-8") {
			return nil, refuse(Malformed, "form: the content type has a parameter other than charset=utf-8")
		}
	}
	if h.Get("Content-Encoding") != "" {
		return nil, refuse(Malformed, "form: unsupported content encoding")
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refuse(Malformed, "form: malformed body")
	}
	if len(values) != 1 || len(values["payload"]) != 1 {
		return nil, refuse(Malformed, "form: want exactly one field, payload")
	}
	return []byte(values["payload"][0]), nil
}

// seen remembers deliveries until they could not be accepted again anyway.
type seen[K comparable] struct {
	mu    sync.Mutex // guards known: of two equal keys, exactly one is first
	known map[K]time.Time
	max   int
}

// first reports whether the key is new, and remembers it until a time. With a
// full memory it cannot tell: it sets full, and the caller refuses.
func (s *seen[K]) first(key K, until, now time.Time) (first, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[K]time.Time{}
	}
	if t, ok := s.known[key]; ok && now.Before(t) {
		return false, false
	}
	if len(s.known) >= s.max {
		for k, t := range s.known {
			if !now.Before(t) {
				delete(s.known, k)
			}
		}
		if len(s.known) >= s.max {
			return false, true
		}
	}
	s.known[key] = until
	return true, false
}

// forget removes a key.
func (s *seen[K]) forget(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

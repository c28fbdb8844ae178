package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"
)

// MaxAttempt is how long a person may take at the issuer.
const MaxAttempt = 10 * time.Minute

// Limits of what a browser brings back, in bytes.
const (
	maxSealed = 4 << 10
	maxPath   = 1 << 10
)

// Attempt is a sign-in that waits for the issuer. The browser that began it keeps it,
// sealed: nobody else can finish it, and the process remembers nothing of people who
// never come back.
type Attempt struct {
	State    string    `json:"state"`    // that the issuer's answer has to repeat
	Nonce    string    `json:"nonce"`    // that the ID token has to repeat
	Verifier string    `json:"verifier"` // of PKCE, for the token endpoint
	Next     string    `json:"next"`     // the page to go to, as [LocalPath] returned it
	Began    time.Time `json:"began"`
}

// MaxDevice is how long a browser is known by its device cookie.
const MaxDevice = 90 * 24 * time.Hour

// Device is a browser in which a person signed in before. It proves nothing about who
// uses it now: it keeps what strangers do from slowing this browser down.
type Device struct {
	Name  string    `json:"name"` // that was signed in with
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
}

// ErrAttempt reports an attempt that is missing, too old, or not sealed by this process.
var ErrAttempt = errors.New("no sign-in was begun in this browser, or too long ago")

// Sealer encrypts what a browser keeps. Its key is the process's own, so a restart voids them.
type Sealer struct{ aead cipher.AEAD }

// NewSealer returns a sealer with a new key.
func NewSealer() (*Sealer, error) {
	key := make([]byte, 32)
	rand.Read(key) // never fails: it ends the program instead
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	return &Sealer{aead}, nil
}

// Seal returns an attempt as the value of a cookie.
func (s *Sealer) Seal(a Attempt) (string, error) { return s.seal("attempt", a) }

// SealDevice returns a device as the value of a cookie.
func (s *Sealer) SealDevice(d Device) (string, error) { return s.seal("device", d) }

// OpenDevice returns the device of a cookie's value, and false if it is none or too old.
func (s *Sealer) OpenDevice(sealed string, now time.Time) (d Device, ok bool) {
	ok = s.open("device", sealed, &d) == nil && d.ID != "" && !now.Before(d.Since) && now.Sub(d.Since) <= MaxDevice
	return d, ok
}

// seal encrypts a value as one of a kind: it opens as no other.
func (s *Sealer) seal(kind string, value any) (string, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(kind))), nil
}

func (s *Sealer) open(kind, sealed string, value any) error {
	if len(sealed) > maxSealed {
		return ErrAttempt
	}
	data, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return ErrAttempt
	}
	plain, err := s.aead.Open(nil, nil, data, []byte(kind))
	if err != nil || json.Unmarshal(plain, value) != nil {
		return ErrAttempt
	}
	return nil
}

// Open returns the attempt of a cookie's value. Its error is [ErrAttempt].
func (s *Sealer) Open(sealed string, now time.Time) (Attempt, error) {
	var a Attempt
	if s.open("attempt", sealed, &a) != nil || now.Before(a.Began) || now.Sub(a.Began) > MaxAttempt {
		return Attempt{}, ErrAttempt
	}
	return a, nil
}

// LocalPath returns the path and query of a page of this service, and false for
// everything that a browser could take for another place: another site's address, a
// path that leaves the service's own, and what is no page.
func LocalPath(raw string) (string, bool) {
	if len(raw) > maxPath || !strings.HasPrefix(raw, "/") || strings.ContainsFunc(raw, unsafe) {
		return "", false
	}
	u, err := url.ParseRequestURI(raw)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil || strings.Contains(raw, "#") {
		return "", false
	}
	if first, _, _ := strings.Cut(u.Path[1:], "/"); strings.Contains(first, ":") {
		return "", false // relative, it would be a scheme
	}
	if path.Clean(u.Path) != u.Path || strings.ContainsFunc(u.Path, unsafe) {
		return "", false // the decoded path too: some proxies decode before they forward
	}
	for _, other := range []string{"/signin", "/signout", "/api", "/metrics", "/healthz", "/readyz"} {
		if u.Path == other || strings.HasPrefix(u.Path, other+"/") {
			return "", false
		}
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).RequestURI(), true
}

// unsafe reports whether browsers treat a character in a path in ways of their own.
func unsafe(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }

package session

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// MaxAttempt is how long a person may take at the issuer.
const MaxAttempt = 10 * time.Minute

// maxSealed bounds what a browser brings back, in bytes. Browsers keep no larger cookie.
const maxSealed = 4 << 10

// Attempt is a sign-in that waits for the issuer. The browser that began it keeps it,
// sealed: nobody else can finish it, and the process remembers nothing of people who
// never come back.
type Attempt struct {
	State    string    `json:"state"`    // that the issuer's answer has to repeat
	Nonce    string    `json:"nonce"`    // that the ID token has to repeat
	Verifier string    `json:"verifier"` // of PKCE, for the token endpoint
	Next     string    `json:"next"`     // the page to go to afterwards
	Began    time.Time `json:"began"`
}

// MaxDevice is how long a browser is known by its device cookie.
const MaxDevice = 90 * 24 * time.Hour

// Device is a browser in which a person signed in before. It proves nothing about who
// uses it now. Its failed sign-ins are counted apart, so that those of strangers do not
// slow it down.
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

// seal encrypts a value of a kind. It does not open as another kind.
func (s *Sealer) seal(kind string, value any) (string, error) {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false) // it is no part of a page, and a path full of & would be too large for a cookie
	if err := e.Encode(value); err != nil {
		return "", fmt.Errorf("session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain.Bytes(), []byte(kind))), nil
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

package repository

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

const recent = 16 // rotated secrets that are still taken out of texts

// secrets are the credentials in use. They are read from their files on each use,
// so that a rotation needs no restart, and remembered, so that they can be removed
// from what a server echoes.
type secrets struct {
	mu    sync.Mutex // guards known
	known []string
}

// read returns the content of a credential's file. The file is named in errors,
// its content is not.
func (s *secrets) read(what, file string) (string, error) {
	text, err := outbound.ReadSecret(file)
	if err != nil {
		return "", &fault.Error{Reason: fault.Forbidden, Message: what + " cannot be read", Err: err}
	}
	return text, nil
}

// word reads a token or a passphrase and remembers it for scrub. Keys are not
// remembered: they never leave the process.
func (s *secrets) word(what, file string) (string, error) {
	text, err := s.read(what, file)
	if err != nil {
		return "", err
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", &fault.Error{Reason: fault.Forbidden, Message: fmt.Sprintf("%s %s holds more than one line, or control characters", what, file)}
	}
	s.remember(text)
	return text, nil
}

func (s *secrets) remember(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.known, text) {
		return
	}
	s.known = append(s.known, text)
	if len(s.known) > recent {
		s.known = s.known[1:]
	}
}

// scrub removes the secrets that were read from a text, in plain form and as
// encoded in URLs and Basic headers.
func (s *secrets) scrub(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pairs []string
	for _, k := range s.known {
		for _, form := range []string{k, url.QueryEscape(k), url.PathEscape(k), base64.StdEncoding.EncodeToString([]byte(k))} {
			pairs = append(pairs, form, "[redacted]")
		}
	}
	return basicHeader.ReplaceAllString(strings.NewReplacer(pairs...).Replace(text), "$1 [redacted]")
}

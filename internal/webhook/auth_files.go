package webhook

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Shortest secrets that are accepted, in bytes. Tokens are machine-made.
const (
	minToken    = 16
	minPassword = 8
	maxFile     = 64 << 10
)

// source is one file of tokens or passwords.
type source struct {
	grant  Grant
	file   string
	basic  bool
	logged string // the problem already logged; empty: none
}

// credentialFiles reads credentials from files and keeps their hashes. The
// credentials of a file that can no longer be read are revoked.
type credentialFiles struct {
	sources []source
	every   time.Duration // how often files are looked at, while requests come
	key     digest        // of this process, so that hashes are of no use elsewhere
	logger  *slog.Logger
	failed  func()

	checked atomic.Int64 // UnixNano of the last look
	current atomic.Pointer[[]credential]
	mu      sync.Mutex // one reader of files at a time
}

// newCredentialFiles reads every file and refuses one that is not good.
func newCredentialFiles(a Auth, logger *slog.Logger, failed func()) (*credentialFiles, error) {
	f := &credentialFiles{every: time.Second, logger: logger, failed: failed}
	rand.Read(f.key[:]) // never fails: it ends the program instead
	for _, t := range a.Tokens {
		f.sources = append(f.sources, source{grant: t.Grant, file: t.File})
	}
	for _, u := range a.Users {
		if strings.Contains(u.Name, ":") {
			return nil, fmt.Errorf("webhook: user name %q has a colon, which basic authentication cannot carry", u.Name)
		}
		f.sources = append(f.sources, source{grant: u.Grant, file: u.PasswordFile, basic: true})
	}
	for _, s := range f.sources {
		if err := checkGrant(s.grant); err != nil {
			return nil, err
		}
		if _, err := f.read(s); err != nil {
			return nil, err
		}
	}
	f.reload()
	return f, nil
}

func checkGrant(g Grant) error {
	if g.Name == "" {
		return errors.New("webhook: a credential has no name")
	}
	if len(g.Scopes) == 0 {
		return fmt.Errorf("webhook: credential %s has no scopes", g.Name)
	}
	for _, s := range g.Scopes {
		if !slices.Contains(Scopes(), s) {
			return fmt.Errorf("webhook: credential %s: unknown scope %q; there are %q", g.Name, s, Scopes())
		}
	}
	return nil
}

// lookup returns the identity of an Authorization header.
func (f *credentialFiles) lookup(header string) (Identity, error) {
	hash, ok := f.hashHeader(header)
	if !ok {
		return Identity{}, errBadCredential
	}
	return f.known(hash)
}

// known returns the identity of a hashed credential.
func (f *credentialFiles) known(hash digest) (Identity, error) {
	if now := time.Now().UnixNano(); now-f.checked.Load() >= int64(f.every) {
		f.reload()
	}
	return match(*f.current.Load(), hash)
}

// hashHeader hashes what the header proves: a token, or a user and password.
func (f *credentialFiles) hashHeader(header string) (digest, bool) {
	scheme, rest, _ := strings.Cut(header, " ")
	rest = strings.TrimLeft(rest, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return f.hash("", rest), rest != ""
	case strings.EqualFold(scheme, "Basic"):
		pair, err := base64.StdEncoding.DecodeString(rest)
		user, password, ok := strings.Cut(string(pair), ":")
		return f.hash(user, password), ok && err == nil && user != ""
	default:
		return digest{}, false
	}
}

// hash is a keyed hash of the secret; user is empty for tokens. The length of the name
// keeps a part of it from being taken for the secret's.
func (f *credentialFiles) hash(user, secret string) (d digest) {
	h := sha256.New()
	h.Write(f.key[:])
	io.WriteString(h, strconv.Itoa(len(user))+":"+user+secret) //nolint:errcheck // a hash takes everything
	h.Sum(d[:0])
	return d
}

// reload reads every file again. Requests that come meanwhile use what was known.
func (f *credentialFiles) reload() {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	var all []credential
	for i := range f.sources {
		s := &f.sources[i]
		credentials, err := f.read(*s)
		if err != nil && s.logged != err.Error() {
			f.failed()
			f.logger.Error("credential file cannot be used: its credentials are refused", "name", s.grant.Name, "err", err)
		}
		if s.logged = ""; err != nil {
			s.logged = err.Error()
		}
		all = append(all, credentials...)
	}
	f.current.Store(&all)
	f.checked.Store(time.Now().UnixNano())
}

// read returns the credentials of one file. No error contains a part of a secret.
func (f *credentialFiles) read(s source) ([]credential, error) {
	file, err := os.Open(s.file)
	if err != nil {
		return nil, fmt.Errorf("webhook: credential %s: %w", s.grant.Name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("webhook: credential %s: %w", s.grant.Name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("webhook: credential %s: %s is larger than %d bytes; is it the right file?", s.grant.Name, s.file, maxFile)
	}
	user, shortest := "", minToken
	if s.basic {
		user, shortest = s.grant.Name, minPassword
	}
	var found []credential
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(line) < shortest {
			return nil, fmt.Errorf("webhook: credential %s: %s:%d: shorter than %d characters; make one with: openssl rand -hex 32",
				s.grant.Name, s.file, i+1, shortest)
		}
		found = append(found, credential{hash: f.hash(user, line), grant: s.grant})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("webhook: credential %s: %s is empty", s.grant.Name, s.file)
	}
	return found, nil
}

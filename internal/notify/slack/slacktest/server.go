package slacktest

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options of a server; the zero value is a working workspace.
type Options struct {
	Token, AppToken, SigningSecret  string // defaults: [Token], [AppToken], [SigningSecret]
	TeamID, AppID, BotID, BotUserID string
	Scopes                          []string      // of the bot's token; nil: all that this server knows
	InteractivityURL                string        // where clicks are posted; empty: Socket Mode
	AckWithin                       time.Duration // 0: Slack's 3 s
	TriggerLife                     time.Duration // 0: Slack's 3 s
	RedeliverAfter                  time.Duration // of unacknowledged envelopes; 0: only by [Server.Redeliver]
	PingEvery                       time.Duration // over Socket Mode; 0: 5 s
	PostEvery                       time.Duration // chat.postMessage to one channel; 0: as fast as they come
	PostBurst                       int           // with PostEvery; 0: 1
}

// Defaults of [Options].
const (
	Token         = "xoxb-test-0123456789"
	AppToken      = "xapp-test-0123456789"
	SigningSecret = "8f742231b10e8888abcd99yyyzzz85a5"
	TeamID        = "T0TEAM0001"
	AppID         = "A0APP00001"
	BotID         = "B0BOT00001"
	BotUserID     = "U0BOT00001"
)

// User is a member of the workspace.
type User struct {
	ID, TeamID, Email, RealName, DisplayName            string
	Deleted, Bot, Restricted, UltraRestricted, Stranger bool
	Invited, AppUser                                    bool
}

// Group is a user group.
type Group struct {
	ID, Handle         string
	Members            []string
	Disabled, External bool
}

// Conversation is a channel.
type Conversation struct {
	ID, Name                          string
	Private, Archived, Member, Shared bool
}

// Message is a message as the server stores it.
type Message struct {
	Channel, TS, ThreadTS, Text, BotID string
	User                               string // of an ephemeral message: the only reader
	Blocks                             json.RawMessage
	Metadata                           json.RawMessage
	Edits                              int
	versions                           []json.RawMessage // of Blocks, the oldest first
}

// Call is one call of the Web API.
type Call struct {
	Method string
	Args   map[string]string // without the token
	Error  string            // Slack's error code, or "HTTP 429"; empty: ok
	At     time.Time
}

// Fault replaces the answer of a call.
type Fault struct {
	Code       string        // answered with ok: false and this code
	Status     int           // answered with this HTTP status
	RetryAfter time.Duration // with Status 429
	Cut        bool          // the connection ends without an answer
	After      bool          // with Cut or Status: after the call took effect
	Garbage    bool          // answered with something that is not JSON
}

// Server is the fake. It is safe for concurrent use.
type Server struct {
	o    Options
	base string // of Start's listener

	mu         sync.Mutex // guards everything below
	skew       time.Duration
	lastTS     int64
	users      map[string]User
	groups     map[string]Group
	channels   map[string]Conversation
	messages   []*Message // by time
	ephemerals []Message
	views      map[string]*view
	triggers   map[string]*trigger
	calls      []Call
	faults     map[string][]Fault
	outage     bool
	latency    time.Duration
	tokenError string
	posts      map[string][]time.Time
	violations []string
	tickets    map[string]bool
	conns      []*conn
	opened     int
	envelopes  []*envelope
	interact   string
	changed    chan struct{} // closed and replaced at each change
}

// New returns a server that is not listening.
func New(o Options) *Server {
	for p, v := range map[*string]string{
		&o.Token: Token, &o.AppToken: AppToken, &o.SigningSecret: SigningSecret,
		&o.TeamID: TeamID, &o.AppID: AppID, &o.BotID: BotID, &o.BotUserID: BotUserID,
	} {
		if *p == "" {
			*p = v
		}
	}
	for p, v := range map[*time.Duration]time.Duration{
		&o.AckWithin: 3 * time.Second, &o.TriggerLife: 3 * time.Second, &o.PingEvery: 5 * time.Second,
	} {
		if *p == 0 {
			*p = v
		}
	}
	if o.Scopes == nil {
		for _, m := range methods() {
			o.Scopes = append(o.Scopes, m.scopes...)
		}
	}
	return &Server{
		o: o, users: map[string]User{}, groups: map[string]Group{}, channels: map[string]Conversation{},
		views: map[string]*view{}, triggers: map[string]*trigger{}, faults: map[string][]Fault{},
		posts: map[string][]time.Time{}, tickets: map[string]bool{}, interact: o.InteractivityURL,
		changed: make(chan struct{}),
	}
}

// Start runs a server until the test ends.
func Start(t testing.TB, o Options) *Server {
	s := New(o)
	h := httptest.NewServer(s)
	s.base = h.URL
	t.Cleanup(func() {
		s.Drop()
		h.Close()
	})
	return s
}

// APIURL returns the base address of the Web API.
func (s *Server) APIURL() string { return s.base + "/api/" }

// AddUser adds or replaces a user. A user without a team belongs to this
// workspace.
func (s *Server) AddUser(u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.TeamID == "" {
		u.TeamID = s.o.TeamID
	}
	s.users[u.ID] = u
}

// AddGroup adds or replaces a user group.
func (s *Server) AddGroup(g Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[g.ID] = g
}

// AddChannel adds or replaces a channel.
func (s *Server) AddChannel(c Conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[c.ID] = c
}

// Archive archives a channel, or restores it.
func (s *Server) Archive(id string, archived bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	c.Archived = archived
	s.channels[id] = c
}

// Renew makes other tokens and another signing secret the valid ones.
func (s *Server) Renew(token, appToken, signingSecret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Token, s.o.AppToken, s.o.SigningSecret = token, appToken, signingSecret
}

// Remove deletes a message, as people and retention rules do.
func (s *Server) Remove(channel, ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = slices.DeleteFunc(s.messages, func(m *Message) bool { return m.Channel == channel && m.TS == ts })
	s.tell()
}

// Fail makes the next n calls of a method fail.
func (s *Server) Fail(method string, n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.faults[method] = append(s.faults[method], f)
	}
}

// Outage takes Slack down: 503 for every call, and all connections are closed.
func (s *Server) Outage(down bool) {
	s.mu.Lock()
	s.outage = down
	s.mu.Unlock()
	if down {
		s.Drop()
	}
}

// Latency delays every answer of the Web API.
func (s *Server) Latency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// TokenError makes every call fail with an error code such as token_expired;
// empty: the token works again.
func (s *Server) TokenError(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokenError = code
}

// Scopes replaces the scopes of the token.
func (s *Server) Scopes(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Scopes = scopes
}

// Interactivity sets where clicks are posted; empty: Socket Mode.
func (s *Server) Interactivity(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interact = url
}

// Advance moves the server's clock, which stamps messages and requests and
// expires triggers.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew += d
}

// Messages returns the messages of a channel and its threads, oldest first.
func (s *Server) Messages(channel string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages {
		if m.Channel == channel {
			out = append(out, *m)
		}
	}
	return out
}

// Ephemerals returns the messages shown to one person each, oldest first.
func (s *Server) Ephemerals() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.ephemerals...)
}

// Calls returns the calls of a method, or all calls if it is empty.
func (s *Server) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if method == "" || c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// Violations returns what the client did that Slack does not allow, such as a
// late acknowledgement.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.violations...)
}

// Wait waits until a condition holds and reports whether it held in time. The
// condition is evaluated after every change of the server's state.
func (s *Server) Wait(within time.Duration, holds func() bool) bool {
	end := time.NewTimer(within)
	defer end.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if holds() {
			return true
		}
		select {
		case <-changed:
		case <-end.C:
			return holds()
		}
	}
}

// Put adds a message that another app or a person wrote. An empty TS is chosen.
func (s *Server) Put(m Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.TS == "" {
		m.TS = s.stamp()
	}
	s.messages = append(s.messages, &m)
	s.tell()
	return m
}

func (s *Server) now() time.Time { return time.Now().Add(s.skew) }

// stamp returns a timestamp that no other message has.
func (s *Server) stamp() string {
	s.lastTS = max(s.lastTS+1, s.now().UnixMicro())
	return fmt.Sprintf("%d.%06d", s.lastTS/1e6, s.lastTS%1e6)
}

func (s *Server) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) violate(format string, a ...any) {
	s.violations = append(s.violations, fmt.Sprintf(format, a...))
	s.tell()
}

// ServeHTTP serves the Web API below /api/ and Socket Mode at /link.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if method, ok := strings.CutPrefix(r.URL.Path, "/api/"); ok {
		s.serveAPI(w, r, method)
		return
	}
	if r.URL.Path == "/link" {
		s.serveLink(w, r)
		return
	}
	http.NotFound(w, r)
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

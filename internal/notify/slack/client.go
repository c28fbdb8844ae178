package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slack-go/slack"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// Options configure a [Client]. Token is required; the rest has useful zero
// values.
type Options struct {
	Secrets

	// AppID and TeamID select the clicks to accept. Empty: those of the app
	// that owns the token, as Slack reports them.
	AppID  string
	TeamID string

	APIURL  string        // empty: that of Slack
	Timeout time.Duration // of one call; 0: 10 s
	Logger  *slog.Logger  // nil: none
}

// Client calls Slack's Web API. It is safe for concurrent use.
type Client struct {
	o    Options // without the secrets
	http *http.Client
	live atomic.Pointer[live] // with the current secrets
	log  *slog.Logger

	asking chan struct{}        // held by the one call that identifies the token
	mu     sync.Mutex           // guards the fields below; never held during a call
	who    Identity             // kept once known
	closed map[string]time.Time // when calls are allowed again, by method, and for posts by channel
	asked  time.Time            // when the last identification failed
	askErr error
}

// Identity describes the owner of the token.
type Identity struct {
	AppID     string // empty: Slack did not report it; clicks then need a configured one
	TeamID    string
	Team      string // its name
	URL       string // of the workspace
	BotID     string
	BotUserID string
}

// New returns a client. It calls nobody, so that a service starts while Slack
// is down.
func New(o Options) (*Client, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.APIURL == "" {
		o.APIURL = slack.APIURL
	}
	u, err := url.Parse(o.APIURL)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("slack api url: not an http or https address")
	}
	if !strings.HasSuffix(o.APIURL, "/") {
		o.APIURL += "/"
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	transport, err := outbound.Options{AnyAddress: true}.Transport() // only the operator writes the address
	if err != nil {
		return nil, fmt.Errorf("slack: %w", err)
	}
	h := outbound.Client(bounded{transport}) // the token is in the body, which a redirect would send elsewhere
	h.Timeout = o.Timeout
	c := &Client{o: o, http: h, log: o.Logger, asking: make(chan struct{}, 1), closed: map[string]time.Time{}}
	c.live.Store(c.speaking(o.Secrets))
	c.o.Secrets = Secrets{}
	return c, nil
}

// bounded limits the size of an answer.
type bounded struct{ next http.RoundTripper }

const maxAnswer = 32 << 20 // bytes; a page of history with large messages has several MiB

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		outbound.SetBody(resp, io.LimitReader(resp.Body, maxAnswer))
	}
	return resp, err
}

// Identify asks Slack who owns the token. A success is kept. A failure is kept
// for two seconds, so that many callers cause one call.
func (c *Client) Identify(ctx context.Context) (Identity, error) {
	if who, done, err := c.known(); done {
		return who, err
	}
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return Identity{}, classify("auth.test", ctx.Err())
	}
	if who, done, err := c.known(); done { // another caller asked meanwhile
		return who, err
	}
	by := c.live.Load()
	who, err := c.ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if by == c.live.Load() { // else the answer is about another token
		c.who, c.asked, c.askErr = who, time.Now(), err
	}
	return who, err
}

func (c *Client) known() (who Identity, done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	recent := c.askErr != nil && time.Since(c.asked) < 2*time.Second
	return c.who, c.who.TeamID != "" || recent, c.askErr
}

func (c *Client) ask(ctx context.Context) (Identity, error) {
	var r *slack.AuthTestResponse
	err := c.call("auth.test", "", func() (err error) {
		r, err = c.api().AuthTestContext(ctx)
		return err
	})
	if err != nil {
		return Identity{}, err
	}
	who := Identity{AppID: c.o.AppID, TeamID: r.TeamID, Team: r.Team, URL: r.URL, BotID: r.BotID, BotUserID: r.UserID}
	if c.o.TeamID != "" && c.o.TeamID != r.TeamID {
		return Identity{}, failure{reason: fault.BadToken, method: "auth.test", err: fmt.Errorf("the token belongs to team %s, but team %s is configured", r.TeamID, c.o.TeamID)}.error()
	}
	if who.AppID != "" || r.BotID == "" {
		return who, nil
	}
	err = c.call("bots.info", "", func() error {
		bot, err := c.api().GetBotInfoContext(ctx, slack.GetBotInfoParameters{Bot: r.BotID})
		if err == nil {
			who.AppID = bot.AppID
		}
		return err
	})
	if err != nil {
		return Identity{}, err
	}
	return who, nil
}

// call runs one call unless Slack has told us to wait, and records a new wait:
// calling too early makes Slack extend it. Slack counts posts by channel and
// everything else by method, so channel is set only for a post.
func (c *Client) call(method, channel string, do func() error) error {
	key := method + " " + channel
	now := time.Now()
	c.mu.Lock()
	until := c.closed[key]
	c.mu.Unlock()
	if wait := until.Sub(now); wait > 0 {
		return failure{reason: fault.RateLimited, method: method, retryAfter: wait}.error()
	}
	err := classify(method, do())
	var e *fault.Error
	if errors.As(err, &e) && e.Reason == fault.RateLimited {
		c.mu.Lock()
		if len(c.closed) > 1000 { // expired entries of channels are of no use
			clear(c.closed)
		}
		c.closed[key] = now.Add(e.RetryAfter)
		c.mu.Unlock()
	}
	return err
}

package slack

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

// Secrets are the credentials of a client. They can be renewed while it runs.
type Secrets struct {
	Token         Secret // of the bot: xoxb-...
	AppToken      Secret // of the app, for Socket Mode: xapp-...
	SigningSecret Secret // for the HTTP transport; empty: every request is refused
}

func (s Secrets) check() error {
	if s.Token.Empty() {
		return errors.New("slack token: empty: write the bot token (xoxb-...) to its file")
	}
	if !s.AppToken.Empty() && !strings.HasPrefix(s.AppToken.Read(), "xapp-") {
		return errors.New("slack app token: does not begin with xapp-: Socket Mode needs an app-level token with connections:write")
	}
	return nil
}

// live is the library's client for one set of secrets.
type live struct {
	Secrets
	api      *slack.Client
	replaced chan struct{} // closed once other secrets are current
}

func (c *Client) speaking(s Secrets) *live {
	return &live{Secrets: s, replaced: make(chan struct{}), api: slack.New(s.Token.Read(),
		slack.OptionAppLevelToken(s.AppToken.Read()), slack.OptionAPIURL(c.o.APIURL), slack.OptionHTTPClient(c.http))}
}

func (c *Client) api() *slack.Client { return c.live.Load().api }

func (c *Client) secrets() Secrets { return c.live.Load().Secrets }

// Renew replaces the current secrets. Calls in progress finish with the old
// ones. Socket Mode connects with a new app token before it closes the old
// connection. On an error nothing changes.
func (c *Client) Renew(s Secrets) error {
	if err := s.check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.live.Load()
	switch {
	case old.Secrets == s:
		return nil
	case old.AppToken.Empty() != s.AppToken.Empty():
		return errors.New("slack app token: cannot be added or removed while the service runs: restart it to change the transport")
	}
	c.live.Store(c.speaking(s))
	if old.Token != s.Token {
		c.who, c.asked, c.askErr = Identity{}, time.Time{}, nil
		clear(c.closed)
	}
	close(old.replaced)
	return nil
}

// otherAppToken waits until another app token is current; nil: ctx has ended.
func (c *Client) otherAppToken(ctx context.Context, than Secret) *live {
	for {
		l := c.live.Load()
		if l.AppToken != than {
			return l
		}
		select {
		case <-l.replaced:
		case <-ctx.Done():
			return nil
		}
	}
}

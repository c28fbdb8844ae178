// Package pagerduty is the channel that sends alerts and changes to PagerDuty by
// its Events API v2. Sending is at least once: a lost answer looks like a
// failure. PagerDuty recognizes an alert by its dedup_key.
package pagerduty

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

// defaultURL is the address outside the EU.
const defaultURL = "https://events.pagerduty.com"

// PagerDuty's limits.
const (
	maxEvent         = 512 << 10 // bytes
	maxSummary       = 1024      // characters
	maxDedupKey      = 255       // characters
	routingKeyLength = 32        // characters
)

// Client sends events. It is safe for concurrent use.
type Client struct {
	endpoint *endpoint.Endpoint
	keyFile  string
}

// NewClient checks the settings and that the files can be read.
func NewClient(c Config) (*Client, error) {
	e, err := endpoint.New("PagerDuty", cmp.Or(c.URL, defaultURL), c.CAFile, 0)
	if err != nil {
		return nil, err
	}
	p := &Client{endpoint: e, keyFile: c.RoutingKeyFile}
	if _, err := p.routingKey(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Client) routingKey() (string, error) {
	key, err := endpoint.ReadSecret("PagerDuty routing key", p.keyFile)
	if err == nil && len(key) != routingKeyLength {
		err = &fault.Error{Reason: fault.Forbidden, Message: "PagerDuty routing key file " + p.keyFile + ": a key has 32 characters; it is on the integration's page"}
	}
	return key, err
}

// Severity is how bad an alert is.
type Severity string

// The severities in use.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
)

// Alert opens an alert at PagerDuty, or adds to the one with the same key.
type Alert struct {
	DedupKey  string         // required; longer ones than 255 characters are shortened, the same key always to the same
	Summary   string         // required; cut at 1,024 characters
	Source    string         // required; what is affected
	Severity  Severity       // required
	Time      time.Time      // zero: PagerDuty's
	Component string         // part of the source
	Group     string         // what the source belongs to
	Class     string         // kind of alert
	Details   map[string]any // left out, and that said, when the event would be larger than 512 KiB
	Links     []Link
}

// Change is a change that was made, shown beside incidents. It pages nobody.
type Change struct {
	Summary string // required; cut at 1,024 characters
	Source  string
	Time    time.Time // zero: PagerDuty's
	Details map[string]any
	Links   []Link
}

// Link is a link people can follow from an event.
type Link struct {
	Href string `json:"href"`
	Text string `json:"text,omitempty"`
}

// event is an alert or a change as it is sent.
type event struct {
	RoutingKey string   `json:"routing_key"`
	Action     string   `json:"event_action,omitempty"`
	DedupKey   string   `json:"dedup_key,omitempty"`
	Client     string   `json:"client,omitempty"`
	Payload    *payload `json:"payload,omitempty"`
	Links      []Link   `json:"links,omitempty"`
}

type payload struct {
	Summary   string         `json:"summary"`
	Source    string         `json:"source,omitempty"`
	Severity  Severity       `json:"severity,omitempty"`
	Timestamp string         `json:"timestamp,omitempty"`
	Component string         `json:"component,omitempty"`
	Group     string         `json:"group,omitempty"`
	Class     string         `json:"class,omitempty"`
	Details   map[string]any `json:"custom_details,omitempty"`
}

// Trigger opens an alert, or adds to the open one with the same key. That
// PagerDuty accepted it (202) does not mean that somebody was paged.
func (p *Client) Trigger(ctx context.Context, a Alert) error {
	if a.Summary == "" || a.Source == "" || a.DedupKey == "" || a.Severity == "" {
		return endpoint.Invalid("PagerDuty alert: needs a summary, a source, a key and a severity")
	}
	return p.send(ctx, "v2/enqueue", event{
		Action: "trigger", DedupKey: dedupKey(a.DedupKey), Client: "responder", Links: a.Links,
		Payload: &payload{
			Summary: cutText(a.Summary, maxSummary), Source: a.Source, Severity: a.Severity, Timestamp: stamp(a.Time),
			Component: a.Component, Group: a.Group, Class: a.Class, Details: a.Details,
		},
	})
}

// Resolve closes the alert with this key. One that is not open is no error.
func (p *Client) Resolve(ctx context.Context, key string) error {
	if key == "" {
		return endpoint.Invalid("PagerDuty resolve: needs the alert's key")
	}
	return p.send(ctx, "v2/enqueue", event{Action: "resolve", DedupKey: dedupKey(key)})
}

// Change records a change. PagerDuty has no key for these: one that is sent
// again after a lost answer is shown twice.
func (p *Client) Change(ctx context.Context, c Change) error {
	if c.Summary == "" {
		return endpoint.Invalid("PagerDuty change: needs a summary")
	}
	return p.send(ctx, "v2/change/enqueue", event{
		Links:   c.Links,
		Payload: &payload{Summary: cutText(c.Summary, maxSummary), Source: c.Source, Timestamp: stamp(c.Time), Details: c.Details},
	})
}

func (p *Client) send(ctx context.Context, path string, ev event) error {
	key, err := p.routingKey()
	if err != nil {
		return err
	}
	ev.RoutingKey = key
	body, err := endpoint.EncodeJSON(ev)
	if err != nil {
		return err
	}
	if len(body) > maxEvent && ev.Payload != nil {
		ev.Payload.Details = map[string]any{"left out": "the details are larger than PagerDuty takes"}
		if body, err = endpoint.EncodeJSON(ev); err != nil {
			return err
		}
	}
	if len(body) > maxEvent {
		return endpoint.Invalid("PagerDuty event: %d bytes, more than %d", len(body), maxEvent)
	}
	_, err = p.endpoint.Do(ctx, endpoint.Request{
		Method: http.MethodPost, Path: path, ContentType: "application/json", Body: body, Secret: key,
	})
	return err
}

// dedupKey makes any key one that PagerDuty takes.
func dedupKey(key string) string {
	if utf8.RuneCountInString(key) <= maxDedupKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	hash := hex.EncodeToString(sum[:])
	return string([]rune(key)[:maxDedupKey-1-len(hash)]) + "~" + hash
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// cutText keeps a text to n characters and says with an ellipsis where it was cut.
func cutText(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

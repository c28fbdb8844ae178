package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/fault"
)

// PagerDuty's address outside the EU, and its limits.
const (
	PagerDutyURL = "https://events.pagerduty.com"

	maxPagerDutyEvent = 512 << 10 // bytes
	maxSummary        = 1024      // characters
	maxDedupKey       = 255       // characters
	routingKeyLength  = 32        // characters
)

// PagerDutyOptions names the integration that events go to.
type PagerDutyOptions struct {
	RoutingKeyFile string        // the 32 characters of an Events API v2 integration, read again for every event
	URL            string        // empty: PagerDutyURL; https://events.eu.pagerduty.com in the EU
	CAFile         string        // PEM, for a proxy that opens TLS; read once, at the start
	Timeout        time.Duration // for one event; 0: 10s
}

// PagerDuty sends events by the Events API v2. It is safe for concurrent use.
type PagerDuty struct {
	endpoint *endpoint
	keyFile  string
}

// NewPagerDuty checks the options and that the files can be read.
func NewPagerDuty(o PagerDutyOptions) (*PagerDuty, error) {
	if o.URL == "" {
		o.URL = PagerDutyURL
	}
	e, err := newEndpoint("PagerDuty", o.URL, o.CAFile, o.Timeout)
	if err != nil {
		return nil, err
	}
	p := &PagerDuty{endpoint: e, keyFile: o.RoutingKeyFile}
	if _, err := p.routingKey(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *PagerDuty) routingKey() (string, error) {
	key, err := readSecret("PagerDuty routing key", p.keyFile)
	if err == nil && len(key) != routingKeyLength {
		err = &fault.Error{Reason: fault.Forbidden, Message: "PagerDuty routing key file " + p.keyFile + ": a key has 32 characters; it is on the integration's page"}
	}
	return key, err
}

// Severity is how bad an alert is.
type Severity string

// PagerDuty's severities.
const (
	Critical Severity = "critical"
	Failure  Severity = "error"
	Warning  Severity = "warning"
	Info     Severity = "info"
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
func (p *PagerDuty) Trigger(ctx context.Context, a Alert) error {
	switch a.Severity {
	case Critical, Failure, Warning, Info:
	default:
		return invalid("PagerDuty alert: severity %q is none of critical, error, warning, info", a.Severity)
	}
	if a.Summary == "" || a.Source == "" || a.DedupKey == "" {
		return invalid("PagerDuty alert: needs a summary, a source and a key")
	}
	return p.send(ctx, "v2/enqueue", event{
		Action: "trigger", DedupKey: dedupKey(a.DedupKey), Client: "responder", Links: a.Links,
		Payload: &payload{
			Summary: cutText(a.Summary, maxSummary), Source: a.Source, Severity: a.Severity, Timestamp: stamp(a.Time),
			Component: a.Component, Group: a.Group, Class: a.Class, Details: a.Details,
		},
	})
}

// Acknowledge reports that somebody works on the alert with this key. One that is
// not open is no error.
func (p *PagerDuty) Acknowledge(ctx context.Context, key string) error {
	return p.follow(ctx, "acknowledge", key)
}

// Resolve reports that the alert with this key is over. One that is not open is
// no error.
func (p *PagerDuty) Resolve(ctx context.Context, key string) error {
	return p.follow(ctx, "resolve", key)
}

func (p *PagerDuty) follow(ctx context.Context, action, key string) error {
	if key == "" {
		return invalid("PagerDuty %s: needs the alert's key", action)
	}
	return p.send(ctx, "v2/enqueue", event{Action: action, DedupKey: dedupKey(key)})
}

// Change records a change. PagerDuty has no key for these: one that is sent
// again after a lost answer is shown twice.
func (p *PagerDuty) Change(ctx context.Context, c Change) error {
	if c.Summary == "" {
		return invalid("PagerDuty change: needs a summary")
	}
	return p.send(ctx, "v2/change/enqueue", event{
		Links:   c.Links,
		Payload: &payload{Summary: cutText(c.Summary, maxSummary), Source: c.Source, Timestamp: stamp(c.Time), Details: c.Details},
	})
}

func (p *PagerDuty) send(ctx context.Context, path string, ev event) error {
	key, err := p.routingKey()
	if err != nil {
		return err
	}
	ev.RoutingKey = key
	body, err := encodeJSON(ev)
	if err != nil {
		return err
	}
	if len(body) > maxPagerDutyEvent && ev.Payload != nil {
		ev.Payload.Details = map[string]any{"left out": "the details are larger than PagerDuty takes"}
		if body, err = encodeJSON(ev); err != nil {
			return err
		}
	}
	if len(body) > maxPagerDutyEvent {
		return invalid("PagerDuty event: %d bytes, more than %d", len(body), maxPagerDutyEvent)
	}
	_, err = p.endpoint.do(ctx, request{
		method: http.MethodPost, path: path, contentType: "application/json", body: body, secret: key,
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

package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"
)

// MaxEvent is the largest CloudEvent that is sent, in bytes. The CloudEvents
// specification asks every intermediary to forward that much, and no more.
const MaxEvent = 64 << 10

// WebhookOptions names the URL that JSON is posted to. URL alone is enough.
type WebhookOptions struct {
	Name      string        // what errors call it; empty: webhook
	URL       string        // http(s)://host/path; its path and query are in no error
	TokenFile string        // bearer token, read again for every message
	CAFile    string        // PEM; read once, at the start
	Timeout   time.Duration // for one message; 0: 10s
}

// Webhook posts JSON to somebody's own service: CloudEvents 1.0 in structured
// mode, or requests for repairs. It is safe for concurrent use.
type Webhook struct {
	endpoint  *endpoint
	tokenFile string
}

// NewWebhook checks the options and that the files can be read.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	e, err := newEndpoint(cmp.Or(o.Name, "webhook"), o.URL, o.CAFile, o.Timeout)
	if err != nil {
		return nil, err
	}
	if _, err := bearer(e.what, o.TokenFile); err != nil {
		return nil, err
	}
	return &Webhook{endpoint: e, tokenFile: o.TokenFile}, nil
}

// Where names the receiver: scheme and host, for the rest can be a secret.
func (w *Webhook) Where() string { return w.endpoint.where }

// post sends one message with the token that is in its file now.
func (w *Webhook) post(ctx context.Context, r request) ([]byte, error) {
	token, err := bearer(w.endpoint.what, w.tokenFile)
	if err != nil {
		return nil, err
	}
	r.method, r.token = http.MethodPost, token
	return w.endpoint.do(ctx, r)
}

// Event is one CloudEvent. The pair of Source and ID names it: a receiver that
// sees the pair again has the same event before it.
type Event struct {
	ID      string          // required; the idempotency key
	Source  string          // required; URI reference of who says it
	Type    string          // required; begins with a reversed DNS name
	Subject string          // what it is about; may be empty
	Time    time.Time       // when it happened; zero: left out
	Data    json.RawMessage // JSON; empty: left out
}

// cloudEvent is an event as it is sent.
type cloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject,omitempty"`
	Time        string          `json:"time,omitempty"`
	ContentType string          `json:"datacontenttype,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
}

// Send posts an event. The error is a [*fault.Error].
func (w *Webhook) Send(ctx context.Context, ev Event) error {
	body, err := ev.encode()
	if err != nil {
		return err
	}
	_, err = w.post(ctx, request{contentType: "application/cloudevents+json; charset=utf-8", body: body})
	return err
}

// encode checks an event by the rules of the specification and writes it.
func (ev Event) encode() ([]byte, error) {
	for _, a := range []struct {
		name, value string
		required    bool
	}{{"id", ev.ID, true}, {"source", ev.Source, true}, {"type", ev.Type, true}, {"subject", ev.Subject, false}} {
		if a.required && a.value == "" {
			return nil, invalid("event: %s must not be empty", a.name)
		}
		if !attribute(a.value) {
			return nil, invalid("event: %s holds a character that an attribute must not have", a.name)
		}
	}
	if _, err := url.Parse(ev.Source); err != nil {
		return nil, invalid("event: source is not a URI reference")
	}
	c := cloudEvent{SpecVersion: "1.0", ID: ev.ID, Source: ev.Source, Type: ev.Type, Subject: ev.Subject}
	if !ev.Time.IsZero() {
		c.Time = ev.Time.UTC().Format(time.RFC3339Nano)
	}
	if len(ev.Data) > 0 {
		if !json.Valid(ev.Data) {
			return nil, invalid("event: data is not JSON")
		}
		c.ContentType, c.Data = "application/json", ev.Data
	}
	body, err := encodeJSON(c)
	if err != nil {
		return nil, err
	}
	if len(body) > MaxEvent {
		return nil, invalid("event: %d bytes, more than %d; leave something out", len(body), MaxEvent)
	}
	return body, nil
}

// attribute reports whether the CloudEvents type String allows every character.
func attribute(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		control := r <= 0x1f || r >= 0x7f && r <= 0x9f
		nonCharacter := r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
		if control || nonCharacter {
			return false
		}
	}
	return true
}

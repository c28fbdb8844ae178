// Package webhook is the channel that posts CloudEvents 1.0 in structured JSON
// mode to somebody's own service. Sending is at least once: a lost answer looks
// like a failure. The event's id is the idempotency key.
package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

// maxEvent is the largest CloudEvent that is sent, in bytes. The CloudEvents
// specification asks every intermediary to forward that much, and no more.
const maxEvent = 64 << 10

// Client posts events. It is safe for concurrent use.
type Client struct {
	endpoint   *endpoint.Endpoint
	tokenFile  string
	secretFile string
}

// NewClient checks the settings and that the files can be read.
func NewClient(c Config) (*Client, error) {
	e, err := endpoint.New("webhook", c.URL, c.CAFile, 0)
	if err != nil {
		return nil, err
	}
	if _, err := endpoint.Bearer("webhook", c.TokenFile); err != nil {
		return nil, err
	}
	if _, err := signers(c.SecretFile); err != nil {
		return nil, fmt.Errorf("webhook signing secret: %w", err)
	}
	return &Client{endpoint: e, tokenFile: c.TokenFile, secretFile: c.SecretFile}, nil
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
func (c *Client) Send(ctx context.Context, ev Event) error {
	body, err := ev.encode()
	if err != nil {
		return err
	}
	token, err := endpoint.Bearer("webhook", c.tokenFile)
	if err != nil {
		return err
	}
	keys, err := signers(c.secretFile)
	if err != nil {
		return &fault.Error{Reason: fault.Forbidden, Message: "webhook signing secret cannot be read", Err: err}
	}
	_, err = c.endpoint.Do(ctx, endpoint.Request{
		Method: http.MethodPost, ContentType: "application/cloudevents+json; charset=utf-8", Body: body, Token: token,
		Header: signed(keys, ev.ID, time.Now(), body),
	})
	return err
}

// encode checks an event by the rules of the specification and writes it.
func (ev Event) encode() ([]byte, error) {
	for _, a := range []struct {
		name, value string
		required    bool
	}{{"id", ev.ID, true}, {"source", ev.Source, true}, {"type", ev.Type, true}, {"subject", ev.Subject, false}} {
		if a.required && a.value == "" {
			return nil, endpoint.Invalid("event: %s must not be empty", a.name)
		}
		if !attribute(a.value) {
			return nil, endpoint.Invalid("event: %s holds a character that an attribute must not have", a.name)
		}
	}
	if _, err := url.Parse(ev.Source); err != nil {
		return nil, endpoint.Invalid("event: source is not a URI reference")
	}
	c := cloudEvent{SpecVersion: "1.0", ID: ev.ID, Source: ev.Source, Type: ev.Type, Subject: ev.Subject}
	if !ev.Time.IsZero() {
		c.Time = ev.Time.UTC().Format(time.RFC3339Nano)
	}
	if len(ev.Data) > 0 {
		if !json.Valid(ev.Data) {
			return nil, endpoint.Invalid("event: data is not JSON")
		}
		c.ContentType, c.Data = "application/json", ev.Data
	}
	body, err := endpoint.EncodeJSON(c)
	if err != nil {
		return nil, err
	}
	if len(body) > maxEvent {
		return nil, endpoint.Invalid("event: %d bytes, more than %d; leave something out", len(body), maxEvent)
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

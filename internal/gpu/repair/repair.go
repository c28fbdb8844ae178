// Package repair is the client of whoever repairs GPUs: it posts requests, and
// their withdrawal, as JSON.
package repair

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/inference-responder/responder/internal/outbound"
	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

// Client posts requests. It is safe for concurrent use.
type Client struct {
	endpoint  *endpoint.Endpoint
	tokenFile string
}

// New checks the settings and that the files can be read.
func New(c Config) (*Client, error) {
	e, err := endpoint.New("repairs", c.URL, c.CAFile, c.Timeout)
	if err != nil {
		return nil, err
	}
	if _, err := endpoint.Bearer("repairs", c.TokenFile); err != nil {
		return nil, err
	}
	return &Client{endpoint: e, tokenFile: c.TokenFile}, nil
}

// Where returns the receiver's scheme and host. The rest of its address can be a
// secret.
func (c *Client) Where() string { return c.endpoint.Where() }

// Request asks for a repair, or withdraws an earlier request. Key is also the
// header Idempotency-Key: a receiver that has seen it has this request already.
type Request struct {
	Action  string   `json:"action"` // request, withdraw
	Key     string   `json:"key"`
	Node    string   `json:"node"`
	GPUs    []string `json:"gpus,omitempty"` // UUIDs or indices; none: all of the node's
	Reason  string   `json:"reason"`
	Run     string   `json:"run"`
	Service string   `json:"service"`
	Of      string   `json:"of,omitempty"`     // withdraw: key of the request
	Ticket  string   `json:"ticket,omitempty"` // withdraw: what the receiver called it
}

// Ask posts a request. The ticket is the receiver's name for it: the member id of
// a JSON object in the answer; empty: there is none. The error is a
// [*fault.Error], whose Unknown reports whether the receiver may have the
// request all the same.
func (c *Client) Ask(ctx context.Context, r Request) (ticket string, err error) {
	body, err := endpoint.EncodeJSON(r)
	if err != nil {
		return "", err
	}
	token, err := endpoint.Bearer("repairs", c.tokenFile)
	if err != nil {
		return "", err
	}
	answer, err := c.endpoint.Do(ctx, endpoint.Request{
		Method: http.MethodPost, ContentType: "application/json", Body: body, Token: token, Key: r.Key, MaxAnswer: endpoint.MaxAnswer,
	})
	if errors.As(err, new(endpoint.Accepted)) {
		return "", nil // it was taken; what was said about it is lost
	}
	if err != nil {
		return "", err
	}
	var named struct {
		ID any `json:"id"`
	}
	dec := json.NewDecoder(strings.NewReader(string(answer)))
	dec.UseNumber()
	if dec.Decode(&named) != nil {
		return "", nil
	}
	switch id := named.ID.(type) {
	case string:
		return outbound.OneLine(id, 100), nil
	case json.Number:
		return outbound.OneLine(id.String(), 100), nil
	default:
		return "", nil
	}
}

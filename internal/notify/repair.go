package notify

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// RepairsOptions says who is asked for repairs. URL alone is enough.
type RepairsOptions struct {
	URL       string        // http(s)://host/path; its path and query are in no error
	TokenFile string        // bearer token, read again for every request
	CAFile    string        // PEM; read once, at the start
	Timeout   time.Duration // for one request; 0: 10s
}

// Repairs asks whoever repairs hardware, by JSON over HTTP: a ticket system, a
// controller. It is safe for concurrent use.
type Repairs struct {
	endpoint  *endpoint
	tokenFile string
}

// NewRepairs checks the options and that the files can be read.
func NewRepairs(o RepairsOptions) (*Repairs, error) {
	e, err := newEndpoint("repairs", o.URL, o.CAFile, o.Timeout)
	if err != nil {
		return nil, err
	}
	if _, err := bearer("repairs", o.TokenFile); err != nil {
		return nil, err
	}
	return &Repairs{endpoint: e, tokenFile: o.TokenFile}, nil
}

// Where names the receiver: scheme and host, for the rest can be a secret.
func (r *Repairs) Where() string { return r.endpoint.where }

// Repair is one request, or the end of one. Key is also the header
// Idempotency-Key: who has seen it has this very request before it.
type Repair struct {
	Action  string `json:"action"` // request, withdraw
	Key     string `json:"key"`
	Node    string `json:"node"`
	GPU     string `json:"gpu,omitempty"` // UUID or index; empty: all of the node's
	Reason  string `json:"reason"`
	Run     string `json:"run"`
	Service string `json:"service"`
	Of      string `json:"of,omitempty"`     // withdraw: key of the request
	Ticket  string `json:"ticket,omitempty"` // withdraw: what the receiver called it
}

// Ask posts a repair. The ticket is what the receiver calls it, the member id of
// a JSON object in its answer; empty: it gives it no name. The error is an
// [*Error], whose Maybe says whether the receiver may have it all the same.
func (r *Repairs) Ask(ctx context.Context, ask Repair) (ticket string, err error) {
	body, err := encodeJSON(ask)
	if err != nil {
		return "", err
	}
	token, err := bearer("repairs", r.tokenFile)
	if err != nil {
		return "", err
	}
	answer, err := r.endpoint.do(ctx, request{
		method: http.MethodPost, contentType: "application/json", body: body, token: token, key: ask.Key, maxAnswer: maxAnswer,
	})
	if e := new(Error); errors.As(err, &e) && e.Accepted {
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
		return oneLine(id, 100), nil
	case json.Number:
		return oneLine(id.String(), 100), nil
	default:
		return "", nil
	}
}

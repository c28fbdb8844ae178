package notify

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

// Repair is one request, or the end of one. Key is also the header
// Idempotency-Key: who has seen it has this very request before it.
type Repair struct {
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

// Ask posts a repair. The ticket is what the receiver calls it, the member id of
// a JSON object in its answer; empty: it gives it no name. The error is an
// [*fault.Error], whose Unknown reports whether the receiver may have it all the same.
func (w *Webhook) Ask(ctx context.Context, ask Repair) (ticket string, err error) {
	body, err := encodeJSON(ask)
	if err != nil {
		return "", err
	}
	answer, err := w.post(ctx, request{contentType: "application/json", body: body, key: ask.Key, maxAnswer: maxAnswer})
	if errors.As(err, new(accepted)) {
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

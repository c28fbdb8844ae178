package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/step"
)

// repairsConfig is who is asked for the repair of a GPU.
type repairsConfig struct {
	URL        string        `yaml:"url" doc:"Each request is posted here as JSON: action (request, or withdraw), key, node, gpus, reason, run, service. A 2xx is a yes; the member id of its answer is what the run calls the request."`
	TokenFile  string        `yaml:"token_file" doc:"File with a bearer token for it. It is read for every request."`
	CAFile     string        `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	Plaintext  bool          `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	Timeout    time.Duration `yaml:"timeout" doc:"For one request; 50ms to 30s. Default: 10s."`
	Idempotent bool          `yaml:"idempotent" doc:"It takes two requests with the same Idempotency-Key for one, so that one whose answer was lost may be sent again. Otherwise the run is held and people say what is true."`
}

// maxRepairsTimeout is well below the time that an effect has.
const maxRepairsTimeout = 30 * time.Second

func (r repairsConfig) check(bad report) {
	if r == (repairsConfig{}) {
		return
	}
	if !isHTTP(r.URL) {
		bad("gpu.repairs.url", "write it like https://tickets.example/hooks/gpu", "is not a URL") // not repeated: it may hold a secret
	}
	if r.Timeout != 0 && (r.Timeout < 50*time.Millisecond || r.Timeout > maxRepairsTimeout) {
		bad("gpu.repairs.timeout", "50ms to 30s", "%s is out of range", r.Timeout)
	}
}

// openRepairs makes the client; nil: none is configured.
func openRepairs(c config) (step.Repairs, error) {
	r := c.GPU.Repairs
	if r.URL == "" {
		return nil, nil
	}
	client, err := notify.NewWebhook(notify.WebhookOptions{Name: "repairs", URL: r.URL, TokenFile: r.TokenFile, CAFile: r.CAFile, Timeout: r.Timeout})
	if err != nil {
		return nil, fmt.Errorf("gpu.%w", err)
	}
	return repairs{client, r.Idempotent}, nil
}

// repairs speaks to the client in the words of steps.
type repairs struct {
	client *notify.Webhook
	once   bool
}

// Where implements [step.Repairs].
func (r repairs) Where() string { return r.client.Where() }

// Once implements [step.Repairs].
func (r repairs) Once() bool { return r.once }

// Ask implements [step.Repairs].
func (r repairs) Ask(ctx context.Context, ask step.RepairRequest) (string, error) {
	body := notify.Repair{
		Action: "request", Key: ask.Key, Of: ask.Withdraw, Ticket: ask.Ticket,
		Node: ask.Node, GPUs: ask.GPUs, Reason: ask.Reason, Run: ask.Run, Service: ask.Service,
	}
	if ask.Withdraw != "" {
		body.Action = "withdraw"
	}
	ticket, err := r.client.Ask(ctx, body)
	if e := new(notify.Error); errors.As(err, &e) {
		return "", &step.Error{Reason: machine.Reason(e.Reason), Message: e.Error(), Unknown: e.Maybe}
	}
	return ticket, err
}

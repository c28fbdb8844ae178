package client

import (
	"context"
	"net/http"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/webhook"
)

// Decide sends what a person decides about a run, and gives the run as it is
// then. Who that is follows from the token.
func (c *Client) Decide(ctx context.Context, run, verb string, d webhook.DecisionRequest) (machine.State, error) {
	var answer webhook.RunDetail
	err := c.Send(ctx, http.MethodPost, RunPath(run)+"/"+verb, d, &answer)
	return answer.Run, err
}

package client

import (
	"context"
	"net/http"

	"github.com/inference-responder/responder/internal/api"
)

// Decide sends what a person decides about a run, and returns the run
// after it. Who that is follows from the token.
func (c *Client) Decide(ctx context.Context, run, verb string, d api.DecisionRequest) (api.Run, error) {
	var answer api.RunDetail
	err := c.Send(ctx, http.MethodPost, RunPath(run)+"/"+verb, d, &answer)
	return answer.Run, err
}

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// Follow calls each with every event of a run, oldest first, until the run has
// ended, each fails or ctx is done.
func (c *Client) Follow(ctx context.Context, run string, each func(api.Event) error) error {
	var next uint64
	for ended := false; !ended; {
		before := next
		query := url.Values{"follow": {"1"}, "from": {strconv.FormatUint(next, 10)}}
		err := c.Stream(ctx, RunPath(run)+"/events", query, func(line json.RawMessage) error {
			var e api.Event
			if err := json.Unmarshal(line, &e); err != nil {
				return fmt.Errorf("the server's answer is not what this version expects: %w", err)
			}
			if e.Seq < next {
				return nil
			}
			next = e.Seq + 1
			// Late decisions are recorded, as ignored, after the end.
			ended = ended || e.Kind == string(machine.RunEnded)
			return each(e)
		})
		if err != nil {
			return err
		}
		if !ended && next == before { // the server ended the stream: it is stopping
			return errors.New("the service ended the stream; watch again when it is back")
		}
	}
	return nil
}

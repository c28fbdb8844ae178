package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/webhook"
)

func newRunsWatchCommand(p *process) *cobra.Command {
	c := client{process: p}
	var out output
	cmd := &cobra.Command{
		Use:     "watch RUN",
		Short:   "Follow a run until it ends",
		Long:    "Follow a run until it ends. With -o json every event is one line.",
		Args:    one(whichRun),
		Example: "  responder runs watch r-01JDXYZ",
		RunE: func(cmd *cobra.Command, args []string) error {
			return watchRun(cmd.Context(), p, &c, &out, args[0])
		},
	}
	c.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// watchRun writes events as they come.
func watchRun(ctx context.Context, p *process, c *client, out *output, id string) error {
	r := newRunRenderer(p.stdout)
	r.wide = out.wide()
	var next uint64
	ended := false
	each := func(line json.RawMessage) error {
		var e webhook.RunEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("the server's answer is not what this version expects: %w", err)
		}
		next = e.Index + 1
		// Late decisions are recorded, as ignored, after the end.
		ended = ended || e.Kind == machine.RunEnded
		if out.structured() {
			return writeLine(p, out, e)
		}
		r.event(e.Kind, e.Event)
		return r.err
	}
	for !ended {
		before := next
		query := url.Values{"follow": {"1"}, "from": {strconv.FormatUint(next, 10)}}
		if err := c.stream(ctx, runPath(id)+"/events", query, each); err != nil {
			return err
		}
		if !ended && next == before {
			// The server said goodbye without an event: it is stopping.
			return errors.New("the service ended the stream; watch again when it is back")
		}
	}
	return nil
}

func writeLine(p *process, out *output, e webhook.RunEvent) error {
	if out.format == formatYAML {
		if _, err := fmt.Fprintln(p.stdout, "---"); err != nil {
			return err
		}
		return writeYAML(p.stdout, e)
	}
	return json.NewEncoder(p.stdout).Encode(e)
}

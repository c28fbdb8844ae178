package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

func newRunsWatchCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
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
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	return cmd
}

// watchRun writes events as they come.
func watchRun(ctx context.Context, p *command.Process, c *client.Client, out *command.Output, id string) error {
	r := runview.NewRenderer(p.Stdout)
	r.Wide = out.Wide()
	var next uint64
	ended := false
	each := func(line json.RawMessage) error {
		var e api.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("the server's answer is not what this version expects: %w", err)
		}
		next = e.Seq + 1
		// Late decisions are recorded, as ignored, after the end.
		ended = ended || e.Kind == string(machine.RunEnded)
		if out.Structured() {
			return writeLine(p, out, e)
		}
		fact := e.Machine()
		r.Event(fact.Kind, fact)
		return r.Err
	}
	for !ended {
		before := next
		query := url.Values{"follow": {"1"}, "from": {strconv.FormatUint(next, 10)}}
		if err := c.Stream(ctx, client.RunPath(id)+"/events", query, each); err != nil {
			return err
		}
		if !ended && next == before {
			// The server said goodbye without an event: it is stopping.
			return errors.New("the service ended the stream; watch again when it is back")
		}
	}
	return nil
}

func writeLine(p *command.Process, out *command.Output, e api.Event) error {
	if out.Format == command.FormatYAML {
		if _, err := fmt.Fprintln(p.Stdout, "---"); err != nil {
			return err
		}
		return command.WriteYAML(p.Stdout, e)
	}
	return json.NewEncoder(p.Stdout).Encode(e)
}

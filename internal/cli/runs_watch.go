package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newRunsWatchCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:     "watch RUN",
		Short:   "Follow a run until it ends",
		Long:    "Follow a run until it ends. With -o json every event is one line.",
		Args:    one(runArgument),
		Example: "  responder runs watch r-01JDXYZ",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.RunNamed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return watchRun(cmd.Context(), p, &c, &out, id)
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	completeRuns(cmd, &c, nil)
	return cmd
}

// watchRun writes events as they come.
func watchRun(ctx context.Context, p *command.Process, c *client.Client, out *command.Output, id string) error {
	r := runview.NewRenderer(p.Stdout)
	r.Wide = out.Wide()
	if !out.Structured() {
		var detail api.RunDetail
		if err := c.Get(ctx, client.RunPath(id), nil, &detail); err != nil {
			return err
		}
		r.Run = detail.Run.Machine()
		r.Book, _ = parseDocument(r.Run, detail.Document) // without it states are shown by name
	}
	return c.Follow(ctx, id, func(e api.Event) error {
		if out.Structured() {
			return writeLine(p, out, e)
		}
		r.Event(e.Machine())
		return r.Err
	})
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

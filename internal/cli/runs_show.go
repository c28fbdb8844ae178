package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/kinds"
)

func newRunsShowCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: what it saw, decided, changed and proved",
		Args:  one(runArgument),
		Example: `  responder runs show r-01JDXYZ
  responder runs show r-01JDXYZ -o wide   # and the queries behind the numbers
  responder runs show r-01JDXYZ -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.RunNamed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			report, document, err := fetchRun(cmd.Context(), &c, id)
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, report, func(w io.Writer) error { return writeRun(w, report, document, out.Wide()) })
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	completeRuns(cmd, &c)
	return cmd
}

// fetchRun asks for a run, its events and the document of its playbook.
func fetchRun(ctx context.Context, c *client.Client, id string) (api.RunReport, string, error) {
	var detail api.RunDetail
	if err := c.Get(ctx, client.RunPath(id), nil, &detail); err != nil {
		return api.RunReport{}, "", err
	}
	report := api.RunReport{Run: detail.Run, Events: []api.Event{}}
	err := c.Stream(ctx, client.RunPath(id)+"/events", nil, func(line json.RawMessage) error {
		var e api.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("the server's answer is not what this version expects: %w", err)
		}
		report.Events = append(report.Events, e)
		return nil
	})
	return report, detail.Document, err
}

func writeRun(w io.Writer, report api.RunReport, document string, wide bool) error {
	r := runview.NewRenderer(w)
	run := report.Run.Machine()
	// Without the document, or with one of another version, states are shown
	// by name and nothing is drawn.
	pb, _ := parseDocument(run, document)
	r.Book, r.Brief, r.Wide = pb, true, wide
	r.Head(run)
	if report.Run.Trace != "" {
		r.Printf("trace     %s\n", report.Run.Trace)
	}
	r.Printf("\n")
	var samples []machine.Sample
	for _, e := range report.Events {
		fact := e.Machine()
		r.Event(fact)
		if fact.Sample != nil {
			samples = append(samples, *fact.Sample)
		}
	}
	if lines := runview.Curves(samples); len(lines) > 0 {
		r.Printf("\nproof, %s\n", runview.Count(len(samples), "sample"))
		for _, l := range lines {
			r.Printf("  %s\n", l)
		}
	}
	if pb != nil {
		r.Drawing("\npath through the playbook\n" + runview.DrawPath(pb, run.Path))
	}
	return r.Err
}

// parseDocument compiles the playbook that a run follows.
func parseDocument(s machine.State, document string) (*playbook.Playbook, error) {
	if document == "" {
		return nil, fmt.Errorf("the service has not kept the document of %s", s.Start.Playbook)
	}
	loaded, err := playbook.ParseRecorded(s.Start.Playbook, []byte(document), kinds.Declarations())
	if err != nil {
		return nil, fmt.Errorf("the playbook of %s is not of this version of the program: %w", s.Start.Run, err)
	}
	return loaded[0], nil
}

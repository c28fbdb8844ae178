package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

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
	var progress, graph bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: what it asks, what it saw, decided, changed and proved",
		Long: `Show a run: where it stands, what it asks and what to type; the evidence for the
cause; what was changed and with which result. Times are in the zone of this machine.

--progress lists everything that happened. --graph draws the path through the playbook
and the samples of proofs. -o wide shows all of that, and the queries behind the
numbers.`,
		Args: one(runArgument),
		Example: `  responder runs show r-01JDXYZ
  responder runs show r-01JDXYZ --progress
  responder runs show r-01JDXYZ --graph
  responder runs show r-01JDXYZ -o wide   # everything
  responder runs show r-01JDXYZ -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.RunNamed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			report, shown, err := fetchRun(cmd.Context(), &c, id)
			if err != nil {
				return err
			}
			all := out.Wide()
			o := runview.Overview{Progress: progress || all, Graph: graph || all, Full: all}
			return out.Print(p.Stdout, report, func(w io.Writer) error { return writeRun(w, p, report, shown, o) })
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().BoolVar(&progress, "progress", false, "list every step of the run")
	cmd.Flags().BoolVar(&graph, "graph", false, "draw the path through the playbook and the samples of proofs")
	out.AddFlag(cmd)
	completeRuns(cmd, &c, nil)
	return cmd
}

// shownRun is what is known of a run besides its report.
type shownRun struct {
	document string    // of its playbook
	now      time.Time // by the service's clock; zero: a service of before does not tell
}

// fetchRun asks for a run, its events and the document of its playbook.
func fetchRun(ctx context.Context, c *client.Client, id string) (api.RunReport, shownRun, error) {
	var detail api.RunDetail
	if err := c.Get(ctx, client.RunPath(id), nil, &detail); err != nil {
		return api.RunReport{}, shownRun{}, err
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
	return report, shownRun{detail.Document, detail.Now}, err
}

// writeRun writes a run for people.
func writeRun(w io.Writer, p *command.Process, report api.RunReport, shown shownRun, o runview.Overview) error {
	r := newRunRenderer(w, p, shown.now)
	o.Run, o.Trace = report.Run.Machine(), report.Run.Trace
	// Without the document, or with one of another version, states are shown
	// by name and nothing is drawn.
	o.Run.Playbook, _ = parseDocument(o.Run, shown.document)
	r.Book = o.Run.Playbook
	for _, e := range report.Events {
		o.Events = append(o.Events, e.Machine())
	}
	if o.Full {
		r.Width = 0 // whole, however long the lines
	}
	r.Overview(o)
	return r.Err
}

// newRunRenderer returns a renderer that fits the reader's window and writes times in the
// reader's zone, as they are at a moment of the service's clock.
func newRunRenderer(w io.Writer, p *command.Process, now time.Time) *runview.Renderer {
	r := runview.NewRenderer(w)
	r.Clock, r.Width = runview.Clock{Zone: p.Zone, Now: now}, runview.LineWidth(w)
	return r
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

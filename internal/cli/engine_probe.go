package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/engine"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// engineProbe are the arguments of engine probe.
type engineProbe struct {
	config, service, record string
	within, least           int
	force                   bool
	timeout                 time.Duration
}

func newEngineProbeCommand(p *command.Process) *cobra.Command {
	var f engineProbe
	var out command.Output
	cmd := &cobra.Command{
		Use:   "probe SERVICE",
		Short: "Ask a service for completions of golden prompts",
		Long: `Ask the endpoint of a service and its ready replicas for completions of its golden
prompts, as the check engine.probe does, and compare them with the answers that the
file of golden prompts expects. The service needs a probe in its entry of the catalog;
its limits hold here, too. Prompts and completions are not printed.

--record FILE writes that file from a service that is known to be good. Each prompt is
asked twice of everyone, and only what all completions have in common is expected from
then on. The prompts are those of FILE if it exists, else those of the service's
probe.prompts_file, else a few common ones. Name the file there as probe.prompts_file.

Exit codes:
  0  all that were asked answered, and none differs early; with --record: it is written
  1  an error
  2  a completion is wrong, or somebody hung or failed
  3  nothing was asked`,
		Args: cobra.ExactArgs(1),
		Example: `  responder engine probe serving/chat --config responder.yaml
  responder engine probe serving/chat --config responder.yaml -o json
  responder engine probe serving/chat --config responder.yaml --record golden/chat.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.service = args[0]
			w, s, err := f.open(p)
			if err != nil {
				return err
			}
			if w.Close != nil {
				defer func() { _ = w.Close() }() // nothing was written
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			if f.record != "" {
				return f.write(ctx, p.Stderr, w, s)
			}
			return f.probe(ctx, p.Stdout, &out, w, s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "responder.yaml", "configuration file")
	flags.StringVar(&f.record, "record", "", "write the golden prompts with the answers of now to this file")
	flags.BoolVar(&f.force, "force", false, "replace the answers that the file of --record has")
	flags.IntVar(&f.within, "within", 8, "a completion is wrong if it differs within so many of its first tokens")
	flags.IntVar(&f.least, "least", 2, "and a replica is wrong if so many of its completions are")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "time limit")
	out.AddFlag(cmd)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return configuredServices(f.config), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// open opens the world of the configuration and finds the service.
func (f engineProbe) open(p *command.Process) (app.World, playbook.Service, error) {
	if f.timeout <= 0 {
		return app.World{}, playbook.Service{}, fmt.Errorf("--timeout %s: want a positive duration", f.timeout)
	}
	c, err := config.Load(f.config)
	if err != nil {
		return app.World{}, playbook.Service{}, err
	}
	s, err := findService(app.ConfiguredServices(c), f.service)
	if err != nil {
		return app.World{}, s, err
	}
	w, err := cluster.Open(c, p.Temp.Dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return w, s, err
	}
	if _, ok := w.Deps.Probes.Settings(s.Name); !ok {
		err = fmt.Errorf("service %s has no probe: add probe: {} to its entry under services in %s", s.Name, f.config)
		if w.Close != nil {
			err = errors.Join(err, w.Close())
		}
	}
	return w, s, err
}

// probed is what is printed of the evidence.
type probed struct {
	Probed   bool     `json:"probed"`
	Why      string   `json:"why"`
	Hung     int      `json:"hung"`
	Failed   int      `json:"failed"`
	Wrong    bool     `json:"wrong"`
	Gateway  target   `json:"gateway"`
	Replicas []target `json:"replicas"`
}

type target struct {
	Name       string   `json:"name"`
	Node       string   `json:"node"`
	Revision   int64    `json:"revision"`
	State      string   `json:"state"`
	Why        string   `json:"why"`
	Status     int      `json:"status"`
	TTFT       *float64 `json:"ttft_seconds"`
	ITL        *float64 `json:"itl_seconds"`
	Matched    int      `json:"matched"`
	Differed   int      `json:"differed"`
	DifferedAt int      `json:"differed_at"`
	Wrong      bool     `json:"wrong"`
}

// probe carries out the check and prints its evidence.
func (f engineProbe) probe(ctx context.Context, to io.Writer, out *command.Output, w app.World, s playbook.Service) error {
	o := kinds.New(w.Deps).Do(ctx, machine.Effect{
		Key: "engine-probe", Action: machine.ActionCheck, Step: engine.GoldenKind().Name, Service: s, With: map[string]any{"within": f.within, "least": f.least},
	})
	if o.Status != machine.StatusOK {
		return errors.New(o.Message)
	}
	var v probed
	if err := json.Unmarshal(o.Data, &v); err != nil {
		return fmt.Errorf("read the evidence: %w", err)
	}
	err := out.Print(to, o.Data, func(to io.Writer) error {
		for _, fact := range o.Facts {
			for _, line := range runview.Wrap(fact, runview.Width) {
				fmt.Fprintln(to, line)
			}
		}
		if !v.Probed {
			return nil
		}
		fmt.Fprintln(to)
		return v.table().Write(to, out.Wide())
	})
	if err != nil {
		return err
	}
	switch g := v.Gateway; {
	case !v.Probed:
		return command.ExitCode(3)
	case v.Wrong || g.Wrong || v.Hung+v.Failed > 0 || g.State == string(golden.Hung) || g.State == string(golden.Failed):
		return command.ExitCode(2)
	}
	return nil
}

// table has a row for the endpoint and for each replica.
func (v probed) table() *runview.Table {
	t := &runview.Table{Columns: []runview.Column{
		{Head: "TARGET"},
		{Head: "NODE", Wide: true},
		{Head: "REVISION"},
		{Head: "STATE"},
		{Head: "STATUS"},
		{Head: "TTFT"},
		{Head: "ITL"},
		{Head: "MATCHED"},
		{Head: "DIFFERED"},
		{Head: "FROM TOKEN"},
		{Head: "WHY", Flex: true},
	}}
	v.Gateway.Name = "(endpoint)"
	for _, r := range append([]target{v.Gateway}, v.Replicas...) {
		number := func(n int, none bool) string {
			if none {
				return "-"
			}
			return strconv.Itoa(n)
		}
		seconds := func(s *float64) string {
			if s == nil {
				return "-"
			}
			return time.Duration(*s * float64(time.Second)).String()
		}
		compared := r.Matched+r.Differed > 0
		why := r.Why
		if r.Wrong {
			why = strings.TrimPrefix(why+"; wrong", "; ")
		}
		t.Add(r.Name, r.Node, number(int(r.Revision), r.Revision == 0), r.State, number(r.Status, r.Status == 0), seconds(r.TTFT), seconds(r.ITL),
			number(r.Matched, !compared), number(r.Differed, !compared), number(r.DifferedAt, r.DifferedAt < 0), why)
	}
	return t
}

// write records the answers of the service.
func (f engineProbe) write(ctx context.Context, to io.Writer, w app.World, s playbook.Service) error {
	file, _, err := golden.Read(f.record)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if file, _, err = w.Deps.Probes.Prompts(s.Name); errors.Is(err, fs.ErrNotExist) { // it is to be written now
			file, err = golden.Common(), nil
		}
		if err != nil {
			return err
		}
	case err != nil:
		return err
	case !f.force && !file.Recorded.IsZero():
		return fmt.Errorf("%s has answers that were recorded at %s: --force replaces them", f.record, file.Recorded.UTC().Format(time.RFC3339))
	}
	r, err := engine.Record(ctx, w.Deps, s, file.Prompts, w.Now())
	if err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintln(to, "note:", n)
	}
	b, err := r.File.Encode()
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(f.record), "."+filepath.Base(f.record)+"-*")
	if err != nil {
		return fmt.Errorf("write golden prompts: %w", err)
	}
	_, err = temp.Write(b)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), f.record)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write golden prompts: %w", err), os.Remove(temp.Name()))
	}
	fmt.Fprintf(to, "wrote %s: %s, answered alike by %s\n", f.record, runview.Count(len(r.File.Prompts), "prompt"), runview.Count(r.Asked, "target"))
	return nil
}

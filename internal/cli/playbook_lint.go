package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/cli/series"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/yamldoc"
)

func newPlaybookLintCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var lookup seriesFlags
	cmd := &cobra.Command{
		Use:   "lint FILE|DIR...",
		Short: "Check playbooks and say what is wrong, where, and what to do",
		Long: `Check playbooks as the service does when it loads them: unknown fields, types
of conditions, states that cannot be reached or never end, proofs that are
constant, changes before any check, and ways from one change to another that no
branch names. It needs no cluster. Of a directory the files are checked that the
service would read: *.yaml, without *.test.yaml and *.world.yaml, and links that lead
to a file inside it. A lever without verify is proven by the service's own SLO.

A series in a query that no adapter of an engine or of GPUs knows is a warning. With
--prometheus, or the configuration's, series are looked up there too, and so are the
labels of matchers and the buckets of le: a query that names one that does not exist
has no result. A warning makes no file invalid.

Exit codes:
  0  all files are valid
  1  at least one is not, or Prometheus could not be asked`,
		Args: some("FILE or DIR..."),
		Example: `  responder playbook lint playbooks/
  responder playbook lint my-playbook.yaml -o json
  responder playbook lint my-playbook.yaml --prometheus http://prometheus.monitoring:9090`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return lintPlaybooks(cmd.Context(), p, &out, &lookup, args)
		},
	}
	lookup.add(cmd)
	out.AddFlag(cmd)
	return cmd
}

func lintPlaybooks(ctx context.Context, p *command.Process, out *command.Output, lookup *seriesFlags, args []string) error {
	from, err := lookup.source()
	if err != nil {
		return err
	}
	files, err := playbookFiles(args)
	if err != nil {
		return err
	}
	var found playbook.Problems
	var good []*playbook.Playbook
	for _, f := range files {
		loaded, err := playbook.Parse(f.Name, f.Data, kinds.Declarations())
		var problems playbook.Problems
		switch {
		case errors.As(err, &problems):
			found = append(found, problems...)
		case err != nil:
			return err
		}
		good = append(good, loaded...)
	}
	if len(found) == 0 {
		// What is wrong between playbooks shows only when all are read.
		if _, err := playbook.NewSet(good); err != nil && !errors.As(err, &found) {
			return err
		}
	}
	warnings, unchecked, away := series.Lint(ctx, good, from, time.Now())
	report := api.PlaybookLint{Playbooks: len(good), Problems: faultsOf(found), Warnings: faultsOf(warnings), Unchecked: unchecked}
	err = printLint(p, out, report, lintResult{found, warnings, unchecked, runview.Count(len(good), "playbook"), away != nil})
	return cmp.Or(away, err)
}

// lintResult is what a linter tells people.
type lintResult struct {
	problems, warnings yamldoc.Problems
	unchecked          []string // metrics whose labels could not be compared
	read               string   // what was read, e.g. 2 playbooks
	away               bool     // Prometheus could not be asked: without problems nothing is called fine
}

// printLint prints the report of a linter, or its problems and what was read.
func printLint(p *command.Process, out *command.Output, report any, r lintResult) error {
	err := out.Print(p.Stdout, report, func(w io.Writer) error {
		for _, problem := range r.problems {
			fmt.Fprintln(w, runview.Printable(problem.String()))
		}
		for _, warning := range r.warnings {
			warning.Message = "warning: " + warning.Message
			fmt.Fprintln(w, runview.Printable(warning.String()))
		}
		if len(r.unchecked) > 0 {
			fmt.Fprintf(w, "not in Prometheus now, so labels and buckets were not compared: %s\n", runview.Printable(strings.Join(r.unchecked, ", ")))
		}
		if fmt.Fprint(w, r.read); !r.away || len(r.problems) > 0 {
			fmt.Fprint(w, ", ", runview.Count(len(r.problems), "problem"))
		}
		if len(r.warnings) > 0 {
			fmt.Fprint(w, ", ", runview.Count(len(r.warnings), "warning"))
		}
		if r.away {
			fmt.Fprint(w, "; their series were not looked up")
		}
		_, err := fmt.Fprintln(w)
		return err
	})
	if err == nil && len(r.problems) > 0 {
		return command.ExitCode(command.ExitError)
	}
	return err
}

// faultsOf returns the problems of files as the API has them.
func faultsOf(found yamldoc.Problems) []api.Fault {
	out := make([]api.Fault, 0, len(found))
	for _, p := range found {
		out = append(out, api.Fault(p))
	}
	return out
}

// playbookFiles reads what is named; of a directory what the service reads.
func playbookFiles(args []string) ([]playbook.File, error) {
	var files []playbook.File
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("read playbook: %w", err)
		}
		if !info.IsDir() {
			data, err := app.ReadPlaybookFile(arg)
			if err != nil {
				return nil, err
			}
			files = append(files, playbook.File{Name: arg, Data: data})
			continue
		}
		found, err := playbook.ReadDir(arg)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no playbooks in %s: a playbook's file ends in .yaml, and not in .test.yaml or .world.yaml", arg)
		}
		files = append(files, found...)
	}
	return files, nil
}

func newPlaybookSchemaCommand(p *command.Process) *cobra.Command {
	var out command.Output
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of playbooks, for editors",
		Args:  none,
		Example: `  responder playbook schema > playbook.schema.json
  # first line of a playbook, for editors with a YAML language server:
  # yaml-language-server: $schema=playbook.schema.json`,
		RunE: func(*cobra.Command, []string) error {
			schema := playbook.Schema(kinds.Declarations())
			return out.Print(p.Stdout, json.RawMessage(schema), func(w io.Writer) error {
				_, err := w.Write(schema)
				return err
			})
		},
	}
	out.AddFlag(cmd)
	return cmd
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

func newPlaybookLintCommand(p *process) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "lint FILE|DIR...",
		Short: "Check playbooks and say what is wrong, where, and what to do",
		Long: `Check playbooks as the service does when it loads them: unknown fields, types
of conditions, states that cannot be reached or never end, levers without
proof, changes before any check. It needs no cluster.

Exit codes:
  0  all of them may be loaded
  1  at least one may not`,
		Args: some("which playbooks? name files or directories"),
		Example: `  responder playbook lint playbooks/
  responder playbook lint my-playbook.yaml -o json`,
		RunE: func(_ *cobra.Command, args []string) error {
			return lintPlaybooks(p, &out, args)
		},
	}
	out.addFlag(cmd)
	return cmd
}

// lintReport is the answer of lint.
type lintReport struct {
	Playbooks int                `json:"playbooks"` // that may be loaded
	Problems  []playbook.Problem `json:"problems"`
}

func lintPlaybooks(p *process, out *output, args []string) error {
	files, err := playbookFiles(args)
	if err != nil {
		return err
	}
	report := lintReport{Problems: []playbook.Problem{}}
	var good []*playbook.Playbook
	for _, f := range files {
		loaded, err := parsePlaybookFile(f)
		var problems playbook.Problems
		switch {
		case errors.As(err, &problems):
			report.Problems = append(report.Problems, problems...)
		case err != nil:
			return err
		}
		good = append(good, loaded...)
	}
	report.Playbooks = len(good)
	if len(report.Problems) == 0 {
		// What is wrong between playbooks shows only when all are read.
		if err := lintTogether(&report, good); err != nil {
			return err
		}
	}
	err = out.print(p.stdout, report, func(w io.Writer) error {
		for _, problem := range report.Problems {
			fmt.Fprintln(w, printable(problem.String()))
		}
		_, err := fmt.Fprintf(w, "%s, %s\n", count(len(good), "playbook"), count(len(report.Problems), "problem"))
		return err
	})
	if err == nil && len(report.Problems) > 0 {
		return exitCode(exitError)
	}
	return err
}

func lintTogether(report *lintReport, good []*playbook.Playbook) error {
	_, err := playbook.NewSet(good)
	var problems playbook.Problems
	if errors.As(err, &problems) {
		report.Problems = append(report.Problems, problems...)
		return nil
	}
	return err
}

// playbookFiles expands directories to the YAML files in them.
func playbookFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("read playbook: %w", err)
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		found, err := filepath.Glob(filepath.Join(arg, "*.yaml"))
		if err != nil {
			return nil, err
		}
		// Scenario tests stand beside the playbooks they test. Hidden files are
		// those of editors, and the service passes them over.
		found = slices.DeleteFunc(found, func(f string) bool {
			return strings.HasSuffix(f, ".test.yaml") || strings.HasPrefix(filepath.Base(f), ".")
		})
		if len(found) == 0 {
			return nil, fmt.Errorf("no playbooks in %s: no file ends in .yaml", arg)
		}
		files = append(files, found...)
	}
	return files, nil
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func newPlaybookSchemaCommand(p *process) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of playbooks, for editors",
		Args:  none,
		Example: `  responder playbook schema > playbook.schema.json
  # first line of a playbook, for editors with a YAML language server:
  # yaml-language-server: $schema=playbook.schema.json`,
		RunE: func(*cobra.Command, []string) error {
			schema := playbook.Schema(step.Kinds())
			return out.print(p.stdout, json.RawMessage(schema), func(w io.Writer) error {
				_, err := w.Write(schema)
				return err
			})
		},
	}
	out.addFlag(cmd)
	return cmd
}

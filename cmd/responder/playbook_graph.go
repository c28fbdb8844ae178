package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/spelling"
)

func newPlaybookGraphCommand(p *process) *cobra.Command {
	c := client{process: p}
	var drawing, run, dir string
	var out output
	cmd := &cobra.Command{
		Use:   "graph FILE|NAME",
		Short: "Draw a playbook, and the path a run took through it",
		Args:  atMostOne,
		Example: `  responder playbook graph inference-slo-breach
  responder playbook graph my-playbook.yaml --format mermaid
  responder playbook graph --run r-01JDXYZ`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (run == "") == (len(args) == 0) {
				return fmt.Errorf("which one? name a file or a playbook, or a run with --run")
			}
			var pb *playbook.Playbook
			var path []string
			var err error
			if run != "" {
				pb, path, err = playbookOfRun(cmd, &c, run)
			} else {
				pb, err = findPlaybook(args[0], dir)
			}
			if err != nil {
				return err
			}
			drawn, err := playbook.Graph(pb, path, playbook.GraphFormat(drawing))
			if err != nil {
				return err
			}
			return out.print(p.stdout, graphOf(pb, path, drawing, drawn), func(w io.Writer) error {
				_, err := io.WriteString(w, drawn)
				return err
			})
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		set, err := loadPlaybooks(dir)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return playbookNames(set), cobra.ShellCompDirectiveDefault // or a file
	}
	c.addFlags(cmd)
	out.addFlag(cmd)
	cmd.Flags().StringVar(&drawing, "format", string(playbook.GraphText), "text, mermaid or dot")
	// The error is of a flag that does not exist; it was added above.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]cobra.Completion{"text", "mermaid", "dot"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&run, "run", "", "draw the playbook of this run, with its path")
	cmd.Flags().StringVar(&dir, "dir", "", "directory to find NAME in (default: the shipped playbooks)")
	return cmd
}

func playbookOfRun(cmd *cobra.Command, c *client, id string) (*playbook.Playbook, []string, error) {
	report, document, err := fetchRun(cmd.Context(), c, id)
	if err != nil {
		return nil, nil, err
	}
	loaded, err := parseDocument(report.Run, document)
	if err != nil {
		return nil, nil, err
	}
	return loaded, pathNames(report.Run.Path), nil
}

// findPlaybook reads a file, or finds a name in dir or among the shipped ones.
func findPlaybook(arg, dir string) (*playbook.Playbook, error) {
	if _, err := os.Stat(arg); err == nil && dir == "" {
		loaded, err := parsePlaybookFile(arg)
		if err != nil {
			return nil, err
		}
		if len(loaded) > 1 {
			return nil, fmt.Errorf("%s holds %d playbooks; put each in a file, or name one with --dir", arg, len(loaded))
		}
		return loaded[0], nil
	}
	set, err := loadPlaybooks(dir)
	if err != nil {
		return nil, err
	}
	if pb := set.ByName(arg); pb != nil {
		return pb, nil
	}
	var names []string
	for _, pb := range set.All() {
		names = append(names, pb.Name)
	}
	hint := ""
	if n := spelling.Nearest(arg, names); n != "" {
		hint = fmt.Sprintf("did you mean %q? ", n)
	}
	return nil, fmt.Errorf("no file and no playbook is named %q; %sthere is %s", arg, hint, strings.Join(names, ", "))
}

// pathNames are the states of a path, without those the drawing would not know.
func pathNames(path []machine.Visit) []string {
	var names []string
	for _, v := range path {
		names = append(names, v.State)
	}
	return names
}

// drawPath draws a playbook with the path taken, for a terminal.
func drawPath(pb *playbook.Playbook, path []machine.Visit) string {
	names := slices.DeleteFunc(pathNames(path), func(name string) bool { return pb.State(name) == nil })
	drawn, err := playbook.Graph(pb, names, playbook.GraphText)
	if err != nil {
		return ""
	}
	return drawn
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/spelling"
)

func newPlaybookGraphCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var drawing, run, dir string
	var out command.Output
	cmd := &cobra.Command{
		Use:   "graph FILE|NAME",
		Short: "Draw a playbook, and the path a run took through it",
		Args:  atMostOne,
		Example: `  responder playbook graph inference-slo-breach
  responder playbook graph my-playbook.yaml --format mermaid
  responder playbook graph --run r-01JDXYZ`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (run == "") == (len(args) == 0) {
				return errors.New("give either FILE or NAME of a playbook, or --run RUN")
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
			return out.Print(p.Stdout, graphOf(pb, path, drawing, drawn), func(w io.Writer) error {
				_, err := io.WriteString(w, drawn)
				return err
			})
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		set, err := app.LoadPlaybooks(dir)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return app.PlaybookNames(set), cobra.ShellCompDirectiveDefault // or a file
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	cmd.Flags().StringVar(&drawing, "format", string(playbook.GraphText), "text, mermaid or dot")
	// The error is of a flag that does not exist; it was added above.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]cobra.Completion{"text", "mermaid", "dot"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&run, "run", "", "draw the playbook of this run, with its path")
	cmd.Flags().StringVar(&dir, "dir", "", "directory to find NAME in (default: the shipped playbooks)")
	return cmd
}

func playbookOfRun(cmd *cobra.Command, c *client.Client, name string) (*playbook.Playbook, []string, error) {
	id, err := c.RunNamed(cmd.Context(), name)
	if err != nil {
		return nil, nil, err
	}
	report, shown, err := fetchRun(cmd.Context(), c, id)
	if err != nil {
		return nil, nil, err
	}
	run := report.Run.Machine()
	loaded, err := parseDocument(run, shown.document)
	if err != nil {
		return nil, nil, err
	}
	return loaded, runview.PathNames(run.Path), nil
}

// findPlaybook reads a file, or finds a name in dir or among the shipped ones.
func findPlaybook(arg, dir string) (*playbook.Playbook, error) {
	if _, err := os.Stat(arg); err == nil && dir == "" {
		loaded, err := app.ParsePlaybookFile(arg)
		if err != nil {
			return nil, err
		}
		if len(loaded) > 1 {
			return nil, fmt.Errorf("%s holds %d playbooks; put each in a file, or name one with --dir", arg, len(loaded))
		}
		return loaded[0], nil
	}
	set, err := app.LoadPlaybooks(dir)
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

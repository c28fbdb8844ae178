package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

func newPlaybookListCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	var dir string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List playbooks: the shipped ones, those of a directory, or those of a running service",
		Args:  none,
		Example: `  responder playbook list
  responder playbook list --dir /etc/responder/playbooks -o wide
  responder playbook list --server http://127.0.0.1:8080`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("server") {
				var answer api.PlaybookList
				if err := c.Get(cmd.Context(), client.PlaybooksPath, nil, &answer); err != nil {
					return err
				}
				return out.PrintTable(p.Stdout, answer.Playbooks, loadedTable(answer.Playbooks))
			}
			set, err := app.LoadPlaybooks(dir)
			if err != nil {
				return err
			}
			rows, t := playbookTable(set)
			return out.PrintTable(p.Stdout, rows, t)
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "directory of playbooks (default: the shipped ones)")
	cmd.MarkFlagsMutuallyExclusive("dir", "server")
	out.AddTableFlag(cmd)
	return cmd
}

// loadedTable lists what a service has in force.
func loadedTable(all []api.Playbook) *runview.Table {
	t := &runview.Table{
		Columns: []runview.Column{
			{Head: "NAME"},
			{Head: "AUTONOMY"},
			{Head: "STATES"},
			{Head: "TITLE", Flex: true},
			{Head: "SOURCE", Wide: true},
			{Head: "DIGEST", Wide: true},
			{Head: "CONFIGURED AUTONOMY", Wide: true},
		},
		Empty: "no playbooks",
	}
	for _, pb := range all {
		override := "none"
		if pb.Override != nil {
			override = pb.Override.String()
		}
		t.Add(pb.Playbook, pb.Autonomy, fmt.Sprint(pb.States), pb.Title, pb.Source, pb.Digest, override)
	}
	return t
}

// playbookRow is one line of playbook list.
type playbookRow struct {
	Name     string            `json:"name"`
	Title    string            `json:"title,omitempty"`
	Autonomy playbook.Autonomy `json:"autonomy"`
	States   int               `json:"states"`
	Levers   []string          `json:"levers"`
	Source   string            `json:"source"`
	Digest   string            `json:"digest"`
}

func playbookTable(set *playbook.Set) ([]playbookRow, *runview.Table) {
	rows := []playbookRow{}
	t := &runview.Table{
		Columns: []runview.Column{
			{Head: "NAME"},
			{Head: "AUTONOMY"},
			{Head: "STATES"},
			{Head: "LEVERS", Flex: true},
			{Head: "TITLE", Wide: true},
			{Head: "SOURCE", Wide: true},
			{Head: "DIGEST", Wide: true},
		},
		Empty: "no playbooks",
	}
	for _, pb := range set.All() {
		row := playbookRow{
			Name: pb.Name, Title: pb.Title, Autonomy: pb.Autonomy, States: len(pb.States), Levers: []string{},
			Source: pb.Source, Digest: pb.Digest,
		}
		for _, s := range pb.States {
			if s.Kind == playbook.StateLever && !slices.Contains(row.Levers, s.Step) {
				row.Levers = append(row.Levers, s.Step)
			}
		}
		rows = append(rows, row)
		t.Add(row.Name, row.Autonomy.String(), fmt.Sprint(row.States), strings.Join(row.Levers, ","), row.Title, row.Source, row.Digest)
	}
	return rows, t
}

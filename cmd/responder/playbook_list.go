package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/webhook"
)

func newPlaybookListCommand(p *process) *cobra.Command {
	c := client{process: p}
	var out output
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
				var answer webhook.PlaybookList
				if err := c.get(cmd.Context(), playbooksPath, nil, &answer); err != nil {
					return err
				}
				return out.printTable(p.stdout, answer.Playbooks, loadedTable(answer.Playbooks))
			}
			set, err := loadPlaybooks(dir)
			if err != nil {
				return err
			}
			rows, t := playbookTable(set)
			return out.printTable(p.stdout, rows, t)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "directory of playbooks (default: the shipped ones)")
	cmd.MarkFlagsMutuallyExclusive("dir", "server")
	out.addFlag(cmd)
	return cmd
}

// loadedTable lists what a service has in force.
func loadedTable(all []webhook.PlaybookInfo) *table {
	t := &table{
		columns: []column{
			{head: "NAME"},
			{head: "AUTONOMY"},
			{head: "STATES"},
			{head: "TITLE", flex: true},
			{head: "SOURCE", wide: true},
			{head: "DIGEST", wide: true},
		},
		empty: "no playbooks",
	}
	for _, pb := range all {
		t.add(pb.Name, pb.Autonomy.String(), fmt.Sprint(pb.States), pb.Title, pb.Source, pb.Digest)
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

func playbookTable(set *playbook.Set) ([]playbookRow, *table) {
	rows := []playbookRow{}
	t := &table{
		columns: []column{
			{head: "NAME"},
			{head: "AUTONOMY"},
			{head: "STATES"},
			{head: "LEVERS", flex: true},
			{head: "TITLE", wide: true},
			{head: "SOURCE", wide: true},
			{head: "DIGEST", wide: true},
		},
		empty: "no playbooks",
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
		t.add(row.Name, row.Autonomy.String(), fmt.Sprint(row.States), strings.Join(row.Levers, ","), row.Title, row.Source, row.Digest)
	}
	return rows, t
}

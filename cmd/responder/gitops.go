package main

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/webhook"
)

func newGitopsCommand(p *process) *cobra.Command {
	return group("gitops", "What Git holds of a service, and what was last verified",
		newGitopsLocateCommand(p), newGitopsSetCommand(p), newGitopsLastGoodCommand(p), newGitopsCheckCommand(p))
}

func newGitopsLastGoodCommand(p *process) *cobra.Command {
	c := client{process: p}
	var out output
	var service string
	cmd := &cobra.Command{
		Use:   "last-good",
		Short: "List the values and commits that were last verified",
		Long: `List the value of each variable that a run last proved to be good, and the commit
that has it. What was merely deployed, or undone, is not in it.`,
		Args: none,
		Example: `  responder gitops last-good
  responder gitops last-good --service serving/chat -o yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if service != "" {
				query.Set("service", service)
			}
			var answer webhook.LastGoodList
			if err := c.get(cmd.Context(), lastGoodPath, query, &answer); err != nil {
				return err
			}
			return out.printTable(p.stdout, answer.Good, lastGoodTable(answer.Good))
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&service, "service", "", "only this service")
	out.addFlag(cmd)
	return cmd
}

func lastGoodTable(good []webhook.LastGood) *table {
	t := &table{
		columns: []column{
			{head: "SERVICE", flex: true},
			{head: "VARIABLE"},
			{head: "VALUE", flex: true},
			{head: "COMMIT"},
			{head: "VERIFIED"},
			{head: "RUN", wide: true},
			{head: "LEVER", wide: true},
		},
		empty: "nothing was verified yet: a run keeps what its lever set once the proof has held",
	}
	for _, g := range good {
		value := g.Value
		if value == "" {
			value = "(not set)"
		}
		t.add(g.Service, g.Variable, value, shortCommit(g.Revision), g.At.UTC().Format(time.RFC3339), g.Run, g.Lever)
	}
	return t
}

// shortCommit is a commit as people write it.
func shortCommit(sha string) string {
	if len(sha) > 9 {
		return sha[:9]
	}
	return sha
}

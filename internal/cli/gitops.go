package cli

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newGitopsCommand(p *command.Process) *cobra.Command {
	return group("gitops", "Show what Git holds for a service, and what was last verified",
		newGitopsLocateCommand(p), newGitopsSetCommand(p), newGitopsLastGoodCommand(p))
}

func newGitopsLastGoodCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	var service string
	cmd := &cobra.Command{
		Use:   "last-good",
		Short: "List the values and commits that were last verified",
		Long: `List the value of each variable that a run last verified, with its commit. Values
that were only deployed, or undone, are not listed.`,
		Args: none,
		Example: `  responder gitops last-good
  responder gitops last-good --service serving/chat -o yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if service != "" {
				query.Set("service", service)
			}
			var answer api.LastGoodList
			if err := c.Get(cmd.Context(), client.LastGoodPath, query, &answer); err != nil {
				return err
			}
			return out.PrintTable(p.Stdout, answer.Good, lastGoodTable(answer.Good))
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&service, "service", "", "only this service")
	completeServices(cmd, &c)
	out.AddTableFlag(cmd)
	return cmd
}

func lastGoodTable(good []api.LastGood) *runview.Table {
	t := &runview.Table{
		Columns: []runview.Column{
			{Head: "SERVICE", Flex: true},
			{Head: "VARIABLE"},
			{Head: "VALUE", Flex: true},
			{Head: "COMMIT"},
			{Head: "VERIFIED"},
			{Head: "RUN", Wide: true},
			{Head: "LEVER", Wide: true},
		},
		Empty: "nothing was verified yet: a run keeps what its lever set once the proof has held",
	}
	for _, g := range good {
		value := g.Value
		if value == "" {
			value = "(not set)"
		}
		t.Add(g.Service, g.Variable, value, runview.ShortCommit(g.Commit), g.Verified.UTC().Format(time.RFC3339), g.Run, g.Lever)
	}
	return t
}

package cli

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newRunsListCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	var open, ended bool
	var limit int
	var service, playbook string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Long: `List runs, newest first. The table shows the beginning of each ID, which every
command takes; -o wide and -o name print it whole. AGE is since the run began.

With -o json each run is one line of the table; 'responder runs show RUN -o json'
prints everything about one.`,
		Args: none,
		Example: `  responder runs list
  responder runs list --open --service serving/chat -o wide
  responder runs list --open -o name`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			if open != ended {
				query.Set("open", strconv.FormatBool(open))
			}
			if service != "" {
				query.Set("service", service)
			}
			if playbook != "" {
				query.Set("playbook", playbook)
			}
			var answer api.RunList
			if err := c.Get(cmd.Context(), client.RunsPath, query, &answer); err != nil {
				return err
			}
			return out.PrintTable(p.Stdout, answer.Runs, runTable(answer))
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().BoolVar(&open, "open", false, "only runs that have not ended")
	cmd.Flags().BoolVar(&ended, "ended", false, "only runs that have")
	cmd.Flags().StringVar(&service, "service", "", "only runs on this service")
	cmd.Flags().StringVar(&playbook, "playbook", "", "only runs of this playbook")
	completeServices(cmd, &c)
	cmd.Flags().IntVar(&limit, "limit", 100, "most runs, at most 1000")
	cmd.MarkFlagsMutuallyExclusive("open", "ended")
	out.AddTableFlag(cmd)
	return cmd
}

func runTable(list api.RunList) *runview.Table {
	ids := make([]string, len(list.Runs))
	for i, r := range list.Runs {
		ids[i] = r.Run
	}
	t := &runview.Table{
		Columns: []runview.Column{
			{Head: "RUN", Brief: runview.BriefRuns(ids)},
			{Head: "AGE"},
			{Head: "STATUS"},
			{Head: "SERVICE", Flex: true, Last: true},
			{Head: "PLAYBOOK", Flex: true},
			{Head: "STATE", Flex: true},
			{Head: "BEGAN (UTC)", Wide: true},
			{Head: "TOOK", Wide: true},
			{Head: "ALERT", Wide: true},
			{Head: "WHY", Wide: true},
		},
		Empty: "no runs",
	}
	for _, r := range list.Runs {
		until := r.Updated
		if !r.Ended.IsZero() {
			until = r.Ended
		}
		age := "" // a service of before does not tell its time
		if !list.Now.IsZero() {
			age = runview.Age(list.Now.Sub(r.Began))
		}
		state := r.State
		if state == r.Status {
			state = "" // it would only repeat it
		}
		t.Add(r.Run, age, r.Status, r.Service, r.Playbook, state, runview.Time(r.Began), fmt.Sprint(runview.Round(until.Sub(r.Began))), r.Alert, r.Why)
	}
	return t
}

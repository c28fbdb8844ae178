package cli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/runview"
)

// completeWithin is how long a shell waits for names that somebody is asked for.
const completeWithin = 3 * time.Second

// completeRuns completes the ID of a run: of those that wait for the command, or of all
// where waits is nil.
func completeRuns(cmd *cobra.Command, c *client.Client, waits func(api.RunSummary) bool) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return runsToComplete(cmd.Context(), c, begin, waits), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// runsToComplete returns the runs whose IDs begin so, newest first. Where runs cannot be
// listed there is nothing to complete, and no place to say why.
func runsToComplete(ctx context.Context, c *client.Client, begin string, waits func(api.RunSummary) bool) (out []cobra.Completion) {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	c.Quiet = true
	list := c.RunsNamed
	if waits != nil {
		list = c.OpenRunsNamed
	}
	runs, err := list(ctx, begin)
	if err != nil {
		return nil
	}
	for _, r := range runs {
		if waits == nil || waits(r) {
			out = append(out, cobra.CompletionWithDesc(r.Run, fmt.Sprintf("%s, %s of %s", r.Status, r.Playbook, r.Service)))
		}
	}
	return out
}

// completeAlerts completes the fingerprint of an alert.
func completeAlerts(cmd *cobra.Command, c *client.Client) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		c.Quiet = true
		query := url.Values{"limit": {"200"}}
		if begin != "" {
			query.Set("alert", begin)
		}
		var answer api.AlertList
		if err := c.Get(ctx, client.AlertsPath, query, &answer); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		listed := map[string]bool{}
		for _, a := range answer.Alerts {
			fingerprint := runview.Fingerprint(a)
			if !listed[fingerprint] { // the newest of its episodes comes first
				listed[fingerprint] = true
				out = append(out, cobra.CompletionWithDesc(fingerprint, runview.AlertName(a)+", "+runview.BecameWord(a.Became)))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeServices completes the flag --service with the services of the running service
// that the command asks.
func completeServices(cmd *cobra.Command, c *client.Client) {
	completeServiceFlag(cmd, func(ctx context.Context) []cobra.Completion { return servedServices(ctx, c) })
}

// completeServiceFlag completes the flag --service with what list returns.
func completeServiceFlag(cmd *cobra.Command, list func(context.Context) []cobra.Completion) {
	// The error is of a flag that does not exist; the command has added it.
	_ = cmd.RegisterFlagCompletionFunc("service", func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return list(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	})
}

// servedServices returns the services of a running service; none where they cannot be
// listed.
func servedServices(ctx context.Context, c *client.Client) []cobra.Completion {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	c.Quiet = true
	var answer api.ServiceList
	if err := c.Get(ctx, client.ServicesPath, nil, &answer); err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, s := range answer.Services {
		out = append(out, cobra.CompletionWithDesc(s.Service, s.Workload.Kind+" "+s.Workload.Name))
	}
	return out
}

// configuredServices returns the services of a configuration file; none where it cannot
// be read. Those that are discovered in the cluster are not among them.
func configuredServices(file string) []cobra.Completion {
	c, err := config.Load(file)
	if err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, s := range app.ConfiguredServices(c) {
		out = append(out, cobra.CompletionWithDesc(s.Name, s.Workload.Kind+" "+s.Workload.Name))
	}
	return out
}

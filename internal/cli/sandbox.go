package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
)

func newSandboxCommand(p *command.Process) *cobra.Command {
	return group("sandbox", "Simulate incidents in a running sandbox ('responder serve --sandbox')",
		newSandboxListCommand(p), newSandboxFireCommand(p))
}

func newSandboxListCommand(p *command.Process) *cobra.Command {
	return listing(p, client.SandboxPath, scenarioTable, &cobra.Command{
		Use:   "list",
		Short: "List the scenarios that a running sandbox can simulate, and the present one",
		Example: `  responder sandbox list
  responder sandbox list -o name`,
	})
}

func scenarioTable(s api.Sandbox) (any, *runview.Table) {
	t := &runview.Table{Columns: []runview.Column{{Head: "SCENARIO"}, {Head: "NOW"}, {Head: "TITLE", Flex: true}}}
	for _, x := range s.Scenarios {
		now := ""
		if x.Name == s.Scenario {
			now = "now"
		}
		t.Add(x.Name, now, x.Title)
	}
	return s, t
}

func newSandboxFireCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:   "fire [SCENARIO]",
		Short: "Deliver the alert of a running sandbox, or simulate another incident there",
		Long: `Deliver the alert of a running sandbox as Alertmanager would. An alert that has
started a run already starts no other one.

With SCENARIO the service restarts on a new simulated cluster, a day later by the
sandbox's clock, and the alert of that scenario is delivered. The present scenario can
be named again. Journal, runs and pauses stay. This is refused while a run is open.
'responder sandbox list' lists the scenarios.

It needs the right start. A service on a real cluster refuses both.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "" {
				return errors.New("empty argument SCENARIO: 'responder sandbox list' lists the scenarios; without it the present alert is delivered")
			}
			return atMostOne(cmd, args)
		},
		Example: `  responder sandbox fire
  responder sandbox fire traffic-burst`,
		ValidArgs: sandbox.ScenarioNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if scenario := strings.Join(args, ""); scenario != "" {
				c.Quiet = true // until the clock is that of the new cluster
				if err := nextScenario(cmd.Context(), &c, scenario); err != nil {
					return err
				}
				c.Quiet = false
			}
			var fired api.SandboxFired
			if err := c.Send(cmd.Context(), http.MethodPost, client.FirePath, api.SandboxFire{}, &fired); err != nil {
				return err
			}
			return out.Print(p.Stdout, fired, func(w io.Writer) error { return writeFired(w, fired) })
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	return cmd
}

const (
	// restartDeadline is longer than a service needs to restart on another simulated cluster.
	restartDeadline = time.Minute
	restartPoll     = 100 * time.Millisecond
)

// nextScenario replaces the sandbox's cluster and waits until the service is ready on
// the new one.
func nextScenario(ctx context.Context, c *client.Client, scenario string) error {
	var next api.SandboxFired
	if err := c.Send(ctx, http.MethodPost, client.FirePath, api.SandboxFire{Scenario: scenario}, &next); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restartDeadline)
	defer cancel()
	poll := time.NewTicker(restartPoll)
	defer poll.Stop()
	for {
		var now api.Sandbox
		var ready api.Readiness
		err := errors.Join(c.Get(ctx, client.SandboxPath, nil, &now), c.Get(ctx, "/readyz", nil, &ready))
		if err == nil && now.Opened.Equal(next.Opened) && ready.Ready {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the service was not ready on the cluster of %s within %s; see its log, then run 'responder sandbox fire'", scenario, restartDeadline), err)
		}
	}
}

func writeFired(w io.Writer, fired api.SandboxFired) error {
	firing, runs := false, []string{}
	for _, a := range fired.Alerts {
		state := "resolved"
		if a.Status == "firing" {
			state, firing = "fires since "+runview.Time(a.Starts), true
		}
		if _, err := fmt.Fprintf(w, "delivered %s, which %s\n", a.Name, state); err != nil {
			return err
		}
		runs = append(runs, a.Runs...)
	}
	slices.Sort(runs) // several alerts may have started one
	runs = slices.Compact(runs)
	text := "look at its run with: responder runs list"
	switch {
	case !firing:
		text = "no alert fires any more; simulate it again with: responder sandbox fire " + fired.Scenario
	case len(runs) > 0:
		text = fmt.Sprintf("it was known and started %s; once that has ended, simulate it again with: responder sandbox fire %s", strings.Join(runs, ", "), fired.Scenario)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

package demo

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/spf13/cobra"
)

// NewCommand is the command of the demo.
func NewCommand(p *command.Process) *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch an incident being found, explained, fixed and verified, in a simulated cluster",
		Long: `Run one incident from alert to verified fix on this machine, the default one in
about twenty seconds: no cluster, no accounts. Scenarios in which people wait for a
model or a proof take up to one and a half minutes. The cluster, its engines and its
Prometheus are simulated and run faster than real time. The receiver, the playbooks,
the executor and the journal are the real ones, and the alert arrives over HTTP as
Alertmanager sends it.

You are asked to approve the fix; --yes approves it without asking. Ctrl-C cancels
the run, which first undoes an unproven change.

Scenarios:
` + scenarioHelp() + `
Exit codes:
  0  the run ended resolved, or changed nothing where no change repairs the scenario,
     and its audit log verified
  1  anything else`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return nil
			case len(args) == 1 && sandbox.Known(args[0]) == nil:
				return fmt.Errorf("unexpected argument %q; write '%s --scenario %s'", args[0], cmd.CommandPath(), args[0])
			}
			return fmt.Errorf("unexpected argument %q; write '%s'", args[0], cmd.UseLine())
		},
		Example: `  responder demo
  responder demo --scenario traffic-burst --yes
  responder demo --yes --dir /tmp/demo && responder audit verify /tmp/demo/journal.db`,
		RunE: func(cmd *cobra.Command, _ []string) error { return Run(cmd.Context(), p, o) },
	}
	cmd.Flags().StringVar(&o.Scenario, "scenario", sandbox.Scenarios()[0].Name, "the incident")
	cmd.Flags().BoolVar(&o.Yes, "yes", false, "approve without asking, for scripts")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "keep the journal and its public key here (default: a temporary directory, removed at the end)")
	cmd.Flags().Float64Var(&o.Speed, "speed", DefaultSpeed, "simulated seconds per real second")
	o.Out.AddFlag(cmd)
	// The error is of a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(sandbox.ScenarioNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func scenarioHelp() string {
	var b strings.Builder
	for _, s := range sandbox.Scenarios() {
		fmt.Fprintf(&b, "  %-18s %s\n", s.Name, s.Title)
	}
	return b.String()
}

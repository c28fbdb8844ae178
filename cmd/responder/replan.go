package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/webhook"
)

func newReplanCommand(p *process) *cobra.Command {
	c := client{process: p}
	var d webhook.DecisionRequest
	cmd := &cobra.Command{
		Use:   "replan RUN",
		Short: "Ask for a fresh plan instead of the one a run asks about",
		Long: `Ask for a fresh plan instead of the one a run asks about. The question and all
approvals of it are void; the lever is planned as the world is now, guards and
policy are asked again, and people decide about the new plan. Whoever may decide
may ask for this, a few times for one lever.`,
		Args:    one(whichRun),
		Example: "  responder replan r-01JDXYZ --reason 'the node is back'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.decide(cmd.Context(), args[0], "replan", d); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.stdout, "%s plans afresh; look at what it asks then with: responder runs show %s\n", args[0], args[0])
			return err
		},
	}
	c.addFlags(cmd)
	addDecisionFlags(cmd, &d)
	return cmd
}

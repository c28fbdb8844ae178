package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/yamldoc"
)

func newPolicyLintCommand(p *command.Process) *cobra.Command {
	var out command.Output
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check policies, and report what is wrong, where, and how to fix it",
		Long: `Check policies as the service does when it loads them: unknown fields, types
and names in conditions, times and time zones, quorums that can never be met.
Files that end in _test.yaml are checked as tests of a policy.

Exit codes:
  0  all files are valid
  1  at least one is not`,
		Args: some("FILE..."),
		Example: `  responder policy lint policy.yaml policy_test.yaml
  responder policy lint policy.yaml -o json`,
		RunE: func(_ *cobra.Command, args []string) error { return lintPolicies(p, &out, args) },
	}
	out.AddFlag(cmd)
	return cmd
}

func lintPolicies(p *command.Process, out *command.Output, files []string) error {
	var found yamldoc.Problems
	rules := 0
	for _, file := range files {
		n, err := lintPolicy(file)
		var problems yamldoc.Problems
		switch {
		case errors.As(err, &problems):
			found = append(found, problems...)
		case err != nil:
			return err
		}
		rules += n
	}
	return printLint(p, out, api.PolicyLint{Rules: rules, Problems: faultsOf(found)}, lintResult{problems: found, read: runview.Count(rules, "rule")})
}

// lintPolicy returns the number of rules of a file.
func lintPolicy(file string) (int, error) {
	if strings.HasSuffix(file, "_test.yaml") {
		_, err := app.LoadPolicyTable(file)
		return 0, err
	}
	set, err := app.LoadPolicy(file)
	return len(set.Rules()), err
}

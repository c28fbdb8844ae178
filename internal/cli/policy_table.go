package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/runview"
)

func newPolicyTestCommand(p *command.Process) *cobra.Command {
	var out command.Output
	cmd := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run the tests of a policy",
		Long: `Run the tests of policies. A test file names its policy, and lists levers with the
answer that the policy has to give. Rules that made no difference in any case are
listed.

Exit codes:
  0  every case passed
  1  at least one failed`,
		Args: some("FILE..., such as policy_test.yaml"),
		Example: `  responder policy test policy_test.yaml
  responder policy test policy_test.yaml -o json`,
		RunE: func(_ *cobra.Command, args []string) error { return testPolicies(p, &out, args) },
	}
	out.AddFlag(cmd)
	return cmd
}

func testPolicies(p *command.Process, out *command.Output, files []string) error {
	report, err := runPolicyTests(files)
	if err != nil {
		return err
	}
	err = out.Print(p.Stdout, report, func(w io.Writer) error { return writePolicyTests(w, report, out.Wide()) })
	if err == nil && report.Failed > 0 {
		return command.ExitCode(command.ExitError)
	}
	return err
}

func runPolicyTests(files []string) (api.PolicyTest, error) {
	report := api.PolicyTest{Cases: []api.PolicyCase{}, Unhit: []api.PolicyRule{}}
	sets := map[string]*policy.Set{}
	hit := map[string]bool{} // by policy file and rule
	var order []string
	for _, file := range files {
		table, err := app.LoadPolicyTable(file)
		if err != nil {
			return report, err
		}
		of := filepath.Join(filepath.Dir(file), table.Policy)
		if sets[of] == nil {
			if sets[of], err = app.LoadPolicy(of); err != nil {
				return report, err
			}
			order = append(order, of)
		}
		result := table.Run(sets[of])
		report.Failed += result.Failed()
		for _, c := range result.Cases {
			one := api.PolicyCase{Result: "ok", Case: c.Name, File: file, Line: c.Line, Got: c.Got, Want: c.Want}
			if !c.OK {
				one.Result = "failed"
			}
			report.Cases = append(report.Cases, one)
		}
		for _, r := range sets[of].Rules() {
			if !slices.ContainsFunc(result.Unhit, func(o policy.Rule) bool { return o.Name == r.Name }) {
				hit[of+"\x00"+r.Name] = true
			}
		}
	}
	for _, of := range order {
		for _, r := range sets[of].Rules() {
			if !hit[of+"\x00"+r.Name] {
				report.Unhit = append(report.Unhit, app.PolicyRuleOf(r))
			}
		}
	}
	return report, nil
}

func writePolicyTests(w io.Writer, r api.PolicyTest, wide bool) error {
	t := &runview.Table{Columns: []runview.Column{{Head: "RESULT"}, {Head: "CASE", Flex: true}, {Head: "THE POLICY SAYS", Flex: true}}}
	for _, c := range r.Cases {
		word := c.Result
		if word != "ok" {
			word = "FAILED"
		}
		t.Add(word, c.Case, c.Got)
	}
	if err := t.Write(w, wide); err != nil {
		return err
	}
	for _, c := range r.Cases {
		if c.Result != "ok" {
			fmt.Fprintf(w, "\n%s:%d: %s\n  got   %s\n  want  %s\n", c.File, c.Line, runview.Printable(c.Case), runview.Printable(c.Got), runview.Printable(c.Want))
		}
	}
	if len(r.Unhit) > 0 {
		fmt.Fprintf(w, "\nno case touches\n")
		for _, rule := range r.Unhit {
			fmt.Fprintf(w, "  %s\n", rule.Place)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s, %d failed\n", runview.Count(len(r.Cases), "case"), r.Failed)
	return err
}

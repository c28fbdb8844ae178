package cli

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/cli/dryrun"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/spf13/cobra"
)

func newDryRunCommand(p *command.Process) *cobra.Command {
	var f dryrun.Options
	var out command.Output
	cmd := &cobra.Command{
		Use:   "dry-run -f FILE | --alert LABEL=VALUE... | --from-alertmanager URL",
		Short: "Show what the service would do about an alert, and change nothing",
		Long:  dryRunLong,
		Args:  none,
		Example: `  responder dry-run -f notification.json --config responder.yaml
  responder dry-run --alert alertname=InferenceTTFTFastBurn --alert namespace=serving --alert service=chat --config responder.yaml
  responder dry-run --from-alertmanager http://alertmanager:9093 --config responder.yaml -o json
  responder dry-run --sandbox bad-rollout`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Config == "" && f.Sandbox == "" {
				return errors.New("missing --config or --sandbox: the configuration of a cluster, or a scenario to simulate")
			}
			var err error
			if f.Source.Labels, err = dryrun.ParseAlert(f.Alert); err != nil {
				return err
			}
			if err := f.Source.Check(f.Sandbox != ""); err != nil {
				return err
			}
			report, err := dryrun.Run(cmd.Context(), p, f)
			if err != nil {
				return err
			}
			if err := out.Print(p.Stdout, report.DryRun, func(w io.Writer) error { return dryrun.Write(w, report, out.Wide()) }); err != nil {
				return err
			}
			return command.ExitCode(report.ExitCode)
		},
	}
	cmd.Flags().StringVarP(&f.Source.File, "file", "f", "", "webhook body of Alertmanager; - reads standard input")
	cmd.Flags().StringArrayVar(&f.Alert, "alert", nil, "a label of one alert that fires now, label=value; repeat it for each label")
	cmd.Flags().StringVar(&f.Source.FromAlertmanager, "from-alertmanager", "", "URL of an Alertmanager, to use its firing alerts")
	cmd.Flags().StringVar(&f.Config, "config", "", "configuration of the service")
	cmd.Flags().StringVar(&f.Sandbox, "sandbox", "", "use a simulated cluster instead, without network: "+strings.Join(sandbox.ScenarioNames(), ", ")+"; the default alert is its own")
	cmd.Flags().StringVar(&f.Playbook, "playbooks", "", "playbook file or directory (default: the configuration's, else the shipped ones)")
	cmd.Flags().StringVar(&f.Policy, "policy", "", "file of rules over all playbooks (default: the configuration's)")
	cmd.Flags().DurationVar(&f.Timeout, "timeout", 2*time.Minute, "time limit")
	cmd.Flags().BoolVarP(&f.Verbose, "verbose", "v", false, "show the program's own log")
	cmd.MarkFlagsMutuallyExclusive("config", "sandbox")
	completeScenarios(cmd, "sandbox")
	out.AddFlag(cmd)
	return cmd
}

const dryRunLong = `Pass alerts through the same receiver, playbooks, guards and levers as the
service, with the configured cluster and Prometheus, and change nothing. The output
shows which playbook matched and why others did not, the evidence of every check,
the path taken, the verdicts of the guards, what would change, who would be asked,
and what would follow if the change did not help.

Exit codes:
  0  nothing to do
  1  an error
  2  would act, or ask to
  3  refused by a guard or by the lever itself
  4  no playbook matched, or no service was found`

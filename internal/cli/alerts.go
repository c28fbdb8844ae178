package cli

import (
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

const alertsLong = `List the alerts that were received, the most recently mentioned ones first, and what
became of each:

  run          it started a run
  joined       it was added to a run that it did not start
  no playbook  no playbook matches its labels
  no service   its labels name no service of the catalog, or several
  paused       a pause kept it from starting a run
  suppressed   something else was in the way, such as a run in quarantine
  quarantined  its notification could not be processed
  resolved     it resolved before it could start a run

REPEATED is how often Alertmanager sent it again since then and nothing new came of it.
RUN is the beginning of the ID of its newest run; -o wide prints the ID whole. AGE is
the time since Alertmanager last mentioned the alert, by the service's clock. Alerts of
the last 14 days that had a run are known, and the most recent ones of those that had
none.

With --why each alert is explained: its labels, when it started, was last mentioned and
last repeated, and its run. For one without a run: the nearest playbook and the matchers
of it that fail, what was looked for in the catalog, or what was in the way and who set
it; and what to do about it. Times are in the zone of this machine.

FINGERPRINT, or any beginning of it, selects one alert; Alertmanager shows it in its
API and in the payload of a webhook.`

func newAlertsCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	var firing, noRun, why bool
	var limit int
	cmd := &cobra.Command{
		Use:   "alerts [FINGERPRINT]",
		Short: "List alerts that were received, and why one started no run",
		Long:  alertsLong,
		Args:  atMostOne,
		Example: `  responder alerts
  responder alerts --no-run --why
  responder alerts 8c1f03d2 --why`,
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			if firing {
				query.Set("firing", "true")
			}
			if noRun {
				query.Set("no_run", "true")
			}
			if len(args) > 0 {
				query.Set("alert", args[0])
			}
			var answer api.AlertList
			if err := c.Get(cmd.Context(), client.AlertsPath, query, &answer); err != nil {
				return err
			}
			return out.Print(p.Stdout, answer.Alerts, func(w io.Writer) error {
				table := runview.AlertTable(answer)
				if len(args) > 0 || firing || noRun {
					table.Empty = "no alert that is known fits"
				}
				return writeAlerts(w, answer, table, out.Wide(), why, runview.Clock{Zone: p.Zone, Now: answer.Now})
			})
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().BoolVar(&firing, "firing", false, "only alerts that fire")
	cmd.Flags().BoolVar(&noRun, "no-run", false, "only alerts that have no run")
	cmd.Flags().BoolVar(&why, "why", false, "explain what became of each alert")
	cmd.Flags().IntVar(&limit, "limit", 50, "most alerts, at most 1000")
	out.AddFlag(cmd)
	completeAlerts(cmd, &c)
	return cmd
}

func writeAlerts(w io.Writer, list api.AlertList, table *runview.Table, wide, why bool, clock runview.Clock) error {
	if err := table.Write(w, wide); err != nil {
		return err
	}
	unexplained := 0
	for _, a := range list.Alerts {
		if len(a.Runs) == 0 && a.Reason != "" {
			unexplained++
		}
	}
	if unexplained > 0 && !why {
		if _, err := fmt.Fprintf(w, "%d without a run: --why explains each.\n", unexplained); err != nil {
			return err
		}
	}
	if why {
		for _, a := range list.Alerts {
			if _, err := io.WriteString(w, runview.AlertWhy(a, clock)); err != nil {
				return err
			}
		}
	}
	if list.More {
		_, err := fmt.Fprintln(w, "There are more: see --limit.")
		return err
	}
	return nil
}

package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

// startRequest is a request for a run with its key.
type startRequest struct {
	api.StartRequest
	key string
}

// IdempotencyKey names the request for the server.
func (r startRequest) IdempotencyKey() string { return r.key }

func newRunsStartCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var r startRequest
	var out command.Output
	cmd := &cobra.Command{
		Use:   "start PLAYBOOK --service NAME",
		Short: "Start a run by hand, without an alert",
		Long: `Start a run of a playbook on a service, without an alert. The playbook's match is
not evaluated. Everything else is as for a run that an alert started: one open run
of a playbook on a service, pauses, autonomy, guards and policy.

A playbook that reads labels of the alert reads those given with --label; the name
of the alert is the label alertname. A state that reads a label which is not given
fails, and the run records that. The guard "alert still firing" passes until an
alert joins the run; from then on the alerts decide.

You cannot approve the questions of this run: another person who may decide has to.
You may break the glass only if the policy sets break_glass_own. If the service
does not authenticate anybody, everybody is user:anonymous, and the questions of
such a run are never approved.`,
		Args: one("PLAYBOOK; 'responder playbook list' lists them"),
		Example: `  responder runs start inference-slo-breach --service serving/chat --reason 'slow answers' \
    --label alertname=InferenceTTFTFastBurn --label sli=ttft
  responder runs start my-playbook --service serving/chat --key change-4711 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Service == "" {
				return errors.New("missing --service; 'responder services' lists the names")
			}
			if r.Playbook = args[0]; r.key == "" {
				r.key = rand.Text()
			}
			var answer api.RunDetail
			status, err := c.SendFor(cmd.Context(), http.MethodPost, client.RunsPath, r, &answer)
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, answer.Run, func(w io.Writer) error {
				id := answer.Run.Run
				said := "started " + id
				if status == http.StatusOK { // 201 is a new one
					said = "already started as " + id
				}
				_, err := fmt.Fprintf(w, "%s; follow it with: %s\n", said, runview.WatchCommand(id))
				return err
			})
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	cmd.Flags().StringVar(&r.Service, "service", "", "service, as the catalog names it")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why; it is recorded")
	cmd.Flags().StringToStringVar(&r.Labels, "label", nil, "NAME=VALUE in place of an alert's label; may be given several times")
	cmd.Flags().StringVar(&r.key, "key", "", "name of the request; resending it with the same key starts only one run (default: a random one)")
	completeServices(cmd, &c)
	return cmd
}

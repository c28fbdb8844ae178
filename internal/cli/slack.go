package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/notify/slack"
)

func newSlackCommand(p *command.Process) *cobra.Command {
	return group("slack", "Set up Slack and check that it works", newSlackManifestCommand(p), newSlackCheckCommand(p))
}

func newSlackManifestCommand(p *command.Process) *cobra.Command {
	var o slack.ManifestOptions
	var out command.Output
	var transport string
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Print the manifest of the Slack app, with the least rights it needs",
		Long: `Print the manifest of the Slack app, with the least rights it needs. Paste it at
https://api.slack.com/apps, "Create New App", "From a manifest".

With Socket Mode the service opens the connection and needs no address that
Slack can reach. With HTTP Slack posts clicks to the service's
/api/v1/slack/interactivity, and --url is that address from outside.`,
		Args: none,
		Example: `  responder slack manifest
  responder slack manifest --transport http --url https://responder.example/api/v1/slack/interactivity -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch o.Transport = slack.Transport(transport); {
			case o.Transport != slack.SocketMode && o.Transport != slack.HTTP:
				return fmt.Errorf("--transport %q: there is socket and http", transport)
			case o.Transport == slack.SocketMode && o.URL != "":
				return errors.New("--url goes with --transport http: Socket Mode has no address")
			}
			if o.Transport == slack.HTTP && o.URL == "" {
				return errors.New("--transport http needs --url, the https address of /api/v1/slack/interactivity from outside")
			}
			manifest, err := slack.Manifest(o, out.Format == command.FormatJSON)
			if err != nil {
				return err
			}
			_, err = p.Stdout.Write(manifest)
			return err
		},
	}
	cmd.Flags().StringVar(&transport, "transport", string(slack.SocketMode), "how clicks come: socket or http")
	cmd.Flags().StringVar(&o.URL, "url", "", "with http: where Slack posts clicks, https")
	cmd.Flags().StringVar(&o.Name, "name", "", "name of the bot (default: responder)")
	addSlackRightsFlags(cmd, &o.NoEmail, &o.NoGroups)
	cmd.Flags().BoolVar(&o.NoPrivate, "no-private", false, "for public channels only")
	out.AddFlag(cmd)
	return cmd
}

// addSlackRightsFlags adds what an app may do without.
func addSlackRightsFlags(cmd *cobra.Command, noEmail, noGroups *bool) {
	cmd.Flags().BoolVar(noEmail, "no-email", false, "without e-mail addresses: everybody who decides is in auth.people with a Slack user ID")
	cmd.Flags().BoolVar(noGroups, "no-groups", false, "without Slack's user groups")
}

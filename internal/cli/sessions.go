package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newSessionsCommand(p *command.Process) *cobra.Command {
	return group("sessions", "List and end the sessions of people who are signed in on the page",
		newSessionsListCommand(p), newSessionsEndCommand(p))
}

func newSessionsListCommand(p *command.Process) *cobra.Command {
	table := func(l api.SessionList) (any, *runview.Table) { return l.Sessions, sessionTable(l.Sessions) }
	return listing(p, client.SessionsPath, table, &cobra.Command{
		Use:     "list",
		Short:   "List who is signed in on the page",
		Long:    "List who is signed in on the page, the most recently used session first. The\ncredential needs the scope sessions.",
		Example: "  responder sessions list\n  responder sessions list -o json",
	})
}

func sessionTable(all []api.Session) *runview.Table {
	t := &runview.Table{
		Columns: []runview.Column{{Head: "PERSON", Flex: true}, {Head: "METHOD"}, {Head: "BEGAN (UTC)"}, {Head: "USED (UTC)"}, {Head: "GROUPS", Flex: true}},
		Empty:   "nobody is signed in",
	}
	for _, s := range all {
		t.Add(s.Person, s.Method, runview.Time(s.Began), runview.Time(s.Used), strings.Join(s.Groups, ", "))
	}
	return t
}

const sessionsEndLong = `End the sessions of one person, in all browsers, or those of everybody. Who uses
such a browser is asked to sign in again. That keeps nobody out who can still sign in:
first remove the person at the issuer, or replace their password.

The credential needs the scope sessions. The service's log records who ended what; the
journal does not, because no run depends on it.`

func newSessionsEndCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var r api.SessionEnd
	var out command.Output
	cmd := &cobra.Command{
		Use:   "end {--person NAME | --all}",
		Short: "End the sessions of a person, or of everybody",
		Long:  sessionsEndLong,
		Args:  none,
		Example: `  responder sessions end --person ada --reason 'left the team'
  responder sessions end --all`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (r.Person != "") == r.All {
				return errors.New("name whose sessions end: --person NAME, or --all")
			}
			var answer api.SessionList
			if err := c.Send(cmd.Context(), http.MethodDelete, client.SessionsPath, r, &answer); err != nil {
				return err
			}
			return out.Print(p.Stdout, answer, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "sessions ended: %d; still signed in: %d\n", answer.Ended, len(answer.Sessions))
				return err
			})
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	cmd.Flags().StringVar(&r.Person, "person", "", "only this person's, as 'responder sessions list' shows it")
	cmd.Flags().BoolVar(&r.All, "all", false, "everybody's")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why; it is logged")
	cmd.MarkFlagsMutuallyExclusive("person", "all")
	return cmd
}

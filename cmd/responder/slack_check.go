package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/slack"
)

// slackCheckWithin bounds the whole check.
const slackCheckWithin = 2 * time.Minute

func newSlackCheckCommand(p *process) *cobra.Command {
	var out output
	var file string
	var noEmail bool
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Prove that Slack is set up as the configuration needs it, and say what to fix",
		Long: `Prove that Slack is set up as the configuration needs it: the tokens and their
scopes, the transport, each channel by a message that is posted, edited, found
and deleted, the people of auth.people and the user groups.

Exit codes:
  0  everything works
  1  something does not; the table says what to do`,
		Args: none,
		Example: `  responder slack check --config responder.yaml
  responder slack check --config responder.yaml -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), slackCheckWithin)
			defer cancel()
			findings, err := checkSlackSetup(ctx, file, noEmail)
			if err != nil {
				return err
			}
			if err := out.print(p.stdout, findings, func(w io.Writer) error { return writeSlackFindings(w, findings, out.wide()) }); err != nil {
				return err
			}
			for _, f := range findings {
				if !f.OK {
					return exitCode(exitError)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "responder.yaml", "configuration file")
	cmd.Flags().BoolVar(&noEmail, "no-email", false, "the app was made with --no-email")
	out.addFlag(cmd)
	return cmd
}

// slackFinding is one line of slack check.
type slackFinding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

func checkSlackSetup(ctx context.Context, file string, noEmail bool) ([]slackFinding, error) {
	c, err := loadConfig(file)
	if err != nil {
		return nil, err
	}
	w, err := openSlack(c, slog.New(slog.DiscardHandler))
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return nil, fmt.Errorf("%s describes no Slack workspace; slack.token_file begins it, and docs/reference/config.md has the rest", file)
	}
	var out []slackFinding
	for _, f := range w.client.Check(ctx, slack.CheckOptions{
		Transport: w.transport(), Channels: c.allSlackChannels(), NoEmail: noEmail, NoGroups: len(c.Slack.Groups) == 0,
	}) {
		out = append(out, slackFinding(f))
	}
	if len(out) > 0 && !out[0].OK {
		return out, nil // with a token that does not work nothing else can be asked
	}
	return append(out, checkSlackPeople(ctx, c, w.names)...), nil
}

// checkSlackPeople looks up everybody and every group that the configuration
// names.
func checkSlackPeople(ctx context.Context, c config, names *slackNames) []slackFinding {
	var out []slackFinding
	for _, p := range c.Auth.People {
		if p.Slack == "" {
			continue
		}
		f := slackFinding{Name: "person " + p.Name, OK: true, Detail: p.Slack + " may decide"}
		known, err := names.people.Person(ctx, p.Slack)
		if err == nil {
			_, err = names.name(p.Slack, known.Email)
		}
		var unfit *slack.UnfitError
		switch {
		case errors.As(err, &unfit):
			f.OK, f.Detail, f.Fix = false, p.Slack+": "+string(unfit.Why), "correct auth.people: the ID is in the person's profile, Copy member ID"
		case err != nil:
			f.OK, f.Detail, f.Fix = false, err.Error(), "correct auth.people, or see the findings above"
		}
		out = append(out, f)
	}
	for _, handle := range names.handles {
		f := slackFinding{Name: "group @" + handle, OK: true}
		members, err := names.people.Members(ctx, handle)
		switch {
		case err != nil:
			f.OK, f.Detail, f.Fix = false, err.Error(), "see the findings above"
		case len(members) == 0:
			f.OK, f.Detail, f.Fix = false, "Slack has no such user group, or nobody is in it", "correct slack.groups: the handle is the one people write after @"
		default:
			f.Detail = count(len(members), "member") + ", in group:" + names.groups[handle] + " here"
		}
		out = append(out, f)
	}
	return out
}

func writeSlackFindings(w io.Writer, findings []slackFinding, wide bool) error {
	t := table{columns: []column{{head: "CHECK"}, {head: "RESULT"}, {head: "DETAIL", flex: true}}}
	var fixes []string
	for _, f := range findings {
		result := "ok"
		if !f.OK {
			result = "FAILED"
			fixes = append(fixes, f.Name+": "+f.Detail+"\n  "+f.Fix)
		}
		t.add(f.Name, result, printable(f.Detail))
	}
	if err := t.write(w, wide); err != nil {
		return err
	}
	for _, fix := range fixes {
		if _, err := fmt.Fprintf(w, "\n%s\n", fix); err != nil {
			return err
		}
	}
	return nil
}

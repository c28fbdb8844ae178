package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/runview"
)

// Finding is one line of slack check.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// CheckSlack asks Slack whether the configured workspace, its channels, people
// and groups can be used.
func CheckSlack(ctx context.Context, file string, noEmail bool) ([]Finding, error) {
	c, err := config.Load(file)
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
	var out []Finding
	for _, f := range w.client.Check(ctx, slack.CheckOptions{
		Transport: w.Transport(), Channels: c.AllSlackChannels(), NoEmail: noEmail, NoGroups: len(c.Slack.Groups) == 0,
	}) {
		out = append(out, Finding(f))
	}
	if len(out) > 0 && !out[0].OK {
		return out, nil // with a token that does not work nothing else can be asked
	}
	return append(out, checkSlackPeople(ctx, c, w.names)...), nil
}

// checkSlackPeople looks up everybody and every group that the configuration
// names.
func checkSlackPeople(ctx context.Context, c config.Config, names *slackNames) []Finding {
	var out []Finding
	for _, p := range c.Auth.People {
		if p.Slack == "" {
			continue
		}
		f := Finding{Name: "person " + p.Name, OK: true, Detail: p.Slack + " may decide"}
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
		f := Finding{Name: "group @" + handle, OK: true}
		members, err := names.people.Members(ctx, handle)
		switch {
		case err != nil:
			f.OK, f.Detail, f.Fix = false, err.Error(), "see the findings above"
		case len(members) == 0:
			f.OK, f.Detail, f.Fix = false, "Slack has no such user group, or nobody is in it", "correct slack.groups: the handle is the one people write after @"
		default:
			f.Detail = runview.Count(len(members), "member") + ", in group:" + names.groups[handle] + " here"
		}
		out = append(out, f)
	}
	return out
}

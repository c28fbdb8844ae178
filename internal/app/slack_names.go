package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/approvals"
)

// slackNames reports who a Slack user is to the rules: the person of auth.people
// with that user ID or that e-mail address, or else the address itself, as it
// is for tokens of an issuer. Nothing is guessed: who cannot be told apart for
// certain decides through another door.
type slackNames struct {
	people  *slack.People
	byID    map[string]config.Person
	byEmail map[string]config.Person // addresses in lower case
	taken   map[string]bool          // names and handles of the configuration, in lower case
	foreign bool                     // the issuer names people by something else than their address
	handles []string                 // user groups of Slack that stand for groups of ours
	groups  map[string]string        // those by handle
}

// newSlackNames takes the people and credentials of a checked configuration.
func newSlackNames(c config.Config, people *slack.People) *slackNames {
	n := &slackNames{
		people: people, byID: map[string]config.Person{}, byEmail: map[string]config.Person{},
		taken: map[string]bool{"anonymous": true}, groups: map[string]string{},
	}
	byClaim := false // a claim that is an address stands for whoever has it
	if o := c.Auth.OIDC; o != nil {
		byClaim = o.UsernameClaim == "" || o.UsernameClaim == "email"
		n.foreign = !byClaim
	}
	for _, p := range c.Auth.People {
		for _, h := range p.Handles() {
			n.taken[strings.ToLower(h[1])] = true
		}
		if p.Slack != "" {
			n.byID[p.Slack] = p
		}
		if p.Email != "" {
			n.byEmail[strings.ToLower(p.Email)] = p
		}
		if byClaim && p.OIDC != "" {
			n.byEmail[strings.ToLower(p.OIDC)] = p
		}
	}
	for _, name := range credentialNames(c.Auth) {
		n.taken[strings.ToLower(strings.TrimPrefix(name, "user:"))] = true
	}
	if c.Slack != nil {
		for _, g := range c.Slack.Groups {
			handle := strings.TrimPrefix(g.Handle, "@")
			n.handles = append(n.handles, handle)
			n.groups[handle] = strings.TrimPrefix(g.Name, "group:")
		}
	}
	return n
}

// credentialNames returns the names of the credentials.
func credentialNames(a config.Auth) []string {
	var all []string
	for _, t := range a.Tokens {
		all = append(all, t.Name)
	}
	for _, b := range a.Basic {
		all = append(all, b.Name)
	}
	if a.MTLS != nil {
		for _, m := range a.MTLS.Clients {
			all = append(all, m.Name)
		}
	}
	return all
}

// Person implements [approvals.Names].
func (n *slackNames) Person(ctx context.Context, userID string) (approvals.Person, error) {
	// Also who is listed is asked about: they may have left since.
	known, err := n.people.Person(ctx, userID)
	if err != nil {
		return approvals.Person{}, unnamed(err)
	}
	p, err := n.name(userID, known.Email)
	if err != nil {
		return approvals.Person{}, err
	}
	in, err := n.people.In(ctx, userID, n.handles...)
	if err != nil {
		return approvals.Person{}, fmt.Errorf("your user groups could not be looked up: %w", err)
	}
	for _, handle := range in {
		if g := n.groups[handle]; !slices.Contains(p.Groups, g) {
			p.Groups = append(p.Groups, g)
		}
	}
	return p, nil
}

// name finds the identity of a Slack user with that address, which is in lower
// case and may be empty.
func (n *slackNames) name(userID, email string) (approvals.Person, error) {
	const hint = "; the operator maps people under auth.people"
	p, listed := n.byID[userID]
	other, has := n.byEmail[email]
	switch {
	case listed && has && other.Name != p.Name:
		return approvals.Person{}, errors.New("your Slack user is listed as " + p.Name + ", and your e-mail address is " + other.Name + "'s" + hint)
	case listed:
	case has && other.Slack != "" && other.Slack != userID:
		return approvals.Person{}, errors.New("your e-mail address is " + other.Name + "'s, who has another Slack user" + hint)
	case has:
		p = other
	case email == "":
		return approvals.Person{}, errors.New("slack shows no e-mail address of you, and your Slack user is not listed" + hint)
	case n.foreign:
		return approvals.Person{}, errors.New("your Slack user is not listed, and elsewhere people are not named by their e-mail address" + hint)
	case n.taken[email] || !plainAddress(email):
		return approvals.Person{}, errors.New("your e-mail address cannot be your name here" + hint)
	default:
		return approvals.Person{Name: email}, nil
	}
	g := config.GrantOf(p.Name, nil, p.Groups)
	return approvals.Person{Name: g.Name, Groups: slices.Clone(g.Groups)}, nil
}

func plainAddress(s string) bool {
	name, host, ok := strings.Cut(s, "@")
	return ok && name != "" && host != "" && !strings.ContainsFunc(s, config.IsSpace) && !strings.Contains(s, ":")
}

// unnamed says to the person why nobody knows who they are.
func unnamed(err error) error {
	var no *slack.UnfitError
	if !errors.As(err, &no) {
		return fmt.Errorf("who you are could not be looked up: %w", err)
	}
	switch no.Why {
	case slack.UnfitGuest:
		return errors.New("guests of the workspace may not decide")
	case slack.UnfitExternal:
		return errors.New("people of other workspaces may not decide")
	case slack.UnfitBot:
		return errors.New("programs may not decide")
	default:
		return errors.New("slack does not know you as a member (" + string(no.Why) + ")")
	}
}

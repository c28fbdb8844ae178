package approvals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/runview"
)

// Member is a person of the configuration, with what identifies them.
type Member struct {
	Person
	Slack  string   // Slack user ID; may be empty
	Emails []string // addresses that identify the person, in any case
}

// DirectoryOptions configure a [Directory].
type DirectoryOptions struct {
	People  *slack.People
	Members []Member
	// Taken are names and handles of the configuration. An e-mail address among
	// them names nobody by itself.
	Taken []string
	// ListedOnly refuses people who are not members: elsewhere people are not
	// named by their e-mail address.
	ListedOnly bool
	Groups     []slack.Group // user groups that stand for groups of approval rules
}

// Directory looks up the identities of Slack users: the member with that user
// ID or e-mail address, or else the address itself. It guesses nothing: a
// person whom it cannot identify has to decide elsewhere.
type Directory struct {
	people     *slack.People
	byID       map[string]Member
	byEmail    map[string]Member // addresses in lower case
	taken      map[string]bool   // in lower case
	listedOnly bool
	handles    []string          // of user groups
	groups     map[string]string // of approval rules, by handle
}

// NewDirectory returns a directory. Nothing is looked up yet.
func NewDirectory(o DirectoryOptions) *Directory {
	d := &Directory{
		people: o.People, listedOnly: o.ListedOnly, byID: map[string]Member{}, byEmail: map[string]Member{},
		taken: map[string]bool{"anonymous": true}, groups: map[string]string{},
	}
	for _, m := range o.Members {
		if m.Slack != "" {
			d.byID[m.Slack] = m
		}
		for _, email := range m.Emails {
			d.byEmail[strings.ToLower(email)] = m
		}
	}
	for _, name := range o.Taken {
		d.taken[strings.ToLower(name)] = true
	}
	for _, g := range o.Groups {
		handle := strings.TrimPrefix(g.Handle, "@")
		d.handles = append(d.handles, handle)
		d.groups[handle] = strings.TrimPrefix(g.Name, "group:")
	}
	return d
}

// Person implements [Names].
func (d *Directory) Person(ctx context.Context, userID string) (Person, error) {
	known, err := d.people.Person(ctx, userID) // also for members, who may have left Slack since
	if err != nil {
		return Person{}, unidentified(err)
	}
	p, err := d.identity(userID, known.Email)
	if err != nil {
		return Person{}, err
	}
	in, err := d.people.In(ctx, userID, d.handles...)
	if err != nil {
		return Person{}, fmt.Errorf("your user groups could not be looked up: %w", err)
	}
	for _, handle := range in {
		if g := d.groups[handle]; !slices.Contains(p.Groups, g) {
			p.Groups = append(p.Groups, g)
		}
	}
	return p, nil
}

// identity returns the identity of a Slack user with that address, which is in
// lower case and may be empty.
func (d *Directory) identity(userID, email string) (Person, error) {
	const hint = "; the operator maps people under auth.people"
	m, listed := d.byID[userID]
	other, has := d.byEmail[email]
	switch {
	case listed && has && other.Name != m.Name:
		return Person{}, errors.New("your Slack user is listed as " + m.Name + ", and your e-mail address is " + other.Name + "'s" + hint)
	case listed:
	case has && other.Slack != "" && other.Slack != userID:
		return Person{}, errors.New("your e-mail address is " + other.Name + "'s, who has another Slack user" + hint)
	case has:
		m = other
	case email == "":
		return Person{}, errors.New("slack shows no e-mail address of you, and your Slack user is not listed" + hint)
	case d.listedOnly:
		return Person{}, errors.New("your Slack user is not listed, and elsewhere people are not named by their e-mail address" + hint)
	case d.taken[email] || !plainAddress(email):
		return Person{}, errors.New("your e-mail address cannot be your name here" + hint)
	default:
		return Person{Name: email}, nil
	}
	return Person{Name: m.Name, Groups: slices.Clone(m.Groups), Declared: true}, nil
}

func plainAddress(s string) bool {
	name, host, ok := strings.Cut(s, "@")
	return ok && name != "" && host != "" && !strings.ContainsAny(s, " \t\r\n:")
}

// unidentified tells the person why they could not be identified.
func unidentified(err error) error {
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

// Check looks up every member with a Slack user ID and every user group.
func (d *Directory) Check(ctx context.Context, members []Member) []slack.Finding {
	var out []slack.Finding
	for _, m := range members {
		if m.Slack == "" {
			continue
		}
		f := slack.Finding{Name: "person " + m.Name, OK: true, Detail: m.Slack + " may decide"}
		known, err := d.people.Person(ctx, m.Slack)
		if err == nil {
			_, err = d.identity(m.Slack, known.Email)
		}
		var unfit *slack.UnfitError
		switch {
		case errors.As(err, &unfit):
			f.OK, f.Detail, f.Fix = false, m.Slack+": "+string(unfit.Why), "correct auth.people: the ID is in the person's profile, Copy member ID"
		case err != nil:
			f.OK, f.Detail, f.Fix = false, err.Error(), "correct auth.people, or see the findings above"
		}
		out = append(out, f)
	}
	for _, handle := range d.handles {
		f := slack.Finding{Name: "group @" + handle, OK: true}
		members, err := d.people.Members(ctx, handle)
		switch {
		case err != nil:
			f.OK, f.Detail, f.Fix = false, err.Error(), "see the findings above"
		case len(members) == 0:
			f.OK, f.Detail, f.Fix = false, "Slack has no such user group, or nobody is in it", "correct slack.groups: the handle is the one people write after @"
		default:
			f.Detail = runview.Count(len(members), "member") + ", in group:" + d.groups[handle] + " here"
		}
		out = append(out, f)
	}
	return out
}

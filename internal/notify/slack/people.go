package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/inference-responder/responder/internal/fault"
)

// Person is a Slack user, described by facts that the user cannot choose.
type Person struct {
	ID    string
	Email string // in lower case; empty: Slack does not show it
}

// Unfit is why a Slack user may not decide.
type Unfit string

// The kinds of users who may not decide.
const (
	UnfitBot      Unfit = "bot"      // a bot
	UnfitDeleted  Unfit = "deleted"  // deactivated
	UnfitGuest    Unfit = "guest"    // a guest of some channels
	UnfitExternal Unfit = "external" // of another workspace, in a shared channel
	UnfitPending  Unfit = "pending"  // invited but never joined
	UnfitUnknown  Unfit = "unknown"  // Slack knows no such user
)

// UnfitError reports a Slack user who may not decide, whatever the policy
// permits.
type UnfitError struct {
	UserID string
	Why    Unfit
}

// Error names the user and the reason.
func (e *UnfitError) Error() string {
	return fmt.Sprintf("slack user %s may not decide: %s", cut(visible(e.UserID), 40), e.Why)
}

// People looks up users and user groups and caches the answers for a limited
// time. A failed look-up is an error, and an expired answer is not used. People
// is safe for concurrent use.
type People struct {
	client *Client
	ttl    time.Duration

	users   cache[Person]
	groups  cache[map[string]string] // handles and IDs to IDs, under one key
	members cache[[]string]          // by the group's ID
}

// NewPeople returns a People that caches for ttl; 0: one minute. A person who
// leaves a group can decide for that long.
func NewPeople(c *Client, ttl time.Duration) *People {
	if ttl <= 0 {
		ttl = time.Minute
	}
	return &People{client: c, ttl: ttl}
}

// Person looks up a Slack user. The error is an [*UnfitError] for a user who
// may not decide, or a [*fault.Error] if Slack could not be asked.
func (p *People) Person(ctx context.Context, userID string) (Person, error) {
	if !slackID.MatchString(userID) {
		return Person{}, &UnfitError{userID, UnfitUnknown}
	}
	return p.users.get(userID, p.ttl, func() (Person, error) {
		who, err := p.client.Identify(ctx)
		if err != nil {
			return Person{}, err
		}
		var u *slack.User
		err = p.client.call("users.info", "", func() (err error) {
			u, err = p.client.api().GetUserInfoContext(ctx, userID)
			return err
		})
		var e *fault.Error
		if errors.As(err, &e) && e.Reason == fault.NotFound {
			return Person{}, &UnfitError{userID, UnfitUnknown}
		}
		if err != nil {
			return Person{}, err
		}
		if why := unfit(u, userID, who.TeamID); why != "" {
			return Person{}, &UnfitError{userID, why}
		}
		return Person{ID: u.ID, Email: strings.ToLower(strings.TrimSpace(u.Profile.Email))}, nil
	})
}

func unfit(u *slack.User, asked, team string) Unfit {
	switch {
	case u.ID != asked:
		return UnfitUnknown // a merged account, or an answer to another request
	case u.Deleted:
		return UnfitDeleted
	case u.IsBot, u.IsAppUser, u.IsConnectorBot, u.IsWorkflowBot, u.ID == "USLACKBOT":
		return UnfitBot
	case u.IsStranger, u.TeamID != team && !slices.Contains(u.Enterprise.Teams, team):
		return UnfitExternal
	case u.IsRestricted, u.IsUltraRestricted:
		return UnfitGuest
	case u.IsInvitedUser:
		return UnfitPending
	default:
		return ""
	}
}

// In returns those of the user groups, given by handle ("platform-oncall") or
// by ID, that a user is a member of. A group that does not exist or is disabled
// has no members.
func (p *People) In(ctx context.Context, userID string, groups ...string) ([]string, error) {
	var in []string
	for _, g := range groups {
		members, err := p.Members(ctx, g)
		if err != nil {
			return nil, err
		}
		if slices.Contains(members, userID) {
			in = append(in, g)
		}
	}
	return in, nil
}

// Members returns the IDs of the members of a user group, given by handle or by
// ID. A group that does not exist or is disabled has none.
func (p *People) Members(ctx context.Context, group string) ([]string, error) {
	ids, err := p.groups.get("", p.ttl, func() (map[string]string, error) {
		var list []slack.UserGroup
		err := p.client.call("usergroups.list", "", func() (err error) {
			list, err = p.client.api().GetUserGroupsContext(ctx)
			return err
		})
		if err != nil {
			return nil, err
		}
		ids := map[string]string{}
		for _, g := range list {
			// Others choose the handle of a group of another workspace.
			if g.DateDelete == 0 && !g.IsExternal {
				ids[g.Handle], ids[g.ID] = g.ID, g.ID
			}
		}
		return ids, nil
	})
	if err != nil {
		return nil, err
	}
	id, ok := ids[strings.TrimPrefix(group, "@")]
	if !ok {
		return nil, nil
	}
	return p.members.get(id, p.ttl, func() (members []string, err error) {
		err = p.client.call("usergroups.users.list", "", func() (err error) {
			members, err = p.client.api().GetUserGroupMembersContext(ctx, id)
			return err
		})
		return members, err
	})
}

// ByEmail returns the user with an e-mail address. The error is as in
// [People.Person].
func (p *People) ByEmail(ctx context.Context, email string) (Person, error) {
	var u *slack.User
	err := p.client.call("users.lookupByEmail", "", func() (err error) {
		u, err = p.client.api().GetUserByEmailContext(ctx, email)
		return err
	})
	var e *fault.Error
	switch {
	case errors.As(err, &e) && e.Reason == fault.NotFound:
		return Person{}, &UnfitError{"with that address", UnfitUnknown}
	case err != nil:
		return Person{}, err
	}
	return p.Person(ctx, u.ID)
}

// cache keeps answers, and the refusal of an unfit person, for a limited time.
// Failures are not kept.
type cache[V any] struct {
	mu      sync.Mutex // guards entries; two concurrent callers may both ask, which is harmless
	entries map[string]entry[V]
}

type entry[V any] struct {
	value V
	err   error
	until time.Time
}

const maxEntries = 10_000

func (c *cache[V]) get(key string, ttl time.Duration, ask func() (V, error)) (V, error) {
	now := time.Now()
	c.mu.Lock()
	e, ok := c.entries[key]
	c.mu.Unlock()
	if ok && now.Before(e.until) {
		return e.value, e.err
	}
	v, err := ask()
	if no := (*UnfitError)(nil); err != nil && !errors.As(err, &no) {
		var none V
		return none, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxEntries {
		c.entries = map[string]entry[V]{}
	}
	c.entries[key] = entry[V]{v, err, now.Add(ttl)}
	return v, err
}

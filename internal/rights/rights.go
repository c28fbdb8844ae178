// Package rights decides who may do what about which service. Slack, the page, the
// command line and the API ask it the same question, [Rules.Check].
//
// A right says who may ask for something. It replaces no approval: whose approval of
// a change counts, and how many are needed, is up to playbooks and the policy.
package rights

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Right is one kind of request that changes something.
type Right string

// The rights.
const (
	Approve Right = "approve" // answer a question: approve, deny, ask for a fresh plan
	Start   Right = "start"   // start a run by hand
	Pause   Right = "pause"
	Unpause Right = "unpause"
	Cancel  Right = "cancel"  // cancel a run; of a loan: keep it
	Resolve Right = "resolve" // say of a held run whether its change was made
	Promote Right = "promote" // lift the demotion of a lever
	Release Right = "release" // end a quarantined run or a wait, e.g. to give a loan back now
)

// All lists the rights, as tables show them.
func All() []Right {
	return []Right{Approve, Cancel, Pause, Unpause, Resolve, Release, Promote, Start}
}

// Stand-ins among those who have a right.
const (
	Asked  = "asked"          // of approve: whoever the question is put to
	Owners = "service.owners" // the owners of the service
)

// Actor is whoever makes a request.
type Actor struct {
	By     string   // user:ada
	Groups []string // of the credential and the person, without the prefix group:
	Person bool     // the configuration declares whose credential it is
}

// Service is what a request is about. The zero value is all services.
type Service struct {
	Name   string
	Owners []string // user:ada, group:ml-platform
}

func (s Service) String() string {
	if s.Name == "" {
		return "all services"
	}
	return fmt.Sprintf("service %.200s", s.Name) // as somebody wrote it, who may only want to fill the journal
}

// Grant gives rights about services to people and groups.
type Grant struct {
	To       []string // user:ada, group:sre, asked, service.owners
	May      []Right
	Services []string // names, in which * stands for any text; "*" is all services. Empty: all, for asked and service.owners only
}

// Rules are all grants. The zero value gives no right to anybody.
type Rules struct{ grants []Grant }

// Default returns the least with which the service is usable: people answer what
// they are asked, and owners stop what is done to their service.
func Default() []Grant {
	return []Grant{
		{To: []string{Asked}, May: []Right{Approve}},
		{To: []string{Owners}, May: []Right{Cancel, Pause}},
	}
}

// New returns the rules of some grants. It returns an error for an invalid grant.
func New(grants ...Grant) (Rules, error) {
	for _, g := range grants {
		if err := g.check(); err != nil {
			return Rules{}, err
		}
	}
	return Rules{grants: slices.Clone(grants)}, nil
}

func (g Grant) check() error {
	if len(g.To) == 0 || len(g.May) == 0 {
		return errors.New("lists nobody or no right: set \"to\" and \"may\"")
	}
	for _, who := range g.To {
		name, ok := strings.CutPrefix(who, "user:")
		if !ok {
			name, ok = strings.CutPrefix(who, "group:")
		}
		switch {
		case who == Asked && slices.ContainsFunc(g.May, func(r Right) bool { return r != Approve }):
			return errors.New("\"asked\" can be given the right approve only")
		case who == Asked || who == Owners:
		case !ok || name == "":
			return fmt.Errorf("%q names nobody; write user:NAME, group:NAME, %s or %s", who, Owners, Asked)
		case len(g.Services) == 0:
			return fmt.Errorf("services is missing for %s; \"*\" stands for all", who)
		}
	}
	for _, r := range g.May {
		if !slices.Contains(All(), r) {
			return fmt.Errorf("there is no right %q", r)
		}
	}
	for _, s := range g.Services {
		if _, err := path.Match(s, ""); s == "" || err != nil {
			return fmt.Errorf("%q names no service", s)
		}
	}
	return nil
}

// MissingError reports a right that somebody lacks.
type MissingError struct {
	By      string
	Right   Right
	Service Service
}

// Error names the person, the right and the service.
func (m *MissingError) Error() string {
	return fmt.Sprintf("%s lacks the right %s on %s", m.By, m.Right, m.Service)
}

// Check returns nil if the actor has the right about the service, else a
// [*MissingError].
func (r Rules) Check(a Actor, right Right, s Service) error {
	for _, g := range r.grants {
		if slices.Contains(g.May, right) && g.covers(s) && slices.ContainsFunc(g.To, func(who string) bool { return a.is(who, s) }) {
			return nil
		}
	}
	return &MissingError{By: a.By, Right: right, Service: s}
}

// Who lists who has the right about the service, in the words of the grants.
func (r Rules) Who(right Right, s Service) []string {
	var all []string
	for _, g := range r.grants {
		if !slices.Contains(g.May, right) || !g.covers(s) {
			continue
		}
		for _, who := range g.To {
			if who == Owners && s.Name == "" {
				continue // nobody owns all services
			}
			if !slices.Contains(all, who) {
				all = append(all, who)
			}
		}
	}
	return all
}

// Of lists what the rules let an actor do, e.g. "pause, unpause: all services". It leaves
// out rights for which usable returns false: the actor's credential may not be used for
// them. It leaves out start if the configuration does not declare the actor, who then starts
// nothing. Whoever approves has to be asked, in addition to the right.
func (r Rules) Of(a Actor, usable func(Right) bool) []string {
	var all []string
	add := func(line string) {
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	for _, g := range r.grants {
		where, ok := g.where(a)
		if !ok {
			continue
		}
		var may []string
		for _, right := range g.May {
			switch {
			case !usable(right), right == Start && !a.Person:
			case right == Approve && slices.Contains(g.To, Asked) && len(g.Services) == 0:
				add("approve: what you are asked")
			case right == Approve:
				add("approve: what you are asked, on " + where)
			default:
				may = append(may, string(right))
			}
		}
		if len(may) > 0 {
			add(strings.Join(may, ", ") + ": " + where)
		}
	}
	return all
}

// where returns about which services the grant gives an actor rights, and false if it gives
// them none.
func (g Grant) where(a Actor) (services string, ok bool) {
	services = "services " + strings.Join(g.Services, ", ")
	everywhere := len(g.Services) == 0 || slices.Contains(g.Services, "*")
	if everywhere {
		services = "all services"
	}
	switch {
	case slices.ContainsFunc(g.To, func(who string) bool { return a.is(who, Service{}) }): // Asked is everybody
		return services, true
	case !slices.Contains(g.To, Owners):
		return "", false
	case everywhere:
		return "services that you own", true
	default:
		return "those of the " + services + " that you own", true
	}
}

// Anywhere lists who has the right about any service.
func (r Rules) Anywhere(right Right) []string {
	var all []string
	for _, g := range r.grants {
		if !slices.Contains(g.May, right) {
			continue
		}
		for _, who := range g.To {
			if len(g.Services) > 0 && !slices.Contains(g.Services, "*") {
				who += " (" + strings.Join(g.Services, ", ") + ")"
			}
			if !slices.Contains(all, who) {
				all = append(all, who)
			}
		}
	}
	return all
}

// covers reports whether the grant is about the service.
func (g Grant) covers(s Service) bool {
	if len(g.Services) == 0 || slices.Contains(g.Services, "*") {
		return true
	}
	return s.Name != "" && slices.ContainsFunc(g.Services, func(pattern string) bool { return matches(pattern, s.Name) })
}

// matches reports whether a name fits a pattern, in which * also stands for slashes.
func matches(pattern, name string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(flat.Replace(pattern), flat.Replace(name))
	return ok && err == nil
}

// is reports whether the actor is one of those that a grant names.
func (a Actor) is(who string, s Service) bool {
	switch who {
	case Asked:
		return true // the question itself knows whom it asks
	case Owners:
		return slices.ContainsFunc(s.Owners, func(owner string) bool { return owner != Asked && owner != Owners && a.is(owner, s) })
	}
	group, ok := strings.CutPrefix(who, "group:")
	if !ok {
		return who == a.By
	}
	return slices.ContainsFunc(a.Groups, func(g string) bool { return strings.TrimPrefix(g, "group:") == group })
}

package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/web"
)

// applies is what each playbook may do for a service, as far as this process knows: it asks
// nobody.
func (s *Service) applies(svc playbook.Service) []web.Applied {
	var out []web.Applied
	for _, x := range s.standings(svc, s.view()) {
		a := web.Applied{Playbook: x.book.Name}
		for _, l := range x.levers {
			a.Levers = append(a.Levers, leverStanding(l))
		}
		a.Mode, a.Tone, a.Why = x.mode()
		out = append(out, a)
	}
	return out
}

// mode describes what a playbook may do for a service, and why it is no more.
func (s standing) mode() (mode, tone, why string) {
	var reasons []string
	for _, h := range append(slices.Clip(s.stops), s.limits...) {
		reasons = append(reasons, h.String())
	}
	why = strings.Join(reasons, "; ")
	switch {
	case len(s.levers) == 0:
		return "only looks", "", "it has no lever"
	case s.paused:
		return "paused", "bad", why
	case s.observes && len(s.stops) == 1:
		return "only observes", "", why
	case len(s.stops) > 0:
		return "not armed", "bad", why
	case len(s.doubts) > 0:
		return "not known", "wait", strings.Join(s.doubts, "; ")
	case s.acts():
		return "acts by itself", "good", why
	default:
		return "asks people", "wait", why
	}
}

// leverStanding is a lever for its service's page.
func leverStanding(l executor.Outlook) web.LeverStanding {
	out := web.LeverStanding{
		State: l.State, Kind: l.Lever, Level: l.Level.String(), Tried: l.Attempts, OK: l.Verified, Failed: l.Ineffective + l.Inconclusive, Next: l.Proposal,
	}
	var rules []string
	for _, limit := range l.Limits {
		rules = append(rules, limit.Rule)
	}
	out.HeldBy = strings.Join(rules, "; ")
	if out.Next == "" && l.Level < playbook.Auto {
		out.Next = fmt.Sprintf("%s is for people to set", l.Level+1)
		if l.Missing > 0 {
			out.Next = fmt.Sprintf("%s is proposed after %d more verified in a row", l.Level+1, l.Missing)
		}
	}
	return out
}

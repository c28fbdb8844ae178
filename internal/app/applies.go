package app

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/web"
)

// applies is what each playbook may do for a service, as far as this process knows: it asks
// nobody.
func (s *Service) applies(svc playbook.Service) []web.Applied {
	var out []web.Applied
	for _, p := range s.library.set().All() {
		if !p.Serves(svc.Name) {
			continue
		}
		a, most := web.Applied{Playbook: p.Name}, playbook.Observe
		for _, l := range s.executor.Levers(p, svc.Name) {
			a.Levers = append(a.Levers, leverStanding(l))
			most = max(most, l.Level)
		}
		a.Mode, a.Tone, a.Why = s.mode(p, svc, len(a.Levers), most)
		out = append(out, a)
	}
	return out
}

// mode describes what a playbook may do for a service, and why it is no more.
func (s *Service) mode(p *playbook.Playbook, svc playbook.Service, levers int, most playbook.Autonomy) (mode, tone, why string) {
	for _, x := range s.executor.Pauses() {
		if x.Scope.Covers(svc.Name, p.Name) {
			return "paused", "bad", "by " + x.By + ": " + x.Reason
		}
	}
	switch {
	case levers == 0:
		return "only looks", "", "it has no lever"
	case len(svc.SLOs) == 0:
		return "not armed", "bad", "the service has no objective by which a change could be proven"
	case s.world.Deps.Querier == nil:
		return "not armed", "bad", "no Prometheus is configured, so nothing can be proven"
	case s.world.Deps.Workloads == nil:
		return "not armed", "bad", "no cluster is configured"
	case most == playbook.Auto:
		return "acts by itself", "good", ""
	case most == playbook.Suggest:
		return "asks people", "wait", ""
	default:
		return "only observes", "", ""
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

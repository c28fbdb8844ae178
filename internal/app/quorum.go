package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
)

// Approvals describes which approvals count for less than they seem to: of credentials
// that are nobody's, and where too few people are declared.
// In a sandbox people may decide under any name.
func (s *Service) Approvals(c config.Config) []string {
	if s.world.Sandbox != nil {
		return c.Undeclared()
	}
	return append(c.Undeclared(), quorums(c.Auth, s.library.set(), s.rules.current.Load().Rules())...)
}

// quorums describes the rules and playbooks that want more people to approve than
// auth.people declares among those who are asked.
func quorums(a config.Auth, set *playbook.Set, rules []policy.Rule) []string {
	var all []string
	few := func(place string, quorum int, from []string) {
		n := 0
		for _, p := range a.People {
			if slices.ContainsFunc(from, func(who string) bool { return mayBe(a, p, who) }) || len(from) == 0 {
				n++
			}
		}
		switch {
		case quorum < 2 || n >= quorum:
		case n == len(a.People):
			all = append(all, fmt.Sprintf("%s: needs %d people, and auth.people declares %d: only declared people count where several approve", place, quorum, n))
		default:
			all = append(all, fmt.Sprintf("%s: needs %d people of %s, and auth.people declares %d of them: only declared people count where several approve",
				place, quorum, strings.Join(from, ", "), n))
		}
	}
	for _, r := range rules {
		few(r.Place, r.Quorum, r.From)
	}
	for _, p := range set.All() {
		for _, s := range p.States {
			if s.Approve == nil {
				continue
			}
			if n, known := s.Approve.Quorum.Constant(); known {
				few(fmt.Sprintf("playbook %s, state %s", p.Name, s.Name), int(n), s.Approve.By)
			}
		}
	}
	return all
}

// mayBe reports whether a declared person may be one whom a rule names. Owners differ by
// service, and groups may come from an issuer or from Slack: there everybody may.
func mayBe(a config.Auth, p config.Person, who string) bool {
	name, user := strings.CutPrefix(who, "user:")
	if user {
		return name == strings.TrimPrefix(p.Name, "user:")
	}
	group, named := strings.CutPrefix(who, "group:")
	if !named || p.OIDC != "" || p.Email != "" || p.Slack != "" {
		return true
	}
	in := func(groups []string) bool {
		return slices.Contains(groups, group) || slices.Contains(groups, who)
	}
	own := func(credential string) bool {
		return slices.ContainsFunc(p.Handles(), func(h [2]string) bool { return h[1] == strings.TrimPrefix(credential, "user:") })
	}
	return in(p.Groups) ||
		slices.ContainsFunc(a.Tokens, func(t config.Token) bool { return own(t.Name) && in(t.Groups) }) ||
		slices.ContainsFunc(a.Basic, func(b config.Basic) bool { return own(b.Name) && in(b.Groups) }) ||
		a.MTLS != nil && slices.ContainsFunc(a.MTLS.Clients, func(m config.MTLSClient) bool { return own(m.Name) && in(m.Groups) })
}

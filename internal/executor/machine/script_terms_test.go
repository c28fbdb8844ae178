package machine

import (
	"strings"
	"time"
)

// terms are what the policy answers: needs=2:group:sre,user:bob (and strong)
// cap=suggest glass=group:captains (and own) within=10m remind=2m tiers=5m:pager/10m:boss.
func (s *script) terms(opts map[string]string, has func(string) bool) *Terms {
	within := func(text string) time.Duration {
		if text == "" {
			return 0
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			s.t.Fatal(err)
		}
		return d
	}
	terms := &Terms{Policy: "sha256:p", Within: within(opts["within"]), Remind: within(opts["remind"])}
	if n, from, ok := strings.Cut(opts["needs"], ":"); ok {
		terms.Needs = []Need{{Rule: "policy two, policy.yaml:4", From: strings.Split(from, ","), Quorum: int(n[0] - '0'), Strong: has("strong")}}
	}
	if level := opts["cap"]; level != "" {
		terms.Cap = &Cap{Rule: "policy canary, policy.yaml:9"}
		if err := terms.Cap.Level.UnmarshalText([]byte(level)); err != nil {
			s.t.Fatal(err)
		}
	}
	if glass := opts["glass"]; glass != "" {
		terms.BreakGlass, terms.GlassOwn = []string{glass}, has("own")
	}
	for _, tier := range strings.Split(opts["tiers"], "/") {
		if after, to, ok := strings.Cut(tier, ":"); ok {
			terms.Tiers = append(terms.Tiers, Tier{After: within(after), To: []string{to}})
		}
	}
	if len(opts) == 0 {
		return nil
	}
	return terms
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

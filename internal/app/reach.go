package app

import (
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/web"
)

// reach is how far a lever may go.
type reach struct {
	level   playbook.Autonomy
	caps    []machine.Cap // what holds it there
	asks    bool          // people are asked before it is applied
	barred  hurdle        // why it is not applied, whatever its plan is
	depends []hurdle      // what may hold it or make it ask, and is not known yet
}

// reachOf returns how far a lever may go under the configuration, the track record and the
// policy as they are now.
func (s *Service) reachOf(set *playbook.Set, p *playbook.Playbook, l executor.Outlook, svc playbook.Service) reach {
	state := p.State(l.State)
	run := machine.State{Playbook: p, Start: machine.Start{Playbook: p.Name, Service: svc, Autonomy: l.Own, Override: set.Override(p.Name, svc.Name)}}
	out := reach{level: l.Own, caps: l.OwnLimits}
	if rules := s.rules.current.Load(); rules != nil {
		result := rules.Explain(policy.Input{Now: s.world.Now(), Service: svc, Playbook: p, State: state, Autonomy: l.Own})
		shows := "responder policy explain --config FILE --service " + svc.Name + " shows each rule"
		if most := result.Terms.Cap; most != nil && most.Level <= out.level {
			if most.Level < out.level {
				out.caps = nil
			}
			out.level, out.caps = most.Level, append(slices.Clip(out.caps), *most)
		}
		for _, cause := range result.Causes {
			switch {
			case cause.Denies && out.barred.why == "":
				out.barred = hurdle{why: "the policy denies it: " + cause.Place + ": " + cause.Why, do: shows}
			case cause.Depends:
				out.depends = append(out.depends, hurdle{why: "the policy decides by its plan: " + cause.Place + ": " + cause.Why, do: shows})
			}
		}
		run = run.Under(&result.Terms)
	}
	if out.barred.why != "" || out.level == playbook.Observe {
		return out
	}
	needs := run.Needs(state)
	out.asks, out.barred = len(needs) > 0, s.unconfigured(l.Lever, svc)
	if x := s.hearing.deployers; x != nil && deployed(l.Lever) && x.doubted() {
		h := x.health(s.hearing.deploys)
		out.depends = append(out.depends, hurdle{why: "whether " + h.Name + " answers is not known: " + h.Text, do: "responder doctor asks it"})
	}
	for _, n := range needs {
		if nobody := n.Unreachable(run.Start); nobody != "" {
			out.barred = hurdle{why: nobody, do: "set owners of the service, or name approvers in the policy"}
		}
	}
	return out
}

// observing returns the rules that hold a lever at observe.
func observing(caps []machine.Cap) (rules []string) {
	for _, c := range caps {
		if c.Level == playbook.Observe {
			rules = append(rules, c.Rule)
		}
	}
	return rules
}

// held is that every lever is at observe, by the rules that hold them there.
func held(by []string) hurdle {
	slices.Sort(by)
	return hurdle{why: "its levers are at observe, held by " + strings.Join(slices.Compact(by), ", "), do: "raise autonomy there to suggest"}
}

// unconfigured returns what a lever needs of the configuration and does not find; empty: nothing.
func (s *Service) unconfigured(lever string, svc playbook.Service) hurdle {
	subject, _, _ := strings.Cut(lever, ".")
	switch d := s.world.Deps; {
	case deployed(lever) && d.Applications == nil:
		return hurdle{why: "neither Argo CD nor Flux is configured", do: "set gitops.argocd or gitops.flux in the configuration"}
	case subject == "gitops" && d.Commits == nil:
		return hurdle{why: "no Git repository is configured", do: "set gitops.repositories in the configuration"}
	case deployed(lever):
		return s.deployers()
	case subject == "traffic" && svc.Warm == playbook.Warm{}:
		return hurdle{why: "no warm revision is kept ready", do: "set warm of the service in the configuration"}
	case (subject == "node" || subject == "gpu") && d.NodeChanger == nil:
		return hurdle{why: "nodes cannot be changed here", do: "set kubernetes in the configuration"}
	case subject == "job" && d.Templates == nil:
		return hurdle{why: "no template of a Job is configured", do: "set jobs in the configuration"}
	default:
		return hurdle{}
	}
}

// deployed reports whether Argo CD or Flux brings a lever's change into effect.
func deployed(lever string) bool {
	return strings.HasPrefix(lever, "gitops.") || strings.HasPrefix(lever, "argocd.")
}

// deployers returns a hurdle if Argo CD or Flux does not answer as it should.
func (s *Service) deployers() hurdle {
	if x := s.hearing.deployers.health(s.hearing.deploys); x.State == web.Failing {
		return hurdle{why: x.Name + " does not answer as it should: " + x.Text, do: "responder doctor asks it, and shows what is wrong"}
	}
	return hurdle{}
}

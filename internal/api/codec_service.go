package api

import (
	"github.com/inference-responder/responder/internal/playbook"
)

// ServiceOf returns an entry of the catalog.
func ServiceOf(s playbook.Service) Service {
	out := Service{
		Service: s.Name, Namespace: s.Namespace, Workload: Workload(s.Workload), Container: s.Container, Engine: s.Engine, Model: s.Model,
		Endpoint: s.Endpoint, Gateway: s.Gateway, Owners: list(s.Owners), Autonomy: s.Autonomy.String(), MinReady: s.MinReady, MaxScale: s.MaxScale, Selector: s.Selector,
		LoadTime: duration(s.LoadTime), Recovery: duration(s.Recovery),
		SLOs: each(s.SLOs, func(o playbook.SLO) SLO {
			return SLO{o.Name, o.Objective, playbook.FormatDuration(o.Window), o.Threshold, o.Indicator, o.Model, o.Route, o.By, o.CustomBuckets}
		}),
	}
	if g := s.GitOps; g != (playbook.GitOps{}) {
		out.GitOps = &GitOps{Application: g.Application, Repository: g.Repository, Branch: g.Branch, Path: g.Path, Component: g.Component}
		if g.Object != (playbook.Workload{}) {
			out.GitOps.Object = &Workload{g.Object.Kind, g.Object.Name}
		}
	}
	if w := s.Warm; w != (playbook.Warm{}) {
		out.Warm = &Warm{Route: Workload(w.Route), Backend: w.Backend, Each: w.Each}
		if w.Workload != (playbook.Workload{}) {
			out.Warm.Workload = &Workload{w.Workload.Kind, w.Workload.Name}
		}
	}
	return out
}

// Playbook returns the service as playbooks see it.
func (s Service) Playbook() playbook.Service {
	out := playbook.Service{
		Name: s.Service, Namespace: s.Namespace, Workload: playbook.Workload(s.Workload), Container: s.Container, Engine: s.Engine, Model: s.Model,
		Endpoint: s.Endpoint, Gateway: s.Gateway, Owners: s.Owners, Autonomy: parseAutonomy(s.Autonomy), MinReady: s.MinReady, MaxScale: s.MaxScale, Selector: s.Selector,
		LoadTime: parseDuration(s.LoadTime), Recovery: parseDuration(s.Recovery),
		SLOs: some(s.SLOs, func(o SLO) playbook.SLO {
			return playbook.SLO{
				Name: o.Name, Objective: o.Objective, Window: parseDuration(o.Window), Threshold: o.Threshold,
				Indicator: o.Indicator, Model: o.Model, Route: o.Route, By: o.By, CustomBuckets: o.CustomBuckets,
			}
		}),
	}
	if g := s.GitOps; g != nil {
		out.GitOps = playbook.GitOps{Application: g.Application, Repository: g.Repository, Branch: g.Branch, Path: g.Path, Component: g.Component}
		if g.Object != nil {
			out.GitOps.Object = playbook.Workload(*g.Object)
		}
	}
	if w := s.Warm; w != nil {
		out.Warm = playbook.Warm{Route: playbook.Workload(w.Route), Backend: w.Backend, Each: w.Each}
		if w.Workload != nil {
			out.Warm.Workload = playbook.Workload(*w.Workload)
		}
	}
	return out
}

// With returns the service with the levels that its entry sets for playbooks and
// levers.
func (s Service) With(levels map[string]playbook.Autonomy) Service {
	for name, level := range levels {
		if s.AutonomyOf == nil {
			s.AutonomyOf = map[string]string{}
		}
		s.AutonomyOf[name] = level.String()
	}
	return s
}

// PlaybookOf returns a playbook of the set that is in force.
func PlaybookOf(set *playbook.Set, p *playbook.Playbook) Playbook {
	o := set.Override(p.Name, "")
	return Playbook{
		Playbook: p.Name, Title: p.Title, Description: p.Description, Runbook: p.Runbook, Digest: p.Digest, Source: p.Source,
		Autonomy: p.Level(o).String(), Override: one(o, overrideOf), Start: p.Start, States: len(p.States),
	}
}

// MatchOf returns the result of matching a playbook with an alert.
func MatchOf(m playbook.MatchResult) Match {
	return Match{Playbook: m.Name, Matched: m.Matched, Sets: each(m.Sets, func(s playbook.SetResult) MatcherSet {
		return MatcherSet{s.Matchers, s.Matched, some(s.Failed, func(f playbook.Mismatch) Mismatch { return Mismatch(f) })}
	})}
}

// PauseScope names what a pause stops: global, intake, service:NAME or
// playbook:NAME.
func PauseScope(service, playbook string, intake bool) string {
	switch {
	case intake:
		return "intake"
	case service != "" && playbook != "":
		return "service:" + service + " playbook:" + playbook
	case service != "":
		return "service:" + service
	case playbook != "":
		return "playbook:" + playbook
	default:
		return "global"
	}
}

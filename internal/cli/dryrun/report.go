package dryrun

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Report is the answer of dry-run, with what only its text form shows.
type Report struct {
	api.DryRun
	walked []walked // one for each of Runs
}

// walked is a run as far as it goes without a change.
type walked struct {
	state  machine.State
	events []machine.Event
}

// The verdicts, one for each exit code.
const (
	verdictNothing  = "nothing-to-do"
	verdictWouldAct = "would-act"
	verdictRefused  = "refused"
	verdictNoMatch  = "no-match"
)

// newReport reads what became of everything.
func newReport(s *app.Service, setup setup) (Report, error) {
	r := Report{DryRun: api.DryRun{Alerts: []api.DryRunAlert{}, Runs: []api.DryRunRun{}, Notes: []string{
		"cooldown, budget and concurrency saw an empty history: what a running service has done lately is not known here",
	}}}
	if err := r.addAlerts(s); err != nil {
		return r, err
	}
	runs, err := s.AllRuns()
	if err != nil {
		return r, err
	}
	for _, state := range runs {
		events, err := s.RunEvents(state.Start.Run)
		if err != nil {
			return r, err
		}
		r.Runs = append(r.Runs, runOf(setup, state, events))
		r.walked = append(r.walked, walked{state, events})
	}
	r.Verdict, r.ExitCode = r.judge()
	return r, nil
}

// addAlerts adds, for each alert, the service and the playbooks that fit.
func (r *Report) addAlerts(s *app.Service) error {
	decisions, err := decisionsByEpisode(s)
	if err != nil {
		return err
	}
	for n, err := range s.Notifications() {
		if err != nil {
			return fmt.Errorf("read back the notification: %w", err)
		}
		for _, a := range n.Alerts {
			services, why, err := s.Resolve(a)
			if err != nil {
				return fmt.Errorf("find the service of alert %s: %w", a.Labels["alertname"], err)
			}
			found := api.DryRunAlert{
				Alert: api.AlertOf(a), Services: []string{}, Why: why,
				Decisions: append([]api.Dispatch{}, decisions[a.Episode()]...), Playbooks: []api.Match{},
			}
			for _, m := range s.Playbooks().Explain(a) {
				found.Playbooks = append(found.Playbooks, api.MatchOf(m))
			}
			for _, svc := range services {
				found.Services = append(found.Services, svc.Name)
			}
			r.Alerts = append(r.Alerts, found)
		}
	}
	return nil
}

// decisionsByEpisode reads what became of each alert.
func decisionsByEpisode(s *app.Service) (map[string][]api.Dispatch, error) {
	all := map[string][]api.Dispatch{}
	for d, err := range s.Dispatches() {
		if err != nil {
			return nil, fmt.Errorf("read what became of the alerts: %w", err)
		}
		for _, episode := range d.Episodes {
			all[episode] = append(all[episode], api.Dispatch{
				Decision: strings.TrimPrefix(d.Kind, "alert."), Playbook: d.Playbook, Run: d.Run, Reason: d.Reason,
			})
		}
	}
	return all, nil
}

func runOf(setup setup, state machine.State, events []machine.Event) api.DryRunRun {
	run := api.DryRunRun{Run: api.RunOf(state), Events: []api.Event{}, Levers: leversOf(setup, state, events)}
	for i, e := range events {
		run.Events = append(run.Events, api.EventOf(uint64(i), e))
	}
	return run
}

// leversOf collects the levers and gates a run came to, from its events.
func leversOf(setup setup, state machine.State, events []machine.Event) []api.DryRunLever {
	levers := []api.DryRunLever{}
	at := func(name string) *api.DryRunLever {
		if n := len(levers); n > 0 && levers[n-1].State == name {
			return &levers[n-1]
		}
		l := api.DryRunLever{State: name}
		if state.Playbook != nil {
			if st := state.Playbook.State(name); st != nil {
				l.Kind, l.Step = string(st.Kind), st.Step
				l.Approval = approvalOf(setup.ceiling, state, st, nil)
				l.Then = branchesOf(state.Playbook, st)
			}
		}
		levers = append(levers, l)
		return &levers[len(levers)-1]
	}
	for _, e := range events {
		switch e.Kind {
		case machine.PlanCompleted:
			l := at(e.State)
			if e.Plan != nil {
				plan := api.PlanOf(*e.Plan)
				l.Plan, l.Digest = &plan, plan.Digest
			}
		case machine.PlanRefused:
			at(e.State).Refused = fmt.Sprintf("%s (%s)", e.Message, e.Reason)
		case machine.GuardsPassed, machine.GuardsRefused:
			l := at(e.State)
			l.Guards = nil
			for _, g := range e.Guards {
				l.Guards = append(l.Guards, api.GuardOf(g))
			}
			if e.Kind == machine.GuardsRefused {
				l.Refused = "guards: " + refusals(e.Guards)
			}
			if st := state.Playbook.State(e.State); st != nil {
				l.Approval = approvalOf(setup.ceiling, state, st, e.Terms)
				l.Would = e.Kind == machine.GuardsPassed && st.Kind == playbook.StateGate
			}
		case machine.WouldApply:
			// The dry run observes, whose guards ask for no right to write. The
			// service would act, and be refused.
			l := at(e.State)
			if l.Plan != nil && l.Plan.MissingRight != "" && l.Approval.Autonomy != playbook.Observe.String() {
				l.Refused = "rights: " + l.Plan.MissingRight
			} else {
				l.Would = true
			}
		}
	}
	return levers
}

func refusals(verdicts []machine.GuardVerdict) string {
	var said []string
	for _, g := range verdicts {
		if !g.OK {
			said = append(said, g.Guard+": "+g.Why)
		}
	}
	return strings.Join(said, "; ")
}

// approvalOf is the question the service would have asked, had it not been a
// dry run, under the terms that the policy set.
func approvalOf(ceiling playbook.Autonomy, run machine.State, st *playbook.State, terms *machine.Terms) api.DryRunApproval {
	level, why := ceiling, "the configuration"
	lower := func(to playbook.Autonomy, by string) {
		if to < level {
			level, why = to, by
		}
	}
	names := map[playbook.Holder]string{playbook.HeldByService: run.Start.Service.Name, playbook.HeldByPlaybook: run.Playbook.Name, playbook.HeldByState: st.Name}
	for _, part := range run.Playbook.Parts(st, run.Start.Service.Autonomy, run.Start.Override) {
		lower(part.Level, cmp.Or(part.Setting, string(part.Holder)+" "+names[part.Holder]))
		if part.Setting != "" && part.Level == level {
			why = part.Setting
		}
	}
	if terms != nil && terms.Cap != nil {
		lower(terms.Cap.Level, terms.Cap.Rule)
	}
	run.Start.Autonomy = ceiling
	needs := run.Under(terms).Needs(st)
	a := api.DryRunApproval{Autonomy: level.String(), Why: why, Needed: level > playbook.Observe && len(needs) > 0}
	if !a.Needed {
		return a
	}
	for _, n := range needs {
		a.Needs = append(a.Needs, api.NeedOf(n))
	}
	onExpiry := playbook.ExpiryEscalate
	if st.Approve != nil {
		onExpiry = st.Approve.OnExpiry
	}
	within, err := run.Deciding(st, run.Updated)
	if err != nil {
		within = machine.AskWithin // unreachable: a state whose times are unknown is not entered
	}
	if terms != nil {
		a.BreakGlass = terms.BreakGlass
		for _, t := range terms.Tiers {
			a.Tiers = append(a.Tiers, api.TierOf(t))
		}
		if terms.Within > 0 {
			within = min(within, terms.Within)
		}
	}
	a.Within, a.OnExpiry = playbook.FormatDuration(within), string(onExpiry)
	return a
}

// judge returns the verdict over everything.
func (r *Report) judge() (string, int) {
	refused := false
	for i, run := range r.Runs {
		for _, l := range run.Levers {
			if l.Would {
				return verdictWouldAct, command.ExitWouldAct
			}
			refused = refused || l.Refused != ""
		}
		if wouldAsk(r.walked[i].state) && (len(run.Levers) == 0 || run.Levers[len(run.Levers)-1].Refused == "") {
			return verdictWouldAct, command.ExitWouldAct
		}
	}
	matched := slices.ContainsFunc(r.Alerts, func(a api.DryRunAlert) bool {
		return len(a.Services) == 1 && slices.ContainsFunc(a.Playbooks, func(m api.Match) bool { return m.Matched })
	})
	switch {
	case refused:
		return verdictRefused, command.ExitRefused
	case len(r.Runs) == 0 && !matched && r.firing():
		return verdictNoMatch, command.ExitNoMatch
	default:
		return verdictNothing, command.ExitOK
	}
}

// wouldAsk reports whether the run stopped at a question to people.
func wouldAsk(s machine.State) bool {
	return s.Gate != nil || s.Ending != nil && s.Ending.Outcome == machine.OutcomeObserved
}

// firing reports whether any alert fires: resolved ones start nothing.
func (r *Report) firing() bool {
	return slices.ContainsFunc(r.Alerts, func(a api.DryRunAlert) bool { return a.Alert.Status == string(playbook.Firing) })
}

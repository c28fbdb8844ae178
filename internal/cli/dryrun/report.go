package dryrun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// Report is the answer of dry-run.
type Report struct {
	Verdict  Verdict     `json:"verdict"`
	ExitCode int         `json:"exitCode"`
	Alerts   []Alert     `json:"alerts"`
	Runs     []RunReport `json:"runs"`
	Notes    []string    `json:"notes"`
}

// Verdict is the answer in one word.
type Verdict string

// The verdicts, one for each exit code.
const (
	verdictNothing  Verdict = "nothing-to-do"
	verdictWouldAct Verdict = "would-act"
	verdictRefused  Verdict = "refused"
	verdictNoMatch  Verdict = "no-match"
)

// Alert is what became of one alert.
type Alert struct {
	Alert     playbook.Alert         `json:"alert"`
	Services  []string               `json:"services"`
	Why       string                 `json:"why,omitempty"` // no service, or several
	Decisions []Decision             `json:"decisions"`
	Playbooks []playbook.MatchResult `json:"playbooks"`
}

// Decision is what the dispatcher made of an alert.
type Decision struct {
	Decision string `json:"decision"` // matched, coalesced, unmatched, no-service, suppressed, ...
	Playbook string `json:"playbook,omitempty"`
	Run      string `json:"run,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// RunReport is a run as far as it goes without changing anything.
type RunReport struct {
	Run    api.Run     `json:"run"`
	Events []api.Event `json:"events"`
	Levers []Lever     `json:"levers"`
	Graph  string      `json:"-"`

	state  machine.State
	events []machine.Event
}

// Lever is a lever, or a gate state, that the run came to.
type Lever struct {
	State    string             `json:"state"`
	Kind     playbook.StateKind `json:"kind"`
	Step     string             `json:"step,omitempty"`    // of a lever
	Would    bool               `json:"would"`             // apply it, or ask
	Refused  string             `json:"refused,omitempty"` // why it would not
	Plan     *api.Plan          `json:"plan,omitempty"`
	Digest   string             `json:"digest,omitempty"`
	Guards   []api.Guard        `json:"guards,omitempty"`
	Approval Approval           `json:"approval"`
	Then     []Branch           `json:"then"`
}

// Approval is who would have been asked.
type Approval struct {
	Autonomy playbook.Autonomy `json:"autonomy"` // effective: the lowest of configuration, service, playbook, state and policy
	Why      string            `json:"why"`      // which of them is the lowest
	Needed   bool              `json:"needed"`
	Needs    []api.Need        `json:"needs,omitempty"` // every one has to be met
	Within   string            `json:"within,omitempty"`
	OnExpiry playbook.Expiry   `json:"onExpiry,omitempty"`
	Tiers    []api.Tier        `json:"tiers,omitempty"` // who else is told while nobody decides

	BreakGlass []string `json:"breakGlass,omitempty"` // who may approve alone

	who string // the needs in words
}

// Branch is what follows a result of the lever.
type Branch struct {
	Result string `json:"result"`
	First  string `json:"first,omitempty"` // what happens before: the undo
	To     string `json:"to"`              // state, or how the run ends
	What   string `json:"what"`
	// Reaches is what the run may come to from there without another lever:
	// levers, gates, diverts and ends.
	Reaches []string `json:"reaches,omitempty"`
}

// newReport reads what became of everything.
func newReport(s *app.Service, setup setup) (Report, error) {
	r := Report{Alerts: []Alert{}, Runs: []RunReport{}, Notes: []string{
		"cooldown, budget and concurrency saw an empty history: what a running service has done lately is not known here",
	}}
	if err := r.addAlerts(s); err != nil {
		return r, err
	}
	runs, err := s.AllRuns()
	if err != nil {
		return r, err
	}
	for _, state := range runs {
		run, err := newRunReport(s, setup, state)
		if err != nil {
			return r, err
		}
		r.Runs = append(r.Runs, run)
	}
	r.Verdict, r.ExitCode = r.judge()
	return r, nil
}

// addAlerts says of each alert which service and which playbooks fit.
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
			found := Alert{Alert: a, Services: []string{}, Why: why, Decisions: decisions[a.Episode()], Playbooks: s.Playbooks().Explain(a)}
			for _, svc := range services {
				found.Services = append(found.Services, svc.Name)
			}
			r.Alerts = append(r.Alerts, found)
		}
	}
	return nil
}

// decisionsByEpisode reads what became of each alert.
func decisionsByEpisode(s *app.Service) (map[string][]Decision, error) {
	all := map[string][]Decision{}
	for d, err := range s.Dispatches() {
		if err != nil {
			return nil, fmt.Errorf("read what became of the alerts: %w", err)
		}
		for _, episode := range d.Episodes {
			all[episode] = append(all[episode], Decision{strings.TrimPrefix(d.Kind, "alert."), d.Playbook, d.Run, d.Reason})
		}
	}
	return all, nil
}

func newRunReport(s *app.Service, setup setup, state machine.State) (RunReport, error) {
	run := RunReport{Run: api.RunOf(state), state: state, Events: []api.Event{}, Levers: []Lever{}}
	events, err := s.RunEvents(state.Start.Run)
	if err != nil {
		return run, err
	}
	for i, e := range events {
		run.Events = append(run.Events, api.EventOf(uint64(i), e))
		run.events = append(run.events, e)
	}
	run.Levers = leversOf(setup, state, events)
	if state.Playbook != nil {
		run.Graph = runview.DrawPath(state.Playbook, state.Path)
	}
	return run, nil
}

// leversOf collects the levers and gates a run came to, from its events.
func leversOf(setup setup, state machine.State, events []machine.Event) []Lever {
	levers := []Lever{}
	at := func(name string) *Lever {
		if n := len(levers); n > 0 && levers[n-1].State == name {
			return &levers[n-1]
		}
		l := Lever{State: name}
		if state.Playbook != nil {
			if st := state.Playbook.State(name); st != nil {
				l.Kind, l.Step = st.Kind, st.Step
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
			if l.Plan != nil && l.Plan.MissingRight != "" && l.Approval.Autonomy > playbook.Observe {
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
func approvalOf(ceiling playbook.Autonomy, run machine.State, st *playbook.State, terms *machine.Terms) Approval {
	a := Approval{Autonomy: ceiling, Why: "the configuration"}
	lower := func(level playbook.Autonomy, why string) {
		if level < a.Autonomy {
			a.Autonomy, a.Why = level, why
		}
	}
	lower(run.Start.Service.Autonomy, "service "+run.Start.Service.Name)
	lower(run.Playbook.Autonomy, "playbook "+run.Playbook.Name)
	if st.Autonomy != nil {
		lower(*st.Autonomy, "state "+st.Name)
	}
	if terms != nil && terms.Cap != nil {
		lower(terms.Cap.Level, terms.Cap.Rule)
	}
	run.Start.Autonomy = ceiling
	needs := run.Under(terms).Needs(st)
	if a.Needed = a.Autonomy > playbook.Observe && len(needs) > 0; !a.Needed {
		return a
	}
	within := machine.AskWithin
	a.OnExpiry, a.who = playbook.ExpiryEscalate, machine.Gate{Needs: needs}.Who()
	for _, n := range needs {
		a.Needs = append(a.Needs, api.NeedOf(n))
	}
	if st.Approve != nil {
		within, a.OnExpiry = st.Approve.Within, st.Approve.OnExpiry
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
	a.Within = playbook.FormatDuration(within)
	return a
}

// judge returns the verdict over everything.
func (r *Report) judge() (Verdict, int) {
	refused := false
	for _, run := range r.Runs {
		for _, l := range run.Levers {
			if l.Would {
				return verdictWouldAct, command.ExitWouldAct
			}
			refused = refused || l.Refused != ""
		}
		if wouldAsk(run.state) && (len(run.Levers) == 0 || run.Levers[len(run.Levers)-1].Refused == "") {
			return verdictWouldAct, command.ExitWouldAct
		}
	}
	matched := slices.ContainsFunc(r.Alerts, func(a Alert) bool {
		return len(a.Services) == 1 && slices.ContainsFunc(a.Playbooks, func(m playbook.MatchResult) bool { return m.Matched })
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
	return slices.ContainsFunc(r.Alerts, func(a Alert) bool { return a.Alert.Status == playbook.Firing })
}

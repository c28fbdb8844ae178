package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// projection counts what the journal says, from its first entry on, so that counters
// go on over restarts. It reads each entry once: what was counted is stored beside the
// log now and then (counted.go). Only the kinds it counts are decoded.
type projection struct {
	journal *audit.Journal
	step    func(playbook, state string) string // the lever of a state; empty: unknown

	mu   sync.Mutex // one reader of the log at a time; guards next, open and saved
	next uint64
	open map[string]*runFacts // runs that have not ended, by id

	saved uint64 // next when it was stored last
	build string // of this program; see thisBuild

	runs, levers, changes, alerts, glass             *tally
	quarantined, rejected, badPolicies, gonePolicies *tally
	ladder, observed                                 *tally
	phases                                           *durations
}

// runFacts is what counting needs to remember of an open run.
type runFacts struct {
	playbook string
	lever    string // kind of the lever under way
	phase    string
	since    time.Time // of phase
	gate     time.Time // when the open question was asked; zero: none is open
}

// fact is the part of an event that is counted.
type fact struct {
	At      time.Time                  `json:"at"`
	State   string                     `json:"state"`
	Action  machine.Action             `json:"action"`
	Start   *struct{ Playbook string } `json:"start"`
	Plan    *struct{ Step string }     `json:"plan"`
	Ending  *struct{ Outcome string }  `json:"ending"`
	Verdict machine.Verdict            `json:"verdict"`
	Then    machine.Consequence        `json:"then"`

	Decision *struct {
		BreakGlass bool `json:"breakGlass"`
	} `json:"decision"`
}

func newProjection(journal *audit.Journal, step func(playbook, state string) string) *projection {
	return &projection{
		journal: journal, step: step, open: map[string]*runFacts{}, build: thisBuild(),
		runs:         newTally("responder_runs_total", "Runs that ended, by how.", "playbook", "outcome"),
		levers:       newTally("responder_levers_total", "Levers that came to a result.", "lever", "result"),
		changes:      newTally("responder_lever_changes_total", "Changes made to the world.", "lever", "change"),
		alerts:       newTally("responder_alerts_total", "Alerts received, by what became of them.", "decision"),
		ladder:       newTally("responder_ladder_changes_total", "Levers demoted because they did not help, and demotions that people lifted.", "playbook", "change"),
		observed:     newTally("responder_shadows_total", "Runs that only observed, by what became of the alert: recovered by itself, helped by another run, or not within a day.", "playbook", "alert"),
		glass:        newTally("responder_break_glass_total", "Questions that one person approved alone, past the needs.", "playbook"),
		quarantined:  newTally("responder_notifications_quarantined_total", "Notifications quarantined because handling them failed."),
		rejected:     newTally("responder_playbooks_rejected_total", "Loads of playbooks that were refused; the last good set stayed."),
		badPolicies:  newTally("responder_policy_rejected_total", "Loads of the policy that were refused; the last good rules stayed."),
		gonePolicies: newTally("responder_policy_removed_total", "Starts without a policy where one was in force before."),
		phases: newDurations("responder_run_phase_seconds", "Time that runs spent in each phase.", "phase",
			0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200),
	}
}

// tallies are the counters.
func (p *projection) tallies() []*tally {
	return []*tally{p.runs, p.levers, p.changes, p.alerts, p.glass, p.quarantined, p.rejected, p.badPolicies, p.gonePolicies, p.ladder, p.observed}
}

func (p *projection) collectors() []prometheus.Collector {
	out := []prometheus.Collector{p.phases}
	for _, t := range p.tallies() {
		out = append(out, t)
	}
	return out
}

// expect begins the counters that an alert looks at, so that their first count is seen as an increase.
func (p *projection) expect(playbooks []string) {
	for _, name := range playbooks {
		p.glass.add(0, name)
		for _, outcome := range machine.Outcomes() {
			if outcome.WithPeople() {
				p.runs.add(0, name, string(outcome))
			}
		}
	}
	for _, kind := range []string{dispatch.KindUnmatched, dispatch.KindNoService} {
		p.alerts.add(0, strings.TrimPrefix(kind, "alert."))
	}
}

// catchUp counts the entries that came since the last call.
func (p *projection) catchUp() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == 0 {
		if err := p.restore(); err != nil {
			return fmt.Errorf("count the journal: %w", err)
		}
	}
	for rec, err := range p.journal.Log(p.next, runStreams, dispatch.Stream, LadderStream, controlStream) {
		if errors.Is(err, audit.ErrArchived) { // what was counted of it is lost
			p.next = rec.Seq + 1
			continue
		}
		if err != nil {
			if errors.Is(err, audit.ErrClosed) {
				return nil
			}
			return fmt.Errorf("count the journal: %w", err)
		}
		p.count(rec)
		p.next = rec.Seq + 1
	}
	if p.next-p.saved >= countedEvery {
		return p.save()
	}
	return nil
}

// stop stores what was counted, for the next start.
func (p *projection) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.save()
}

// oldestGate returns how many questions are open and when the oldest was asked.
func (p *projection) oldestGate() (open int, oldest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.open {
		if r.gate.IsZero() {
			continue
		}
		open++
		if oldest.IsZero() || r.gate.Before(oldest) {
			oldest = r.gate
		}
	}
	return open, oldest
}

func (p *projection) count(rec audit.Record) {
	switch {
	case strings.HasPrefix(rec.Stream, runStreams):
		p.countRun(strings.TrimPrefix(rec.Stream, runStreams), rec)
	case rec.Stream == dispatch.Stream:
		p.countAlerts(rec)
	case rec.Stream == LadderStream:
		p.countLadder(rec)
	case rec.Stream == controlStream && rec.Kind == executor.KindRejected:
		p.rejected.add(1)
	case rec.Stream == controlStream && rec.Kind == executor.KindPolicyRejected:
		p.badPolicies.add(1)
	case rec.Stream == controlStream && rec.Kind == executor.KindPolicyRemoved:
		p.gonePolicies.add(1)
	}
}

// countAlerts counts what became of alerts; neighbours share a record.
func (p *projection) countAlerts(rec audit.Record) {
	if rec.Kind == dispatch.KindQuarantined {
		p.quarantined.add(1)
		return
	}
	decision, ok := strings.CutPrefix(rec.Kind, "alert.")
	if n, err := countEpisodes(rec.Data); ok && err == nil {
		p.alerts.add(float64(n), decision)
	}
}

// countEpisodes counts the alerts of a [dispatch.Record] without decoding it: there is
// one for each notification.
func countEpisodes(data []byte) (n int, _ error) {
	scan := playbook.ScanJSON(data)
	err := scan.Entries(func(name []byte) *playbook.FieldError {
		if string(name) == "episodes" {
			return scan.Array(func(int) *playbook.FieldError {
				n++
				_, err := scan.Raw()
				return err
			})
		}
		_, err := scan.Raw()
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// countLadder counts what was learned of levers. Their results are counted by
// kind of lever from the runs themselves.
func (p *projection) countLadder(rec audit.Record) {
	var s ladder.ObservedEnd // every kind of the stream names the playbook alike
	if json.Unmarshal(rec.Data, &s) != nil {
		return
	}
	switch rec.Kind {
	case ladder.KindLeverDemoted:
		p.ladder.add(1, s.Playbook, "demoted")
	case ladder.KindLeverPromoted:
		p.ladder.add(1, s.Playbook, "promoted")
	case ladder.KindObservedEnded:
		alert := "not-recovered"
		switch {
		case s.Recovered && s.Acted != "":
			alert = "helped"
		case s.Recovered:
			alert = "recovered"
		}
		p.observed.add(1, s.Playbook, alert)
	}
}

// countRun counts one event of a run. An entry that does not decode was not
// written by this version: it is left out, which the log's own check reports.
func (p *projection) countRun(id string, rec audit.Record) {
	kind := machine.EventKind(rec.Kind)
	if !counted(kind) {
		return
	}
	var f fact
	if err := json.Unmarshal(rec.Data, &f); err != nil {
		return
	}
	if kind == machine.RunStarted && f.Start != nil {
		p.open[id] = &runFacts{playbook: f.Start.Playbook, phase: "diagnose", since: f.At}
		return
	}
	r := p.open[id]
	if r == nil {
		return
	}
	if kind == machine.GateDecided && f.Decision != nil && f.Decision.BreakGlass {
		p.glass.add(1, r.playbook)
	}
	p.countLever(r, kind, f)
	p.countPhase(r, kind, f)
	if kind == machine.RunEnded && f.Ending != nil {
		p.runs.add(1, r.playbook, f.Ending.Outcome)
		delete(p.open, id)
	}
}

// counted lists the kinds that are worth decoding.
func counted(kind machine.EventKind) bool {
	switch kind {
	case machine.RunStarted, machine.EffectStarted, machine.PlanCompleted, machine.PlanRefused, machine.GuardsRefused,
		machine.GateOpened, machine.GateDecided, machine.GateVoided, machine.GateExpired, machine.GateWithdrawn,
		machine.WouldApply, machine.Applied, machine.Declined, machine.Settled, machine.Verified, machine.VerifyEnded, machine.Kept, machine.Undone,
		machine.Unwound, machine.RunHeld, machine.HoldResolved, machine.RunEnded:
		return true
	default:
		return false
	}
}

func (p *projection) countLever(r *runFacts, kind machine.EventKind, f fact) {
	result := func(name string) { p.levers.add(1, r.lever, name) }
	switch kind {
	case machine.EffectStarted:
		if f.Action == machine.ActionPlan {
			r.lever = p.leverOf(r.playbook, f.State)
		}
	case machine.PlanCompleted:
		if f.Plan != nil {
			r.lever = f.Plan.Step
		}
	case machine.PlanRefused, machine.GuardsRefused:
		result("refused")
	case machine.WouldApply:
		result("would-apply")
	case machine.Applied:
		p.changes.add(1, r.lever, "applied")
	case machine.Declined:
		result("declined")
	case machine.Undone:
		word := "undone"
		if f.Then == machine.Keep {
			word = "stopped"
		}
		p.changes.add(1, r.lever, word)
	case machine.Verified:
		result("verified")
	case machine.VerifyEnded:
		result(string(f.Verdict))
	}
}

func (p *projection) leverOf(playbook, state string) string {
	if step := p.step(playbook, state); step != "" {
		return step
	}
	return "unknown"
}

// countPhase follows where the time of a run goes: finding out, waiting for a
// decision, acting, proving, undoing, waiting for a person to say what is true.
func (p *projection) countPhase(r *runFacts, kind machine.EventKind, f fact) {
	phase := r.phase
	switch kind {
	case machine.GateOpened:
		phase, r.gate = "decide", f.At
	case machine.GateDecided, machine.GateVoided, machine.GateExpired, machine.GateWithdrawn:
		phase, r.gate = "act", time.Time{}
	case machine.EffectStarted:
		switch f.Action {
		case machine.ActionApply:
			phase = "act"
		case machine.ActionUndo:
			phase = "undo"
		}
	case machine.Settled:
		phase = "verify"
	case machine.RunHeld:
		phase = "held"
	case machine.HoldResolved:
		phase = "act"
	case machine.Verified, machine.VerifyEnded, machine.Kept, machine.Unwound, machine.Declined:
		phase = "diagnose"
	case machine.RunEnded:
		phase = ""
	}
	if phase != r.phase {
		p.phases.observe(r.phase, f.At.Sub(r.since).Seconds())
		r.phase, r.since = phase, f.At
	}
}

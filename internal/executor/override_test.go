package executor

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

const (
	bySetting = "playbooks.autonomy of responder.yaml"
	byService = "services[0].autonomy_of of responder.yaml"
)

// overridden returns the set with levels by name of playbook, PLAYBOOK/STATE or
// kind of lever; for one service if the name ends with "for SERVICE".
func overridden(t *testing.T, set *playbook.Set, levels map[string]playbook.Autonomy) *playbook.Set {
	t.Helper()
	var all playbook.Overrides
	for name, level := range levels {
		l := playbook.LevelSetting{Level: level, By: bySetting}
		name, l.Service, _ = strings.Cut(name, " for ")
		if l.Service != "" {
			l.By = byService
		}
		if l.Playbook, l.State, _ = strings.Cut(name, "/"); strings.Contains(name, ".") {
			l.Playbook, l.Kind = "", name
		}
		all = append(all, l)
	}
	out, err := set.Overridden(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// suggesting is the test's playbooks, of which ladder says suggest.
func suggesting(t *testing.T) *playbook.Set {
	t.Helper()
	return loadSet(t, func(s string) string { return strings.Replace(s, "autonomy: auto", "autonomy: suggest", 1) })
}

// What the configuration says stands in place of the playbook's level, for all
// its levers or one, and everything else still lowers it.
func TestConfiguredAutonomy(t *testing.T) {
	const auto, suggest, observe = playbook.Auto, playbook.Suggest, playbook.Observe
	atMost := func(level playbook.Autonomy) func(*Options) {
		return func(o *Options) {
			o.Policy = allow(machine.Terms{Cap: &machine.Cap{Level: level, Rule: "policy canary"}})
		}
	}
	for name, tt := range map[string]struct {
		set     *playbook.Set // nil: suggesting
		levels  map[string]playbook.Autonomy
		options func(*Options)
		phase   machine.Phase // after the guards
		applied int
		says    string // the guard
	}{
		"none":                       {phase: machine.PhaseDeciding, says: "suggest"},
		"raised":                     {levels: map[string]playbook.Autonomy{"ladder": auto}, applied: 1, says: "auto by " + bySetting},
		"one lever raised":           {levels: map[string]playbook.Autonomy{"ladder/first": auto}, applied: 1, says: "auto by " + bySetting},
		"another lever raised":       {levels: map[string]playbook.Autonomy{"ladder/second": auto}, phase: machine.PhaseDeciding, says: "suggest"},
		"another playbook raised":    {levels: map[string]playbook.Autonomy{"asks": auto}, phase: machine.PhaseDeciding, says: "suggest"},
		"the lever goes before":      {levels: map[string]playbook.Autonomy{"ladder": auto, "ladder/first": suggest}, phase: machine.PhaseDeciding, says: "suggest by " + bySetting},
		"lowered":                    {set: loadSet(t, nil), levels: map[string]playbook.Autonomy{"ladder": suggest}, phase: machine.PhaseDeciding, says: "suggest by " + bySetting},
		"lowered to observe":         {set: loadSet(t, nil), levels: map[string]playbook.Autonomy{"ladder/first": observe}, phase: machine.PhaseEnded, says: "observe by " + bySetting},
		"a kind raised":              {levels: map[string]playbook.Autonomy{"test.turn": auto}, applied: 1, says: "auto by " + bySetting},
		"a kind and its playbook":    {levels: map[string]playbook.Autonomy{"test.turn": auto, "ladder": suggest}, phase: machine.PhaseDeciding, says: "suggest by " + bySetting},
		"above the service":          {levels: map[string]playbook.Autonomy{"ladder for a": auto}, options: serviceAt(suggest), applied: 1, says: "auto by " + byService},
		"below the service":          {set: loadSet(t, nil), levels: map[string]playbook.Autonomy{"test.turn for a": suggest}, phase: machine.PhaseDeciding, says: "suggest by " + byService},
		"of another service":         {levels: map[string]playbook.Autonomy{"ladder for b": auto}, phase: machine.PhaseDeciding, says: "suggest"},
		"not above the installation": {levels: map[string]playbook.Autonomy{"ladder for a": auto}, options: func(o *Options) { o.Autonomy = suggest }, phase: machine.PhaseDeciding, says: "suggest"},
		"not above the policy":       {levels: map[string]playbook.Autonomy{"ladder for a": auto}, options: atMost(suggest), phase: machine.PhaseDeciding, says: "suggest"},
		"the installation is lower":  {levels: map[string]playbook.Autonomy{"ladder": auto}, options: func(o *Options) { o.Autonomy = suggest }, phase: machine.PhaseDeciding, says: "suggest"},
		"the service is lower":       {levels: map[string]playbook.Autonomy{"ladder": auto}, options: serviceAt(suggest), phase: machine.PhaseDeciding, says: "suggest"},
		"the policy is lower":        {levels: map[string]playbook.Autonomy{"ladder": auto}, options: atMost(suggest), phase: machine.PhaseDeciding, says: "suggest"},
		"the policy allows as much":  {levels: map[string]playbook.Autonomy{"ladder": auto}, options: atMost(auto), applied: 1, says: "auto by " + bySetting},
		"the policy lets it observe": {levels: map[string]playbook.Autonomy{"ladder/first": auto}, options: atMost(observe), phase: machine.PhaseEnded, says: "observe"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				if h.set = tt.set; h.set == nil {
					h.set = suggesting(t)
				}
				h.set, h.options = overridden(t, h.set, tt.levels), tt.options
				h.start()
				h.post(alertOf("Slow", "a"))
				h.pass(30 * time.Second)
				s := h.only()
				if n := h.world.count("apply"); n != tt.applied || tt.phase != "" && s.Phase != tt.phase {
					t.Errorf("%d applied, and the run is %s: %+v", n, s.Phase, s.Ending)
				}
				if got := guardSaid(s, "autonomy"); got != tt.says {
					t.Errorf("the guard says %q, want %q", got, tt.says)
				}
			})
		})
	}
}

// serviceAt sets the level of the test's services.
func serviceAt(level playbook.Autonomy) func(*Options) {
	return func(o *Options) {
		services := testServices()
		for name, s := range services {
			s.Autonomy = level
			services[name] = s
		}
		o.Services = services
	}
}

// guardSaid returns what a guard said last of the run's lever.
func guardSaid(s machine.State, name string) string {
	for _, g := range s.Consent().Guards {
		if g.Guard == name {
			return g.Why
		}
	}
	return "nothing"
}

// An open run keeps the level that it began with over a restart, and is never
// raised. A lowered level applies at once.
func TestConfiguredAutonomyOfOpenRuns(t *testing.T) {
	const auto, suggest, observe = playbook.Auto, playbook.Suggest, playbook.Observe
	none := map[string]playbook.Autonomy{}
	for name, tt := range map[string]struct {
		before, after map[string]playbook.Autonomy
		approve       bool
		applied       int
	}{
		"kept":                      {map[string]playbook.Autonomy{"ladder": auto}, map[string]playbook.Autonomy{"ladder": auto}, false, 1},
		"raised is for later runs":  {none, map[string]playbook.Autonomy{"ladder": auto}, false, 0},
		"raised, and approved":      {none, map[string]playbook.Autonomy{"ladder": auto}, true, 1},
		"lowered, and nobody asked": {map[string]playbook.Autonomy{"ladder": auto}, none, false, 0},
		"lowered for the lever":     {map[string]playbook.Autonomy{"ladder": auto}, map[string]playbook.Autonomy{"ladder": auto, "ladder/first": observe}, false, 0},
		"lowered to observe":        {none, map[string]playbook.Autonomy{"ladder": observe}, false, 0},
		"kept for the service":      {map[string]playbook.Autonomy{"ladder for a": auto}, map[string]playbook.Autonomy{"ladder for a": auto}, false, 1},
		"no more for the service":   {map[string]playbook.Autonomy{"ladder for a": auto}, none, false, 0},
		"lowered for the service":   {map[string]playbook.Autonomy{"ladder": auto}, map[string]playbook.Autonomy{"ladder": auto, "test.turn for a": suggest}, false, 0},
		"what lowered it is gone":   {map[string]playbook.Autonomy{"ladder": suggest}, none, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.set = overridden(t, suggesting(t), tt.before)
				h.world.before = func(e machine.Effect) {
					if e.Action == machine.ActionPlan {
						time.Sleep(10 * time.Second) // the service restarts before the guards are asked
					}
				}
				h.start()
				h.post(alertOf("Slow", "a"))
				level := h.only().Autonomy(h.set.ByName("ladder").State("first"))
				h.set = overridden(t, suggesting(t), tt.after)
				h.restart()
				if got := h.only().Autonomy(h.set.ByName("ladder").State("first")); got != level {
					t.Errorf("it began at %s and is at %s after the restart", level, got)
				}
				h.pass(30 * time.Second)
				if tt.approve {
					if err := h.e.Command(t.Context(), h.only().Start.Run, yes("ada")); err != nil {
						t.Fatal(err)
					}
				}
				h.pass(14 * time.Minute) // nobody has let it pass yet
				if n := h.world.count("apply"); n != tt.applied {
					t.Errorf("%d applied, want %d: %+v", n, tt.applied, h.only().Ending)
				}
			})
		})
	}
}

// A run that takes over from another begins with what is set for its own playbook.
func TestConfiguredAutonomyOfADivertedRun(t *testing.T) {
	for name, tt := range map[string]struct {
		levels  map[string]playbook.Autonomy
		applied int
	}{
		"of the first": {map[string]playbook.Autonomy{"asks": playbook.Auto}, 0},
		"of the next":  {map[string]playbook.Autonomy{"ladder": playbook.Auto}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.world.object("a").value = 6
				h.set = overridden(t, suggesting(t), tt.levels)
				h.start()
				h.post(alertOf("Ask", "a"))
				h.pass(time.Minute)
				runs := h.runs()
				if len(runs) != 2 || runs[1].Start.DivertedFrom == "" {
					t.Fatalf("%d runs: %v", len(runs), h.fates())
				}
				if n := h.world.count("apply"); n != tt.applied {
					t.Errorf("%d applied, want %d; the next run began with %v", n, tt.applied, runs[1].Start.Override)
				}
			})
		})
	}
}

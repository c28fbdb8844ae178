package ladder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Entry is the record of one lever on one service, as people see it.
type Entry struct {
	LeverID
	Figured

	Streak int       `json:"streak"`         // verified in a row, since the last failure, override, denial or change of the level
	Since  time.Time `json:"since,omitzero"` // the first of the streak
	Last   []Result  `json:"last"`           // the newest proofs, newest last
	LastAt time.Time `json:"lastAt,omitzero"`

	Level  playbook.Autonomy `json:"level"`  // the effective one
	Limits []machine.Cap     `json:"limits"` // what holds it there; empty at auto

	// Without what the policy said when it was last asked, which may be over by now.
	Own       playbook.Autonomy `json:"-"`
	OwnLimits []machine.Cap     `json:"-"`

	Demoted  bool      `json:"demoted"`
	Changed  time.Time `json:"changed,omitzero"`   // when it was last demoted, or that lifted
	Why      string    `json:"why,omitempty"`      // of the last change
	Proposal string    `json:"proposal,omitempty"` // what a person could do, with the figures; it is never done by itself
}

// Levels are what configuration says of levels now.
type Levels struct {
	Ceiling   playbook.Autonomy
	Services  map[string]playbook.Service // nil: levels of services are not looked at
	Playbooks *playbook.Set
}

// List returns the levers there is a record of, by playbook, service and state;
// empty names select all.
func (t *TrackRecord) List(service, name string, now Levels) []Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []Entry{}
	for id, l := range t.levers {
		if (service != "" && service != id.Service) || (name != "" && name != id.Playbook) {
			continue
		}
		out = append(out, l.view(id, slices.Concat(now.levels(id), l.limits()), t.config))
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Playbook, b.Playbook), cmp.Compare(a.Service, b.Service), cmp.Compare(a.State, b.State), cmp.Compare(a.Lever, b.Lever))
	})
	return out
}

// Of returns one lever as List does, also when there is no record of it yet, and how many
// proofs in a row are missing until the next level is proposed; 0: none, or nothing ever is.
func (t *TrackRecord) Of(id LeverID, now Levels) (Entry, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.levers[id]
	if l == nil {
		l = &leverRecord{}
	}
	e := l.view(id, slices.Concat(now.levels(id), l.limits()), t.config)
	return e, max(0, t.config.ProposeAfter-e.Streak)
}

// DemotedBy counts the levers that are demoted now, by playbook.
func (t *TrackRecord) DemotedBy() map[string]int {
	out := map[string]int{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, l := range t.levers {
		if l.demoted != nil {
			out[id.Playbook]++
		}
	}
	return out
}

// limit is a cap, and whose word it is.
type limit struct {
	machine.Cap

	of limiter
}

// limiter is who sets a limit: that decides what a person can do about it.
type limiter int

const (
	byConfiguration limiter = iota // also of the service
	byPlaybook                     // its document, or the configuration in place of it
	byState                        // the document
	byPolicy
	byLadder
	byAbsence // what it is about is not there
)

// levels are what configuration says of a lever now, each with its place.
func (n Levels) levels(id LeverID) []limit {
	var out []limit
	add := func(level playbook.Autonomy, of limiter, rule string) {
		out = append(out, limit{machine.Cap{Level: level, Rule: rule}, of})
	}
	add(n.Ceiling, byConfiguration, "the configuration")
	own, listed := playbook.Auto, n.Services == nil
	if s, ok := n.Services[id.Service]; ok {
		own, listed = s.Autonomy, true
	}
	if !listed {
		add(playbook.Observe, byAbsence, "service "+id.Service+" is not in the catalog")
	}
	p := n.Playbooks.ByName(id.Playbook)
	if p == nil {
		add(playbook.Observe, byAbsence, "playbook "+id.Playbook+" is not loaded")
		return out
	}
	st := p.State(id.State)
	if st == nil || st.Step != id.Lever {
		add(playbook.Observe, byAbsence, fmt.Sprintf("playbook %s has no state %s with %s any more", id.Playbook, id.State, id.Lever))
		return out
	}
	for _, part := range p.Parts(st, own, n.Playbooks.Override(id.Playbook, id.Service)) {
		switch part.Holder {
		case playbook.HeldByService:
			add(part.Level, byConfiguration, "service "+id.Service)
		case playbook.HeldByBoth:
			add(part.Level, byConfiguration, part.Setting)
		case playbook.HeldByPlaybook:
			add(part.Level, byPlaybook, cmp.Or(part.Setting, "playbook "+id.Playbook))
		default:
			add(part.Level, byState, "state "+id.State)
		}
	}
	return out
}

// limits are the policy's, as it was last asked, and the ladder's own.
func (t *leverRecord) limits() []limit {
	var out []limit
	if t.cap != nil {
		out = append(out, limit{*t.cap, byPolicy})
	}
	if t.demoted != nil {
		out = append(out, limit{machine.Cap{Level: t.demoted.To, Rule: t.demoted.Rule()}, byLadder})
	}
	return out
}

func (t *leverRecord) view(id LeverID, limits []limit, c Config) Entry {
	v := Entry{
		LeverID: id, Figured: t.figures, Streak: t.streak, LastAt: t.lastAt,
		Last: []Result{}, Demoted: t.demoted != nil, Changed: t.changed,
	}
	if t.streak > 0 {
		v.Since = t.since
	}
	for _, o := range t.last {
		v.Last = append(v.Last, o.result)
	}
	v.Level, v.Limits = lowest(limits)
	v.Own, v.OwnLimits = lowest(slices.DeleteFunc(slices.Clone(limits), func(x limit) bool { return x.of == byPolicy }))
	switch {
	case t.demoted != nil:
		v.Why = t.demoted.Rule()
	case t.promoted != nil:
		v.Why = fmt.Sprintf("demotion lifted by %s: %s", t.promoted.By, t.promoted.Reason)
	}
	v.Proposal = v.propose(limits, c.ProposeAfter)
	return v
}

// lowest returns the level under limits, and what holds it there.
func lowest(limits []limit) (level playbook.Autonomy, by []machine.Cap) {
	level, by = playbook.Auto, []machine.Cap{}
	for _, x := range limits {
		level = min(level, x.Level)
	}
	for _, x := range limits {
		if x.Level == level && level < playbook.Auto {
			by = append(by, x.Cap)
		}
	}
	return level, by
}

// propose reports what could be raised, once the figures speak for it: to the next
// level, with everything that holds it down, and not beyond.
func (v Entry) propose(limits []limit, after int) string {
	if after == 0 || v.Level == playbook.Auto || v.Streak < after {
		return ""
	}
	next := v.Level + 1
	var places, also []string
	for _, x := range limits {
		switch {
		case x.Level >= next:
		case x.of == byAbsence:
			return ""
		case x.of == byPlaybook:
			also = append(also, fmt.Sprintf("set playbooks.autonomy: {%s/%s: %s} in the configuration", v.Playbook, v.State, next))
		case x.of == byPolicy:
			also = append(also, "change "+x.Rule)
		case x.of == byLadder:
			also = append(also, fmt.Sprintf("lift the demotion: responder ladder promote %s %s %s --reason ...", v.Playbook, v.Service, v.State))
		default:
			places = append(places, x.Rule)
		}
	}
	if len(places) > 0 {
		also = append([]string{fmt.Sprintf("set autonomy: %s in %s", next, strings.Join(places, " and "))}, also...)
	}
	return fmt.Sprintf("propose %s: %d of %d verified, 0 undone, since %s; %s",
		next, v.Streak, v.Streak, v.Since.UTC().Format(time.DateOnly), strings.Join(also, "; "))
}

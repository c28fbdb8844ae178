package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

const (
	mostWindow = 24 * time.Hour // bounds Options.Window

	// mostPatience bounds the time between two runs that ask and that nobody answers,
	// which doubles with each. Somebody who comes in the morning finds a question.
	mostPatience = 4 * time.Hour
)

// handOver records that people have a run's service, and for which episodes, or that
// nobody answered its question.
func (x *episodes) handOver(service string, e ended) {
	x.mu.Lock()
	defer x.mu.Unlock()
	keys := []asked{{service: service}}
	if e.unanswered != nil {
		keys = nil
		for _, h := range e.unanswered.Line {
			keys = append(keys, asked{service, h.Playbook})
		}
	}
	for _, k := range keys {
		if last, ok := x.people[k]; (!ok || !last.at.After(e.at)) && len(e.firing) > 0 {
			x.people[k] = e
		}
	}
}

// settle records that a run ended and nobody left its question unanswered: what its
// playbooks asked before is over.
func (x *episodes) settle(s machine.Start, end *machine.Ending, at time.Time) {
	if end.Unanswered != nil || end.Into != "" || s.ByHand() || s.Loan != "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range append(slices.Clip(s.Line), machine.Handed{Playbook: s.Playbook}) {
		k := asked{s.Service.Name, h.Playbook}
		if last, ok := x.people[k]; !ok || !last.at.After(at) {
			x.people[k] = ended{at: at}
		}
	}
}

// Ended records at the start that a run has ended, before Load.
func (x *episodes) Ended(s machine.Start, end *machine.Ending, at time.Time) {
	x.settle(s, end, at)
	switch {
	case !end.Outcome.WithPeople():
	case end.Unanswered != nil:
		x.handOver(s.Service.Name, ended{run: s.Run, at: at, firing: end.Released, unanswered: end.Unanswered})
	default:
		x.handOver(s.Service.Name, ended{run: s.Run, at: at, firing: []string{""}}) // not known yet: see Recall
	}
}

// Recall finds, after Load, the episodes of the runs that Ended recorded.
func (x *episodes) Recall() {
	x.mu.Lock()
	defer x.mu.Unlock()
	services := map[string]asked{}
	for k, e := range x.people {
		if k.playbook != "" {
			continue
		}
		services[e.run] = k
		e.firing = nil
		x.people[k] = e
	}
	for id, k := range x.m {
		for _, r := range k.runs {
			if service, ok := services[r.id]; ok && k.firing && k.resolved.IsZero() {
				e := x.people[service]
				e.firing = append(e.firing, id)
				x.people[service] = e
			}
		}
	}
	for _, e := range x.people {
		slices.Sort(e.firing)
	}
}

// withPeople returns why no run of a playbook starts on a service: people have the last
// one, and an alert of it still fires; empty: one may start. What joins an incident that
// was handed over shortly before is theirs, until the window is over. Where nobody
// answered, only the same question waits. before describes the questions that nobody
// answered, where one may start.
func (d *Decision) withPeople(service, playbook string) (why string, before *machine.Unanswered) {
	for _, k := range []asked{{service: service}, {service, playbook}} {
		d.d.mu.Lock()
		e, ok := d.d.people[k]
		d.d.mu.Unlock()
		switch {
		case !ok || !slices.ContainsFunc(e.firing, func(id string) bool { return e.stillHas(d.get(id)) }):
		case d.d.within(e, d.now):
			return d.d.why(e), nil
		case e.unanswered != nil:
			before = &machine.Unanswered{Times: e.unanswered.Times, Since: e.unanswered.Since}
		}
	}
	return "", before
}

// within reports whether the window after a run is still open.
func (d *Dispatcher) within(e ended, now time.Time) bool { return now.Sub(e.at) < d.patience(e) }

// patience is how long after a run none starts on its service: after the second question
// that nobody answers twice the window, and so on.
func (d *Dispatcher) patience(e ended) time.Duration {
	wait := d.o.Window
	for n := 1; e.unanswered != nil && n < e.unanswered.Times && wait < mostPatience; n++ {
		wait = min(2*wait, max(mostPatience, d.o.Window))
	}
	return wait
}

// why is the reason of an alert that waits for the window to be over.
func (d *Dispatcher) why(e ended) string {
	at := func(t time.Time) string { return t.UTC().Format("15:04Z") }
	if e.unanswered != nil {
		return fmt.Sprintf("nobody answered run %s about this service by %s, and another run looks at it from %s on", e.run, at(e.at), at(e.at.Add(d.patience(e))))
	}
	return fmt.Sprintf("people have run %s about this service since %s", e.run, at(e.at))
}

// held returns the reasons of alerts that wait because people have their service,
// where they still have it: nothing would be decided otherwise now.
func (d *Dispatcher) held(now time.Time) map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]bool{}
	for _, e := range d.people {
		if d.has(e, now) {
			out[d.why(e)] = true
		}
	}
	return out
}

// WithPeople returns, by service, the newest run that keeps others from starting, and
// its alerts that fire.
func (d *Dispatcher) WithPeople(now time.Time) map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]string{}
	for k, e := range d.people {
		firing := slices.DeleteFunc(slices.Clone(e.firing), func(id string) bool { return !e.stillHas(d.find(id)) })
		if d.within(e, now) && len(firing) > 0 {
			out[k.service] = max(out[k.service], e.run+" "+strings.Join(firing, " "))
		}
	}
	return out
}

// PeopleHave returns why an alert starts no run of a playbook on a service now: people have
// the last one, and an alert of it still fires; empty: one may start.
func (d *Dispatcher) PeopleHave(service, playbook string, now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range []asked{{service: service}, {service, playbook}} {
		if e, ok := d.people[k]; ok && d.has(e, now) {
			return d.why(e)
		}
	}
	return ""
}

// has reports whether people still have an alert of a run that ended, within its window. It
// needs mu.
func (d *Dispatcher) has(e ended, now time.Time) bool {
	return d.within(e, now) && slices.ContainsFunc(e.firing, func(id string) bool { return e.stillHas(d.find(id)) })
}

// stillHas reports whether the episode fires, and people have it because of the run.
func (e ended) stillHas(k known) bool {
	return e.unanswered != nil && k.firing && k.resolved.IsZero() || k.stillIn(e.run)
}

// Over reports whether alerts that a run had are known, and none of them fires any
// more.
func (x *episodes) Over(run string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	had := false
	for _, k := range x.m {
		if k.stillIn(run) {
			return false
		}
		had = had || slices.ContainsFunc(k.runs, func(r runRef) bool { return r.id == run })
	}
	return had
}

package dispatch

import (
	"slices"

	"github.com/inference-responder/responder/internal/playbook"
)

// Resolved is what Services said of alerts that may start a run, by episode. It
// is asked before the executor's loop decides, since it may ask the cluster.
type Resolved map[string]resolution

type resolution struct {
	services []playbook.Service
	why      string
	err      error
	panicked any
}

// Resolve finds the services of the alerts that may start a run; a nil set: of all
// that fire.
func (d *Dispatcher) Resolve(notes []Note, set *playbook.Set) Resolved {
	found := Resolved{}
	for _, n := range notes {
		if d.o.Blames(Place(n.index, d.offset(n))) {
			continue
		}
		d.resolveSome(found, set, n.data.Alerts[:min(len(n.data.Alerts), d.offset(n)+batchAlerts)][d.offset(n):])
	}
	return found
}

// offset is the alert of a notification that is decided next.
func (d *Dispatcher) offset(n Note) int {
	if n.index != d.cursor.index {
		return 0
	}
	return min(d.cursor.offset, len(n.data.Alerts))
}

func (d *Dispatcher) resolveSome(found Resolved, set *playbook.Set, alerts []playbook.Alert) {
	for _, a := range alerts {
		if a.Status != playbook.Firing {
			continue
		}
		var playbooks []*playbook.Playbook
		if set != nil {
			if playbooks = set.Match(a); len(playbooks) == 0 {
				continue // as most do
			}
		}
		id := a.Episode()
		if _, ok := found[id]; ok {
			continue
		}
		k := d.get(id)
		starts := set == nil || k.resolved.IsZero() && k.startable() && slices.ContainsFunc(playbooks, func(p *playbook.Playbook) bool { return !k.had(p.Name) })
		if starts {
			found[id] = d.resolve(a)
		}
	}
}

// resolve asks for the services of an alert. A panic is kept for the decision,
// where it is counted against the notification.
func (d *Dispatcher) resolve(a playbook.Alert) (r resolution) {
	defer func() { r.panicked = recover() }()
	r.services, r.why, r.err = d.o.Services.Resolve(a)
	return r
}

// resolve returns the services of an alert.
func (d *Decision) resolve(id string) ([]playbook.Service, string, error) {
	r, ok := d.found[id]
	if !ok {
		d.Stale = true // it has become one that may start a run only just now
	}
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.services, r.why, r.err
}

package executor

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// alert decides what becomes of one alert. An episode that once had a run under
// a playbook never gets a second one under it, and one that resolved never
// starts any: a firing notification that arrives afterwards is older than what
// we know, or the same trouble that a run has already dealt with.
func (d *deciding) alert(a playbook.Alert) {
	id := a.Episode()
	k := d.get(id)
	if !d.anew {
		k.seen = d.b.now
	}
	if a.Status != playbook.Firing {
		d.resolved(id, k, a)
		return
	}
	switch {
	case a.StartsAt.After(d.b.now.Add(ahead)):
		// Not remembered: when the clocks agree again, a repeat starts a run.
		d.became(KindSuppressed, a, Dispatched{Reason: fmt.Sprintf(
			"starts %s from now (at %s): is a clock wrong?", short(a.StartsAt.Sub(d.b.now)), a.StartsAt.UTC().Format(time.RFC3339))})
	case !k.resolved.IsZero():
		d.refires(id, k, a)
	default:
		d.firing(id, k, a)
	}
}

// resolved tells the episode's runs.
func (d *deciding) resolved(id string, k known, a playbook.Alert) {
	v := Dispatched{}
	if k.resolved.IsZero() {
		runs := d.runs(id)
		for _, r := range runs {
			d.tellRun(r, a)
		}
		v.Run = idsOf(runs)
		k.resolved = d.b.now
		d.b.resolved = append(d.b.resolved, id)
	} else {
		v.Reason = "known to be resolved"
	}
	k.firing = false
	d.became(KindResolved, a, v)
	d.episodes[id] = k
}

// refires is a firing notification of a resolved episode.
func (d *deciding) refires(id string, k known, a playbook.Alert) {
	runs := d.runs(id)
	age := d.b.now.Sub(k.resolved)
	switch {
	case age < lateWithin:
		d.became(KindRepeated, a, Dispatched{Reason: "late: it resolved " + short(age) + " ago"})
	case len(runs) == 0:
		d.became(KindRepeated, a, Dispatched{Reason: "it resolved before; an episode starts no run after that"})
	default:
		for _, r := range runs {
			d.tellRun(r, a)
		}
		k.resolved, k.firing = time.Time{}, true
		d.became(KindRefired, a, Dispatched{Run: idsOf(runs)})
	}
	d.episodes[id] = k
}

// firing is an episode that fires: new, or known and without a run so far.
func (d *deciding) firing(id string, k known, a playbook.Alert) {
	before := k
	k.firing = true
	d.episodes[id] = k
	playbooks := d.b.set.Match(a)
	if len(playbooks) == 0 && len(k.runs) == 0 {
		d.without(id, before, k, a, KindUnmatched, Dispatched{Reason: "no playbook matches its labels"})
		return
	}
	var left []*playbook.Playbook
	for _, p := range playbooks {
		if !k.had(p.Name) {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		if d.note.data.TruncatedAlerts > 0 { // the group has grown beyond what we are told
			for _, r := range d.runs(id) {
				d.tellRun(r, a)
			}
		}
		d.became(KindRepeated, a, Dispatched{Run: refIDs(k.runs)})
		return
	}
	services, why, err := d.resolve(id, a)
	if err != nil || len(services) != 1 {
		d.noService(id, before, k, a, services, why, err)
		return
	}
	started := false
	for _, p := range left {
		if p.Serves(services[0].Name) {
			d.begin(id, before, a, p, services[0], why)
			started = true
		}
	}
	if !started {
		d.without(id, before, k, a, KindUnmatched, Dispatched{
			Service: services[0].Name, Reason: "the playbooks that match its labels are for other services",
		})
	}
}

// without records that an episode starts no run. When the same was found
// before, it is a repeat.
func (d *deciding) without(id string, before, k known, a playbook.Alert, kind string, v Dispatched) {
	same := before.kind == kind && before.reason == v.Reason && before.firing
	if kind == KindSuppressed && d.note.data.TruncatedAlerts > 0 && !d.anew {
		same = false // the run it may start later must know
	}
	if same && d.anew {
		return
	}
	if same {
		v.Reason = "still " + kind[len("alert."):] + ": " + v.Reason
		d.became(KindRepeated, a, v)
	} else {
		d.became(kind, a, v)
		if kind == KindNoService {
			d.unserved(a, v.Reason)
		}
		k.reason, k.note = v.Reason, d.note.seq
	}
	k.kind = kind
	d.episodes[id] = k
}

func (d *deciding) noService(id string, before, k known, a playbook.Alert, services []playbook.Service, why string, err error) {
	switch {
	case err != nil:
		why = "the catalog cannot say: " + err.Error()
	case why != "":
	case len(services) == 0:
		why = "it belongs to no service of the catalog"
	default:
		why = fmt.Sprintf("it belongs to %d services of the catalog", len(services))
	}
	d.without(id, before, k, a, KindNoService, Dispatched{Reason: why})
}

// begin lets an episode join the open run of a playbook on a service, or start
// one. why is what led to the service, where the alert's labels alone do not.
func (d *deciding) begin(id string, before known, a playbook.Alert, p *playbook.Playbook, svc playbook.Service, why string) {
	v := Dispatched{Playbook: p.Name, Service: svc.Name, Reason: why}
	start := machine.Start{
		Run: d.e.ids.next(d.b.now), Playbook: p.Name, Digest: p.Digest, Service: svc, Alert: a,
		Autonomy: d.e.o.Autonomy, Truncated: d.note.data.TruncatedAlerts > 0, Notification: d.note.seq,
	}
	r := d.b.about(keyOf(start))
	if d.usable(r) {
		d.tellRun(r, a)
		v.Run = r.id
		d.part(id, r.id, p.Name)
		d.became(KindCoalesced, a, v)
		return
	}
	if r != nil {
		v.Run, v.Reason = r.id, "run "+r.id+" on it is set aside: people have to look at it first"
		d.without(id, before, d.episodes[id], a, KindSuppressed, v)
		return
	}
	reason := d.e.pauses.why(svc.Name, p.Name)
	if reason == "" && d.e.countOpen()+len(d.b.runs) >= d.e.o.MaxOpenRuns {
		reason = fmt.Sprintf("%d runs are open already", d.e.o.MaxOpenRuns)
	}
	if reason != "" {
		v.Reason = reason
		d.without(id, before, d.episodes[id], a, KindSuppressed, v)
		return
	}
	if err := d.b.start(start, p, nil); err != nil {
		panic(err) // unreachable unless the machine refuses its own start: the notification is quarantined
	}
	v.Run = start.Run
	d.part(id, start.Run, p.Name)
	d.became(KindMatched, a, v)
}

// part records within the batch that an episode has a part in a run.
func (d *deciding) part(id, run, name string) {
	k := d.episodes[id]
	k.runs = append(k.runs[:len(k.runs):len(k.runs)], runRef{run, name})
	k.kind, k.reason = "", ""
	d.episodes[id] = k
}

func refIDs(refs []runRef) string {
	out := ""
	for i, r := range refs {
		if i > 0 {
			out += " "
		}
		out += r.id
	}
	return out
}

// short writes a duration without seconds nobody needs.
func short(d time.Duration) string {
	if d >= time.Minute {
		return playbook.FormatDuration(d.Round(time.Second))
	}
	return d.Round(100 * time.Millisecond).String()
}

package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// alert decides what becomes of one alert. An episode that has a part in a run
// starts no other one, unless that run released it, and never a second one under
// the same playbook. One that resolved never starts any: a firing notification
// that arrives afterwards is older than what we know, or the same trouble that a
// run has already dealt with.
func (d *Decision) alert(a playbook.Alert) {
	id := a.Episode()
	k := d.get(id)
	if !d.anew {
		k.seen = d.now
	}
	if a.Status != playbook.Firing {
		d.resolved(id, k, a)
		return
	}
	switch {
	case a.StartsAt.After(d.now.Add(ahead)):
		// Not remembered: when the clocks agree again, a repeat starts a run.
		d.became(KindSuppressed, id, a, Record{Reason: fmt.Sprintf(
			"starts %s from now (at %s): is a clock wrong?", short(a.StartsAt.Sub(d.now)), a.StartsAt.UTC().Format(time.RFC3339))})
	case !k.resolved.IsZero():
		d.refires(id, k, a)
	default:
		d.firing(id, k, a)
	}
}

// resolved tells the episode's runs.
func (d *Decision) resolved(id string, k known, a playbook.Alert) {
	v := Record{}
	if k.resolved.IsZero() {
		runs := d.open(id)
		for _, r := range runs {
			d.tell(r, a)
		}
		v.Run = strings.Join(runs, " ")
		k.resolved = d.now
		d.Resolved = append(d.Resolved, id)
	} else {
		v.Reason = "known to be resolved"
	}
	k.firing = false
	d.became(KindResolved, id, a, v)
	d.episodes[id] = k
}

// refires is a firing notification of a resolved episode.
func (d *Decision) refires(id string, k known, a playbook.Alert) {
	runs := d.open(id)
	age := d.now.Sub(k.resolved)
	switch {
	case age < lateWithin:
		d.repeated(id, k, a, Record{Reason: "late: it resolved " + short(age) + " ago"})
	case len(runs) == 0:
		d.repeated(id, k, a, Record{Reason: "it resolved before; an episode starts no run after that"})
	default:
		for _, r := range runs {
			d.tell(r, a)
		}
		k.resolved, k.firing = time.Time{}, true
		k.news()
		d.episodes[id] = k
		d.became(KindRefired, id, a, Record{Run: strings.Join(runs, " ")})
	}
}

// repeated records that an episode was sent again and nothing comes of it.
func (d *Decision) repeated(id string, k known, a playbook.Alert, v Record) {
	if !d.anew {
		k.again(d.now)
	}
	d.episodes[id] = k
	d.became(KindRepeated, id, a, v)
}

// firing is an episode that fires: new, or known and without a run so far.
func (d *Decision) firing(id string, k known, a playbook.Alert) {
	before := k
	k.firing = true
	d.episodes[id] = k
	playbooks := d.set.Match(a)
	if len(playbooks) == 0 && len(k.runs) == 0 {
		d.without(id, before, k, a, KindUnmatched, Record{Reason: "no playbook matches its labels"})
		return
	}
	left := d.left(k, playbooks)
	if len(left) == 0 {
		if d.note.data.TruncatedAlerts > 0 { // the group has grown beyond what we are told
			for _, r := range d.open(id) {
				d.tell(r, a)
			}
		}
		d.repeated(id, k, a, Record{Run: refIDs(k.runs)})
		return
	}
	services, why, err := d.resolve(id)
	if err != nil || len(services) != 1 {
		d.noService(id, before, k, a, services, why, err)
		return
	}
	left = slices.DeleteFunc(left, func(p *playbook.Playbook) bool { return !p.Serves(services[0].Name) })
	if len(left) == 0 {
		d.without(id, before, k, a, KindUnmatched, Record{
			Service: services[0].Name, Reason: "the playbooks that match its labels are for other services",
		})
		return
	}
	d.begin(id, before, a, left, services[0], why)
}

// left returns the playbooks under which an episode may start a run.
func (d *Decision) left(k known, playbooks []*playbook.Playbook) []*playbook.Playbook {
	if !k.startable() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(playbooks), func(p *playbook.Playbook) bool { return k.had(p.Name) })
}

// without records that an episode starts no run. When the same was found
// before, it is a repeat.
func (d *Decision) without(id string, before, k known, a playbook.Alert, kind string, v Record) {
	same := before.same(kind, v.Reason)
	if d.anew && (same || v.Retry && before.retry) { // the words may differ by a time
		return
	}
	truncated := kind == KindSuppressed && d.note.data.TruncatedAlerts > 0 // the run it may start later must know
	if same && !truncated {
		v.Reason = "still " + kind[len("alert."):] + ": " + v.Reason
		d.repeated(id, k, a, v)
		return
	}
	d.became(kind, id, a, v)
	d.d.logOnce(kind, a, v.Reason)
	if kind == KindNoService || v.Retry {
		d.unserved(a, v.Reason)
	}
	if same {
		k.again(d.now)
	} else {
		k.news()
	}
	v.Notification = d.note.seq
	k.became(kind, v)
	d.episodes[id] = k
}

// mostLogged bounds the names of alerts that are logged.
const mostLogged = 1000

// logOnce logs, once for each name of an alert, that such alerts start no run for want
// of a playbook or of a service.
func (d *Dispatcher) logOnce(kind string, a playbook.Alert, reason string) {
	name := a.Labels["alertname"]
	if kind != KindUnmatched && kind != KindNoService || len(d.logged) >= mostLogged || d.logged[kind+name] {
		return
	}
	d.logged[kind+strings.Clone(name)] = true
	d.o.Log.Info("alert starts no run", "alert", name, "reason", reason)
}

func (d *Decision) noService(id string, before, k known, a playbook.Alert, services []playbook.Service, why string, err error) {
	switch {
	case err != nil: // which is no answer: it is asked again
		d.without(id, before, k, a, KindSuppressed, Record{Reason: "the catalog cannot say: " + err.Error(), Retry: true})
		return
	case why != "":
	case len(services) == 0:
		why = "it belongs to no service of the catalog"
	default:
		why = fmt.Sprintf("it belongs to %d services of the catalog", len(services))
	}
	d.without(id, before, k, a, KindNoService, Record{Reason: why})
}

// begin adds an episode to the open run about its service, or starts a run of the
// first of the playbooks: one incident has one run. why is what led to the service,
// where the alert's labels alone do not.
func (d *Decision) begin(id string, before known, a playbook.Alert, playbooks []*playbook.Playbook, svc playbook.Service, why string) {
	p, others := preferred(playbooks)
	v := Record{Playbook: p.Name, Service: svc.Name, Reason: why}
	if d.d.crowded(d.now) {
		v.Reason, v.Retry = fmt.Sprintf("%d alerts that had a run are remembered and fire still, the most there may be: does somebody make alerts up? Those that resolve make room", mostActed), true
		d.without(id, before, d.episodes[id], a, KindSuppressed, v)
		return
	}
	if r, ok := d.runs.About(p.Name, svc.Name); ok {
		d.join(id, before, a, p, r, v)
		return
	}
	held, unanswered := d.withPeople(svc.Name, p.Name)
	if held != "" {
		v.Reason, v.Retry = held, true
		d.without(id, before, d.episodes[id], a, KindSuppressed, v)
		return
	}
	start := machine.Start{
		Playbook: p.Name, Digest: p.Digest, Service: svc, Alert: a,
		Truncated: d.note.data.TruncatedAlerts > 0, Notification: d.note.seq, Unanswered: unanswered,
	}
	run, no := d.runs.Start(start, p)
	if no.Why != "" {
		v.Reason, v.Retry = no.Why, no.Retry
		d.without(id, before, d.episodes[id], a, KindSuppressed, v)
		return
	}
	v.Run = run
	if len(others) > 0 {
		v.Reason = clauses(why, "not taken, since one alert starts one run: playbook "+strings.Join(others, ", "))
	}
	d.part(id, run, p.Name, true)
	d.became(KindMatched, id, a, v)
}

// preferred returns the playbook that is taken where several match, and the names
// of the others: one's own before those that are shipped, then by name.
func preferred(playbooks []*playbook.Playbook) (p *playbook.Playbook, others []string) {
	at := max(0, slices.IndexFunc(playbooks, func(p *playbook.Playbook) bool { return !p.Shipped }))
	for i, other := range playbooks {
		if i != at {
			others = append(others, other.Name)
		}
	}
	return playbooks[at], others
}

// join adds an episode to an open run, which may be of another playbook than the
// one that matches: its evidence says what the incident is.
func (d *Decision) join(id string, before known, a playbook.Alert, p *playbook.Playbook, r Run, v Record) {
	v.Run = r.ID
	switch {
	case !r.Usable:
		v.Reason = "run " + r.ID + " on it is quarantined: people have to look at it first"
		d.without(id, before, d.episodes[id], a, KindSuppressed, v)
		return
	case r.Full:
		d.tell(r.ID, a)
		v.Reason, v.Retry = fmt.Sprintf("run %s about this service has %d alerts already, and takes no more", r.ID, machine.MostEpisodes), true
		d.without(id, before, d.episodes[id], a, KindSuppressed, v)
		return
	case r.Closing && r.Playbook != p.Name: // it would end without having looked at the alert
		v.Reason, v.Retry = "run "+r.ID+" about this service is about to end with people", true
		d.without(id, before, d.episodes[id], a, KindSuppressed, v)
		return
	case r.Playbook != p.Name:
		v.Reason = clauses(v.Reason, fmt.Sprintf("playbook %s matches, and a run of playbook %s is open about the service", p.Name, r.Playbook))
	}
	v.Playbook = r.Playbook
	d.tell(r.ID, a)
	d.part(id, r.ID, r.Playbook, false)
	d.became(KindCoalesced, id, a, v)
}

// clauses joins what is known of a reason.
func clauses(first, second string) string {
	if first == "" {
		return second
	}
	return first + "; " + second
}

// part records within the batch that an episode has a part in a run.
func (d *Decision) part(id, run, name string, started bool) {
	k := d.episodes[id]
	k.runs = with(k.runs, runRef{id: run, playbook: name, started: started})
	k.became("", Record{Notification: d.note.seq})
	k.news()
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

// mostStrays is how many reasons why alerts belong to no service are told one
// by one in a batch. A burst may have one for each alert.
const mostStrays = 3

// unserved is a message about alerts of one batch that belong to no service: a
// burst of them is few messages.
type unserved struct {
	at   int // among the batch's notices
	more int
	why  string
}

// unserved tells people of an alert that belongs to no service.
func (d *Decision) unserved(a playbook.Alert, reason string) {
	key, why := reason, reason
	if d.strays[reason] == nil && len(d.strays) >= mostStrays {
		key, why = "", "several reasons, see responder audit list; the first is: "+reason
	}
	if u := d.strays[key]; u != nil {
		u.more++
		first := &d.Notices[u.at]
		first.Text = fmt.Sprintf("alert %s and %d more start no run: %s", first.Alert.Labels["alertname"], u.more, u.why)
		return
	}
	if d.strays == nil {
		d.strays = map[string]*unserved{}
	}
	d.strays[key] = &unserved{at: len(d.Notices), why: why}
	d.Notices = append(d.Notices, machine.Effect{
		Key: fmt.Sprintf("dispatch/%s/no-service/%d", a.Episode(), d.note.seq), Alert: a,
		Text: fmt.Sprintf("alert %s starts no run: %s", a.Labels["alertname"], why),
	})
}

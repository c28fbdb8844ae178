package replay

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// silence is how long after its last mention an alert that nobody said has resolved
// is taken to fire: Alertmanager repeats every four hours, unless it is told otherwise.
const silence = 5 * time.Hour

// stillBelieved is how long after it was last mentioned a suppressed alert is asked
// about again, as in the service.
const stillBelieved = 24 * time.Hour

// timeline is the alerts and runs of one service, in the order of time. One goroutine
// owns it.
type timeline struct {
	o        *Options
	set      *playbook.Set
	archive  *archive
	service  string
	episodes map[string]*episode

	d     *dispatch.Dispatcher
	now   time.Time
	notes uint64
	runs  []*run // in the order of their beginnings

	became  map[string]fate            // by episode
	told    map[string]machine.Telling // by the text of once
	waiting map[string]bool            // episodes that are suppressed and decided again
	again   time.Time                  // when; zero: when a run ends
	people  time.Time                  // when the last run ended with people
	err     error                      // the machine refused what it must not
}

// fate is what became of an episode.
type fate struct {
	kind string // of the record
	dispatch.Record
}

func newTimeline(o *Options, set *playbook.Set, a *archive, s *selection, service string) *timeline {
	t := &timeline{
		o: o, set: set, archive: a, service: service, episodes: s.episodes,
		became: map[string]fate{}, told: map[string]machine.Telling{}, waiting: map[string]bool{},
	}
	t.d = dispatch.New(dispatch.Options{
		Services: s.services, Window: o.Window, Log: slog.New(slog.DiscardHandler), Blames: func(string) bool { return false },
	})
	return t
}

// play dispatches the notifications, and lets the runs go on until the present.
func (t *timeline) play(ctx context.Context, notes []playbook.Notification, played func()) error {
	for _, n := range notes {
		if err := t.advance(ctx, n.ReceivedAt); err != nil {
			return err
		}
		if err := t.dispatch(n); err != nil {
			return err
		}
		played()
	}
	if err := t.advance(ctx, t.o.Now); err != nil {
		return err
	}
	for _, r := range t.runs {
		if !r.over() {
			r.end = end{at: t.o.Now, kind: EndPresent, state: r.s.Current, message: "it would go on after the present"}
		}
	}
	return nil
}

// advance lets what is due happen, up to a time.
func (t *timeline) advance(ctx context.Context, until time.Time) error {
	for {
		var next *run
		at := until
		for _, r := range t.runs {
			if due, ok := r.due(t.now); ok && !due.After(at) && (next == nil || due.Before(at)) {
				next, at = r, due
			}
		}
		if asks := len(t.waiting) > 0 && !t.again.IsZero() && !t.again.After(at); asks {
			t.now = later(t.now, t.again)
			if err := t.reconsider(); err != nil {
				return err
			}
			continue
		}
		t.now = later(t.now, at)
		if next == nil {
			return nil
		}
		if err := t.turn(ctx, next); err != nil {
			return err
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// turn does what a run owes now.
func (t *timeline) turn(ctx context.Context, r *run) error {
	c := machine.Command{Kind: machine.CmdTick}
	if e, owed := machine.Pending(r.s); owed {
		out, done := r.answer(ctx, e, t.now)
		if ctx.Err() != nil {
			r.end = end{} // what it found is not what was there
			return ctx.Err()
		}
		if !done {
			return nil
		}
		c = machine.Command{Kind: machine.CmdOutcome, Effect: e.Key, Outcome: &out}
	} else if r.s.Phase == machine.PhaseDeciding {
		r.end = end{at: t.now, kind: EndAsked, state: r.s.Current}
		return nil
	}
	head := r.s.Head
	if err := t.do(r, c); err != nil {
		return fmt.Errorf("run %s of playbook %s: %w", r.id, r.s.Start.Playbook, err)
	}
	if r.s.Head == head && !r.over() { // unreachable: what is due has an effect
		r.end = end{at: t.now, kind: EndUnknown, state: r.s.Current, message: "nothing makes the run go on"}
	}
	return nil
}

// do decides a command to a run, and what follows for others.
func (t *timeline) do(r *run, c machine.Command) error {
	c.Now = t.now
	events, err := t.decide(r, &c)
	next := fold(r.s, events)
	if to := divertOf(events); to != "" && !r.over() {
		into, why := t.divert(next, to)
		if why != "" {
			c.NoDivert = why
			events, err = t.decide(r, &c)
		} else {
			ending := *events[len(events)-1].Ending
			ending.Into = into
			events[len(events)-1].Ending = &ending
		}
		next = fold(r.s, events)
	}
	ended := next.Phase == machine.PhaseEnded && r.s.Phase != machine.PhaseEnded
	r.noted(next, events)
	for once, at := range next.Told {
		if was, ok := t.told[once]; !ok || was.Run == r.id || at.After(was.At) {
			t.told[once] = machine.Telling{Run: r.id, At: at}
		}
	}
	t.d.Note(next, events)
	if ended && next.Ending.Outcome.WithPeople() {
		t.people = t.now
	}
	if ended || r.over() && !next.Firing() {
		t.close(r)
	}
	return err
}

// close lets no further alert join a run. What waited for that is decided again.
func (t *timeline) close(r *run) {
	if !r.closed {
		r.closed = true
		t.again = t.now
	}
}

func fold(s machine.State, events []machine.Event) machine.State {
	for _, e := range events {
		s = machine.Evolve(s, e)
	}
	return s
}

// decide decides a command; what another run of the service has told already is told
// once only.
func (t *timeline) decide(r *run, c *machine.Command) ([]machine.Event, error) {
	for {
		events, err := machine.Decide(r.s, *c)
		i := slices.IndexFunc(events, func(e machine.Event) bool {
			by, told := t.told[e.Once]
			_, known := c.Told[e.Once]
			return e.Kind == machine.EffectStarted && e.Once != "" && told && !known && by.Run != r.id && t.now.Sub(by.At) < machine.OnceWithin
		})
		if i < 0 {
			return events, err
		}
		more := map[string]machine.Telling{events[i].Once: t.told[events[i].Once]}
		maps.Copy(more, c.Told)
		c.Told = more
	}
}

// divertOf returns the playbook that a run is handed over to; empty: it is not.
func divertOf(events []machine.Event) string {
	if n := len(events); n > 0 && events[n-1].Kind == machine.RunEnded {
		return events[n-1].Ending.Divert
	}
	return ""
}

// divert hands a run over; why is why nobody can take over.
func (t *timeline) divert(from machine.State, name string) (into, why string) {
	p := t.set.ByName(name)
	switch {
	case p == nil:
		return "", "that playbook is not loaded"
	case !p.Serves(from.Start.Service.Name):
		return "", "that playbook is not for service " + from.Start.Service.Name
	}
	for s := from.Start; ; s = t.byID(s.DivertedFrom).s.Start {
		if s.Playbook == name {
			return "", "that playbook was tried already"
		}
		if s.DivertedFrom == "" {
			break
		}
	}
	start, also := from.Successor()
	start.Playbook, start.Digest = p.Name, p.Digest
	return t.begin(start, p, also), ""
}

// begin starts a run, with further alerts of it.
func (t *timeline) begin(start machine.Start, p *playbook.Playbook, also []playbook.Alert) string {
	start.Run = fmt.Sprintf("%s#%d", t.service, len(t.runs)+1)
	start.Autonomy, start.Override = t.o.Autonomy, t.set.Override(p.Name, start.Service.Name)
	r := &run{id: start.Run, first: t.now, past: &past{archive: t.archive, now: t.clock, failed: map[question]error{}}}
	r.s.Playbook = p
	d := step.Deps{Querier: r.past.querier(), Services: t.o.Services, Now: t.clock}
	if t.o.GPUs != nil && d.Querier != nil {
		d.GPUs = t.o.GPUs(d.Querier, t.clock)
	}
	r.steps = steps(d, t.o.Assumed)
	t.runs = append(t.runs, r)
	if err := t.do(r, machine.Command{Kind: machine.CmdStart, Start: &start, Playbook: p}); err != nil {
		t.err = err
	}
	for i := range also {
		if err := t.do(r, machine.Command{Kind: machine.CmdAlert, Alert: &also[i]}); err != nil {
			t.err = err
		}
	}
	return r.id
}

// clock returns the time that the timeline has reached.
func (t *timeline) clock() time.Time { return t.now }

func (t *timeline) byID(id string) *run {
	i := slices.IndexFunc(t.runs, func(r *run) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return t.runs[i]
}

// open reports whether an alert may join a run. One that came to a change stays open
// as long as its alerts fire.
func (t *timeline) open(r *run) bool {
	if r.closed || !r.over() {
		return !r.closed
	}
	for id := range r.s.Episodes.All() {
		if e := t.episodes[id]; e != nil && (!e.resolved.IsZero() || t.now.Sub(e.last) < silence) {
			return true // it is told when they resolve
		}
	}
	return false
}

// dispatch decides what becomes of the alerts of a notification.
func (t *timeline) dispatch(n playbook.Notification) error {
	t.now = later(t.now, n.ReceivedAt)
	note := []dispatch.Note{dispatch.NewNote(t.notes, n)}
	for !t.d.Decided(t.notes) {
		d := t.d.Decide(t, t.now, t.set, t.d.Resolve(note, nil))
		d.Notifications(note)
		for _, rec := range d.Records() {
			r, err := dispatch.DecodeRecord(rec)
			if err != nil {
				return err
			}
			t.record(rec.Kind, r)
		}
		d.Commit()
		if t.err != nil {
			return t.err
		}
	}
	t.notes++
	return nil
}

// record takes what became of alerts.
func (t *timeline) record(kind string, r dispatch.Record) {
	for _, id := range r.Episodes {
		switch kind {
		case dispatch.KindMatched, dispatch.KindCoalesced, dispatch.KindUnmatched, dispatch.KindNoService, dispatch.KindQuarantined:
			t.became[id] = fate{kind, r}
			delete(t.waiting, id)
		case dispatch.KindSuppressed:
			t.became[id] = fate{kind, r}
			t.waiting[id] = true
			t.schedule()
		case dispatch.KindResolved:
			delete(t.waiting, id)
			if _, ok := t.became[id]; !ok {
				r.Reason = "only its end was told"
				t.became[id] = fate{kind, r}
			}
		}
	}
}

// schedule sets when suppressed alerts are decided again: when people no longer have
// the service, else when a run ends.
func (t *timeline) schedule() {
	t.again = time.Time{}
	if at := t.people.Add(t.o.Window); !t.people.IsZero() && at.After(t.now) {
		t.again = at
	}
}

// reconsider decides suppressed alerts again, as the service does.
func (t *timeline) reconsider() error {
	n := playbook.Notification{Status: playbook.Firing, Version: "4", ReceivedAt: t.now}
	for _, id := range slices.Sorted(maps.Keys(t.waiting)) {
		e := t.episodes[id]
		if t.now.Sub(e.last) >= stillBelieved {
			delete(t.waiting, id)
			continue
		}
		a := e.alert
		a.Status = playbook.Firing
		n.Alerts = append(n.Alerts, a)
	}
	t.schedule()
	if len(n.Alerts) == 0 {
		return nil
	}
	return t.dispatch(n)
}

// About implements dispatch.Runs.
func (t *timeline) About(playbook, _ string) (dispatch.Run, bool) {
	var found *run
	for _, r := range t.runs {
		if t.open(r) && (found == nil || r.s.Start.Playbook == playbook) {
			found = r
		}
	}
	return standing(found)
}

// Open implements dispatch.Runs.
func (t *timeline) Open(id string) (dispatch.Run, bool) {
	if r := t.byID(id); r != nil && !r.closed {
		return standing(r)
	}
	return dispatch.Run{}, false
}

func standing(r *run) (dispatch.Run, bool) {
	if r == nil {
		return dispatch.Run{}, false
	}
	return dispatch.Run{ID: r.id, Playbook: r.s.Start.Playbook, Usable: true, Closing: r.s.Closing != nil}, true
}

// Tell implements dispatch.Runs.
func (t *timeline) Tell(id string, a playbook.Alert, truncated bool) {
	if err := t.do(t.byID(id), machine.Command{Kind: machine.CmdAlert, Alert: &a, Truncated: truncated}); err != nil {
		t.err = err
	}
}

// Start implements dispatch.Runs.
func (t *timeline) Start(s machine.Start, p *playbook.Playbook) (string, dispatch.Refusal) {
	return t.begin(s, p, nil), dispatch.Refusal{}
}

// Full implements dispatch.Runs.
func (t *timeline) Full() bool { return false }

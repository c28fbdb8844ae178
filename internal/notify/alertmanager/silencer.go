package alertmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/playbook"
)

// The journal's streams, and the kinds of records that the silencer writes.
const (
	runStreams    = "run/"
	controlStream = "control"
	createdKind   = "silence.created" // record
	endedKind     = "silence.ended"   // record
)

const (
	lease = 10 * time.Minute // longest time that an alert stays silent after this service died
	look  = 30 * time.Second // between two looks at the silences
)

// Runs reads runs. Its methods may be called concurrently.
type Runs interface {
	RunState(id string) (machine.State, bool)
}

// SilencerOptions configure a [Silencer]. All are required.
type SilencerOptions struct {
	Silences *Silences
	Journal  *audit.Journal
	Runs     Runs
	// Admit takes in a notification that Alertmanager did not send.
	Admit func(context.Context, playbook.Notification) error
	Link  notify.Link
	Log   *slog.Logger
	Now   func() time.Time
}

// Silencer silences the alerts of a run while a change made for it takes effect
// and is proven. Before and after, when somebody may have to act, they are
// heard. Runs never wait for it: it follows the journal and brings the silences
// in line, also after a crash.
//
// Alertmanager tells nobody, not even this service, what resolves in silence. So
// at the end of a silence it is asked whether the alert still fires, and an
// alert that does not is admitted as resolved.
type Silencer struct {
	o SilencerOptions

	mine map[string]map[string]Silence // by run and episode
	off  map[string]bool               // run and episode whose alert is not silenced again
	next uint64                        // position in the log
}

// NewSilencer returns a silencer. Nothing happens before Run.
func NewSilencer(o SilencerOptions) *Silencer { return &Silencer{o: o} }

// record is what the journal keeps of a silence.
type record struct {
	Run     string    `json:"run"`
	Episode string    `json:"episode"`
	ID      string    `json:"id"` // at the Alertmanager
	Until   time.Time `json:"until"`
}

// Run follows the journal until ctx ends. The silences that are then in force
// stay: the next start takes them over, and without one they expire. open are
// the runs that have not ended.
func (s *Silencer) Run(ctx context.Context, open []machine.State) error {
	changed, end := s.o.Journal.Watch()
	defer end()
	s.mine, s.off, s.next = map[string]map[string]Silence{}, map[string]bool{}, s.o.Journal.Size()
	tick := time.NewTicker(look)
	defer tick.Stop()
	dirty, adopted := map[string]bool{}, false
	for _, st := range open {
		dirty[st.Start.Run] = true
	}
	for {
		adopted = adopted || s.adopt(ctx, dirty)
		for run := range dirty {
			s.reconcile(ctx, run)
		}
		clear(dirty)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			s.read(dirty)
		case <-tick.C:
			s.read(dirty)
			for run := range s.mine {
				dirty[run] = true
			}
		}
	}
}

// adopt takes over the silences of an earlier process. Those of runs that this
// journal does not know belong to somebody else.
func (s *Silencer) adopt(ctx context.Context, dirty map[string]bool) bool {
	found, err := s.o.Silences.List(ctx)
	if err != nil {
		s.o.Log.Warn("silences not listed, retrying", "err", err)
		return false
	}
	for _, f := range found {
		st, ok := s.o.Runs.RunState(f.Run)
		if !ok {
			continue
		}
		for key, ep := range st.Episodes.All() {
			if sameLabels(ep.Alert.Labels, f.Labels) {
				s.keep(f.Run, key, f)
				dirty[f.Run] = true
			}
		}
	}
	return true
}

func sameLabels(alert, silence map[string]string) bool {
	n := 0
	for name, value := range alert {
		if value == "" {
			continue
		}
		if n++; silence[name] != value {
			return false
		}
	}
	return n == len(silence)
}

// read marks the runs that changed since the last call.
func (s *Silencer) read(dirty map[string]bool) {
	for rec, err := range s.o.Journal.Log(s.next, runStreams) {
		if errors.Is(err, audit.ErrArchived) {
			s.next = rec.Seq + 1
			continue
		}
		if err != nil {
			s.o.Log.Error("silencer cannot follow the journal, retrying", "err", err)
			return
		}
		s.next = rec.Seq + 1
		run, ok := strings.CutPrefix(rec.Stream, runStreams)
		if !ok {
			continue
		}
		switch machine.EventKind(rec.Kind) {
		case machine.Applied, machine.Declined, machine.Settling, machine.Settled, machine.Sampled, machine.Verified, machine.VerifyEnded, machine.Kept, machine.RunHeld, machine.RunEnded:
			dirty[run] = true
		}
	}
}

// quiet reports whether nobody has to act on the run's alerts now. A change that
// waits for its merge is none yet: people may be who it waits for.
func quiet(st machine.State) bool {
	return (st.Phase == machine.PhaseSettling || st.Phase == machine.PhaseVerifying) && st.Lever != nil && st.Lever.Applied && st.Lever.Waits == ""
}

// reconcile brings the silences of a run in line with its state.
func (s *Silencer) reconcile(ctx context.Context, run string) {
	st, ok := s.o.Runs.RunState(run)
	wanted := ok && quiet(st)
	for key, old := range s.mine[run] {
		if ep := st.Episodes.Get(key); !wanted || ep == nil || !ep.Firing {
			s.end(ctx, run, key, old, ep)
		}
	}
	if !wanted {
		if st.Phase == machine.PhaseEnded {
			for key := range st.Episodes.All() {
				delete(s.off, run+" "+key)
			}
		}
		return
	}
	for key, ep := range st.Episodes.All() {
		old, have := s.mine[run][key]
		switch {
		case !ep.Firing || s.off[run+" "+key]:
		case !have:
			s.create(ctx, run, key, ep.Alert)
		case time.Until(old.EndsAt) < lease/2:
			s.extend(ctx, run, key, old)
		}
	}
}

func (s *Silencer) create(ctx context.Context, run, key string, a playbook.Alert) {
	made, err := s.o.Silences.Create(ctx, Request{Run: run, Link: s.o.Link.Run(run), Labels: a.Labels, For: lease})
	if err != nil {
		s.refused(run, key, err)
		return
	}
	s.keep(run, key, made)
	// Recorded after its creation, which returns its ID. After a crash in between,
	// adopt finds the silence by the run in its comment.
	s.record(ctx, createdKind, record{Run: run, Episode: key, ID: made.ID, Until: made.EndsAt})
}

func (s *Silencer) extend(ctx context.Context, run, key string, old Silence) {
	longer, err := s.o.Silences.Extend(ctx, old.ID, lease)
	if err != nil {
		s.refused(run, key, err)
		return
	}
	s.keep(run, key, longer)
}

// refused handles a silence that was not created or extended. One that a person
// ended, or that is too broad, is not tried again in this run.
func (s *Silencer) refused(run, key string, err error) {
	var e *fault.Error
	if errors.As(err, &e) && (e.Reason == fault.Conflict || e.Reason == fault.Invalid || e.Reason == fault.NotFound) {
		s.off[run+" "+key] = true
		s.forget(run, key)
	}
	s.o.Log.Warn("alert is not silenced", "run", run, "alert", key, "err", err)
}

// end ends a silence and finds out whether its alert resolved meanwhile. What
// fails is tried again at the next look.
func (s *Silencer) end(ctx context.Context, run, key string, old Silence, ep *machine.Episode) {
	if err := s.o.Silences.Expire(ctx, old.ID); err != nil {
		s.o.Log.Warn("silence not ended, retrying", "run", run, "alert", key, "err", err)
		return
	}
	if ep != nil && ep.Firing {
		firing, err := s.o.Silences.Firing(ctx, old.Labels)
		if err == nil && !firing {
			err = s.o.Admit(ctx, s.resolved(run, ep.Alert))
		}
		if err != nil {
			s.o.Log.Warn("whether the alert resolved in silence is unknown, retrying", "run", run, "alert", key, "err", err)
			return
		}
	}
	s.forget(run, key)
	s.record(ctx, endedKind, record{Run: run, Episode: key, ID: old.ID, Until: s.o.Now().UTC()})
}

// resolved returns the notification that Alertmanager did not send.
func (s *Silencer) resolved(run string, a playbook.Alert) playbook.Notification {
	a.Status, a.EndsAt = playbook.Resolved, s.o.Now().UTC()
	return playbook.Notification{
		Receiver: "responder", Status: playbook.Resolved, GroupKey: "silence/" + run, Version: "4",
		Reason: "resolved while silenced", Alerts: []playbook.Alert{a}, Sender: "silence",
	}
}

func (s *Silencer) keep(run, key string, made Silence) {
	if s.mine[run] == nil {
		s.mine[run] = map[string]Silence{}
	}
	s.mine[run][key] = made
}

func (s *Silencer) forget(run, key string) {
	delete(s.mine[run], key)
	if len(s.mine[run]) == 0 {
		delete(s.mine, run)
	}
}

func (s *Silencer) record(ctx context.Context, kind string, r record) {
	data, err := json.Marshal(r)
	if err == nil {
		_, err = s.o.Journal.Append(ctx, audit.Append{
			Stream: controlStream, After: audit.Any, Records: []audit.Record{{Kind: kind, Time: s.o.Now().UTC(), Data: data}},
		})
	}
	if err != nil {
		s.o.Log.Error("silence could not be recorded", "run", r.Run, "err", fmt.Errorf("%s: %w", kind, err))
	}
}

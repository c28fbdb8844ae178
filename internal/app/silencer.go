package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/playbook"
)

// Kinds of records that the silencer writes to the control stream.
const (
	silenceCreatedKind = "silence.created" // silenceRecord
	silenceEndedKind   = "silence.ended"   // silenceRecord
)

const (
	silenceLease = 10 * time.Minute // an alert is silent for so long at most after this service died
	silenceLook  = 30 * time.Second // between two looks at what is silenced
)

// silencer quiets the alerts of a run while a change made for it takes effect
// and is proven. Before and after, when somebody may have to act, they are
// heard. Runs never wait for it: it follows the journal, and brings what it
// finds at the Alertmanager in line, also after a crash.
//
// What resolves in silence Alertmanager tells nobody, not even this service. So
// at a silence's end it is asked whether the alert is still there, and what it
// no longer has is taken in as resolved.
type silencer struct {
	silences *notify.Silences
	journal  *audit.Journal
	runs     runStates
	admit    func(context.Context, playbook.Notification) error
	link     linker
	log      *slog.Logger
	now      func() time.Time

	mine map[string]map[string]notify.Silence // by run and episode
	off  map[string]bool                      // run and episode that a person wants to hear
	next uint64                               // position in the log
}

// runStates is what the silencer reads of runs.
type runStates interface {
	RunState(id string) (machine.State, bool)
}

// silence runs the silencer over the service's runs, once they are loaded.
func (s *Service) silence(ctx context.Context) error {
	if !s.library.await(ctx) {
		return nil
	}
	open := true
	quiet := &silencer{
		silences: s.world.Silences, journal: s.journal, runs: s.executor, admit: s.intake.Admit,
		link: linker(s.externalURL), log: s.log, now: s.world.Now,
	}
	return quiet.run(ctx, s.executor.Runs(executor.Filter{Open: &open}))
}

// silenceRecord is what the journal keeps of a silence.
type silenceRecord struct {
	Run     string    `json:"run"`
	Episode string    `json:"episode"`
	ID      string    `json:"id"` // at the Alertmanager
	Until   time.Time `json:"until"`
}

// run follows the journal until ctx is done. Silences that are then in force
// stay: the next start takes them over, and without one they end by themselves.
// open are the runs that have not ended.
func (s *silencer) run(ctx context.Context, open []machine.State) error {
	changed, end := s.journal.Watch()
	defer end()
	s.mine, s.off, s.next = map[string]map[string]notify.Silence{}, map[string]bool{}, s.journal.Size()
	tick := time.NewTicker(silenceLook)
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

// adopt finds the silences of an earlier life. Those of runs that this journal
// does not know are somebody else's.
func (s *silencer) adopt(ctx context.Context, dirty map[string]bool) bool {
	found, err := s.silences.List(ctx)
	if err != nil {
		s.log.Warn("silences cannot be listed, it is tried again", "err", err)
		return false
	}
	for _, f := range found {
		st, ok := s.runs.RunState(f.Run)
		if !ok {
			continue
		}
		for key, ep := range st.Episodes {
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

// read notes which runs moved since the last call.
func (s *silencer) read(dirty map[string]bool) {
	for rec, err := range s.journal.Log(s.next) {
		if err != nil {
			s.log.Error("silencer cannot follow the journal, it is tried again", "err", err)
			return
		}
		s.next = rec.Seq + 1
		run, ok := strings.CutPrefix(rec.Stream, runStreams)
		if !ok {
			continue
		}
		switch machine.EventKind(rec.Kind) {
		case machine.Applied, machine.Declined, machine.Settling, machine.Settled, machine.Sampled, machine.Verified, machine.VerifyEnded, machine.RunHeld, machine.RunEnded:
			dirty[run] = true
		}
	}
}

// quiet reports whether nobody has to act on the run's alerts now. A change that
// waits for its merge is none yet: people may be who it waits for.
func quiet(st machine.State) bool {
	return (st.Phase == machine.PhaseSettling || st.Phase == machine.PhaseVerifying) && st.Lever != nil && st.Lever.Applied && st.Lever.Waits == ""
}

// reconcile makes the silences of a run what they should be.
func (s *silencer) reconcile(ctx context.Context, run string) {
	st, ok := s.runs.RunState(run)
	wanted := ok && quiet(st)
	for key, old := range s.mine[run] {
		if ep := st.Episodes[key]; !wanted || ep == nil || !ep.Firing {
			s.end(ctx, run, key, old, ep)
		}
	}
	if !wanted {
		if st.Phase == machine.PhaseEnded {
			for key := range st.Episodes {
				delete(s.off, run+" "+key)
			}
		}
		return
	}
	for key, ep := range st.Episodes {
		old, have := s.mine[run][key]
		switch {
		case !ep.Firing || s.off[run+" "+key]:
		case !have:
			s.create(ctx, run, key, ep.Alert)
		case time.Until(old.EndsAt) < silenceLease/2:
			s.extend(ctx, run, key, old)
		}
	}
}

func (s *silencer) create(ctx context.Context, run, key string, a playbook.Alert) {
	made, err := s.silences.Create(ctx, notify.SilenceRequest{Run: run, Link: s.link.run(run), Labels: a.Labels, For: silenceLease})
	if err != nil {
		s.refused(run, key, err)
		return
	}
	s.keep(run, key, made)
	// Afterwards, because only now it has an id; after a crash in between the
	// silence is found by the run in its comment.
	s.record(ctx, silenceCreatedKind, silenceRecord{Run: run, Episode: key, ID: made.ID, Until: made.EndsAt})
}

func (s *silencer) extend(ctx context.Context, run, key string, old notify.Silence) {
	longer, err := s.silences.Extend(ctx, old.ID, silenceLease)
	if err != nil {
		s.refused(run, key, err)
		return
	}
	s.keep(run, key, longer)
}

// refused is a silence that cannot be had. One that a person ended, or that is
// too broad, is not asked for again in this run.
func (s *silencer) refused(run, key string, err error) {
	var e *fault.Error
	if errors.As(err, &e) && (e.Reason == fault.Conflict || e.Reason == fault.Invalid || e.Reason == fault.NotFound) {
		s.off[run+" "+key] = true
		s.forget(run, key)
	}
	s.log.Warn("alert is not silenced", "run", run, "alert", key, "err", err)
}

// end ends a silence and finds out what happened in it. What fails is tried
// again at the next look.
func (s *silencer) end(ctx context.Context, run, key string, old notify.Silence, ep *machine.Episode) {
	if err := s.silences.Expire(ctx, old.ID); err != nil {
		s.log.Warn("silence cannot be ended, it is tried again", "run", run, "alert", key, "err", err)
		return
	}
	if ep != nil && ep.Firing {
		firing, err := s.silences.Firing(ctx, old.Labels)
		if err == nil && !firing {
			err = s.admit(ctx, s.resolved(run, ep.Alert))
		}
		if err != nil {
			s.log.Warn("whether the alert resolved in silence cannot be taken in, it is tried again", "run", run, "alert", key, "err", err)
			return
		}
	}
	s.forget(run, key)
	s.record(ctx, silenceEndedKind, silenceRecord{Run: run, Episode: key, ID: old.ID, Until: s.now().UTC()})
}

// resolved is the notification that Alertmanager did not send.
func (s *silencer) resolved(run string, a playbook.Alert) playbook.Notification {
	a.Status, a.EndsAt = playbook.Resolved, s.now().UTC()
	return playbook.Notification{
		Receiver: "responder", Status: playbook.Resolved, GroupKey: "silence/" + run, Version: "4",
		Reason: "resolved while silenced", Alerts: []playbook.Alert{a}, Sender: "silence",
	}
}

func (s *silencer) keep(run, key string, made notify.Silence) {
	if s.mine[run] == nil {
		s.mine[run] = map[string]notify.Silence{}
	}
	s.mine[run][key] = made
}

func (s *silencer) forget(run, key string) {
	delete(s.mine[run], key)
	if len(s.mine[run]) == 0 {
		delete(s.mine, run)
	}
}

func (s *silencer) record(ctx context.Context, kind string, r silenceRecord) {
	data, err := json.Marshal(r)
	if err == nil {
		_, err = s.journal.Append(ctx, audit.Append{
			Stream: controlStream, After: audit.Any, Records: []audit.Record{{Kind: kind, Time: s.now().UTC(), Data: data}},
		})
	}
	if err != nil {
		s.log.Error("silence could not be recorded", "run", r.Run, "err", fmt.Errorf("%s: %w", kind, err))
	}
}

// openSilences makes the client for silences; nil when they are off.
func openSilences(c config.Config) (*notify.Silences, error) {
	if !c.Silence.Enabled {
		return nil, nil
	}
	return notify.NewSilences(notify.SilencesOptions{
		URL: c.Silence.AlertmanagerURL, TokenFile: c.Silence.TokenFile, CAFile: c.Silence.CAFile, Max: c.Silence.Max,
	})
}

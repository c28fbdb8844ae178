package app

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// WaitQuiet waits until every notification was dispatched and every run has
// ended or waits for a person.
func (s *Service) WaitQuiet(ctx context.Context) error {
	changed, stop := s.journal.Watch()
	defer stop()
	for {
		quiet, err := s.isQuiet()
		if err != nil || quiet {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the dry run did not come to an end: %w; --timeout allows more time", context.Cause(ctx))
		}
	}
}

func (s *Service) isQuiet() (bool, error) {
	taken, err := s.journal.Head(dispatch.StreamIntake)
	if err != nil {
		return false, err
	}
	done, err := dispatched(s.journal)
	if err != nil || done < taken {
		return false, err
	}
	runs, err := s.AllRuns()
	if err != nil {
		return false, err
	}
	for _, run := range runs {
		switch run.Phase {
		case machine.PhaseEnded, machine.PhaseDeciding, machine.PhaseHeld, machine.PhaseWaiting:
		default:
			return false, nil
		}
	}
	return true, nil
}

// dispatched is how many notifications the executor is done with: the last
// record of the stream dispatch is its cursor.
func dispatched(j *audit.Journal) (uint64, error) {
	head, err := j.Head(dispatch.Stream)
	if err != nil || head == 0 {
		return 0, err
	}
	for rec, err := range j.Stream(dispatch.Stream, head-1) {
		if err != nil {
			return 0, err
		}
		var d dispatch.Record
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return 0, fmt.Errorf("read the dispatcher's cursor: %w", err)
		}
		if !d.Done {
			return d.Index, nil
		}
		return d.Index + 1, nil
	}
	return 0, nil
}

// AllRuns returns every run, oldest first, as the journal has them: a run is
// there from the moment its alert is recorded as matched.
func (s *Service) AllRuns() ([]machine.State, error) {
	var all []machine.State
	for info, err := range s.journal.Streams(runStreams) {
		if err != nil {
			return nil, err
		}
		id := strings.TrimPrefix(info.Name, runStreams)
		state, ok := s.executor.RunState(id)
		if !ok {
			return nil, fmt.Errorf("run %s cannot be read back", id)
		}
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b machine.State) int { return a.Began.Compare(b.Began) })
	return all, nil
}

// Notifications yields every notification that was taken in, oldest first.
func (s *Service) Notifications() iter.Seq2[playbook.Notification, error] {
	return func(yield func(playbook.Notification, error) bool) {
		for rec, err := range s.journal.Stream(dispatch.StreamIntake, 0) {
			var n playbook.Notification
			if err == nil {
				err = json.Unmarshal(rec.Data, &n)
			}
			if !yield(n, err) || err != nil {
				return
			}
		}
	}
}

// Dispatch is what became of alerts of one notification.
type Dispatch struct {
	Kind string // of the record
	dispatch.Record
}

// Dispatches yields what became of every alert, oldest first.
func (s *Service) Dispatches() iter.Seq2[Dispatch, error] {
	return func(yield func(Dispatch, error) bool) {
		for rec, err := range s.journal.Stream(dispatch.Stream, 0) {
			d := Dispatch{Kind: rec.Kind}
			if err == nil {
				err = json.Unmarshal(rec.Data, &d.Record)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// RunEvents returns the events of a run, oldest first.
func (s *Service) RunEvents(run string) ([]machine.Event, error) { return s.executor.RunEvents(run) }

// Resolve returns the services that an alert is about.
func (s *Service) Resolve(a playbook.Alert) (services []playbook.Service, why string, err error) {
	return s.world.Resolve(a)
}

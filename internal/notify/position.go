package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// position is the position of a feed, as it is stored in its cell. Earlier
// versions stored Next alone, as a bare number.
type position struct {
	Next uint64   `json:"next"`           // of the log
	Owed []uint64 `json:"owed,omitempty"` // positions before that are sent first, in this order
}

// cells is the prefix of the cells with positions; the channel's name follows.
const cells = "feed/"

// forgetPositions drops the positions of channels that are no longer
// configured. A channel that is added again is new, and is not sent what
// happened in between.
func forgetPositions(journal *audit.Journal, configured []*Feed) error {
	stored, err := journal.MetaKeys(cells)
	if err != nil {
		return fmt.Errorf("read the positions of channels: %w", err)
	}
	for _, cell := range stored {
		if slices.ContainsFunc(configured, func(f *Feed) bool { return cells+f.Name == cell }) {
			continue
		}
		if err := journal.SetMeta(cell, nil); err != nil {
			return fmt.Errorf("forget the position of a removed channel: %w", err)
		}
	}
	return nil
}

// begin reads the stored position. Without one the feed begins at the end of
// the log.
func (f *Feed) begin() error {
	raw, err := f.journal.Meta(cells + f.Name)
	if err != nil {
		return fmt.Errorf("read the position of channel %s: %w", f.Name, err)
	}
	if raw == nil {
		if f.at.Next, f.at.Owed, err = openQuestions(f.journal); err != nil {
			return fmt.Errorf("begin channel %s: %w", f.Name, err)
		}
		return f.save()
	}
	if json.Unmarshal(raw, &f.at.Next) != nil {
		if err := json.Unmarshal(raw, &f.at); err != nil {
			return fmt.Errorf("read the position of channel %s: %w", f.Name, err)
		}
	}
	f.saved = f.at.Next
	f.at.Next = min(f.at.Next, f.journal.Size())
	return nil
}

// openQuestions returns the end of the log, and the positions of the reminders
// and escalations of questions that are still open there. It reads the whole
// log, but only the kind of each entry.
func openQuestions(journal *audit.Journal) (end uint64, told []uint64, err error) {
	end = journal.Size()
	open := map[string][]uint64{} // of a run's open question
	for rec, err := range journal.Log(0, runStreams) {
		if errors.Is(err, audit.ErrArchived) {
			continue // its run has ended
		}
		if err != nil {
			return 0, nil, err
		}
		if rec.Seq >= end {
			break
		}
		run, isRun := strings.CutPrefix(rec.Stream, runStreams)
		switch kind := machine.EventKind(rec.Kind); {
		case !isRun:
		case closesGate(kind), kind == machine.GateOpened:
			delete(open, run)
		case kind == machine.GateReminded, kind == machine.GateEscalated:
			open[run] = append(open[run], rec.Seq)
		}
	}
	for _, seqs := range open {
		told = append(told, seqs...)
	}
	slices.Sort(told)
	return end, told, nil
}

// sendOwed sends what a new channel is owed; false: ctx ended before.
func (f *Feed) sendOwed(ctx context.Context) (done bool, err error) {
	for len(f.at.Owed) > 0 {
		for rec, err := range f.journal.Log(f.at.Owed[0], runStreams) {
			if errors.Is(err, audit.ErrClosed) {
				return false, nil
			}
			if errors.Is(err, audit.ErrArchived) { // its run has ended
				break
			}
			if err != nil {
				return false, fmt.Errorf("channel %s: %w", f.Name, err)
			}
			if !f.deliver(ctx, strings.TrimPrefix(rec.Stream, runStreams), rec) {
				return false, nil
			}
			break
		}
		f.at.Owed = f.at.Owed[1:]
		if err := f.save(); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (f *Feed) save() error {
	raw, err := json.Marshal(f.at)
	if err == nil {
		err = f.journal.SetMeta(cells+f.Name, raw)
	}
	if err != nil {
		return fmt.Errorf("save the position of channel %s: %w", f.Name, err)
	}
	f.saved = f.at.Next
	return nil
}

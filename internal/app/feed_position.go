package app

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

// feedPosition is where a feed stands, as its cell in the journal has it. A
// bare number, which earlier versions wrote, is Next alone.
type feedPosition struct {
	Next uint64   `json:"next"`           // of the log
	Owed []uint64 `json:"owed,omitempty"` // positions before that are told first, in this order
}

const feedCells = "feed/"

func (f *feed) cell() string { return feedCells + f.name }

// forgetFeeds drops the positions of channels that are not configured any more:
// one that is added again is new, and is not told all that was in between.
func forgetFeeds(journal *audit.Journal, configured []feedOptions) error {
	cells, err := journal.MetaKeys(feedCells)
	if err != nil {
		return fmt.Errorf("read the positions of channels: %w", err)
	}
	for _, cell := range cells {
		if slices.ContainsFunc(configured, func(o feedOptions) bool { return feedCells+o.name == cell }) {
			continue
		}
		if err := journal.SetMeta(cell, nil); err != nil {
			return fmt.Errorf("forget the position of a channel that is gone: %w", err)
		}
	}
	return nil
}

func (f *feed) begin() error {
	raw, err := f.journal.Meta(f.cell())
	if err != nil {
		return fmt.Errorf("read the position of channel %s: %w", f.name, err)
	}
	if raw == nil {
		if f.at.Next, f.at.Owed, err = openQuestions(f.journal); err != nil {
			return fmt.Errorf("begin channel %s: %w", f.name, err)
		}
		return f.save()
	}
	if json.Unmarshal(raw, &f.at.Next) != nil {
		if err := json.Unmarshal(raw, &f.at); err != nil {
			return fmt.Errorf("read the position of channel %s: %w", f.name, err)
		}
	}
	f.saved = f.at.Next
	f.at.Next = min(f.at.Next, f.journal.Size())
	return nil
}

// openQuestions returns where the log ends, and where it says that the questions
// open there were reminded of and escalated. It reads the whole log, and of an
// entry its kind alone.
func openQuestions(journal *audit.Journal) (end uint64, told []uint64, err error) {
	end = journal.Size()
	open := map[string][]uint64{} // by run, of its open question
	for rec, err := range journal.Log(0) {
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

// payOff tells what a new channel is owed; false when ctx ends before.
func (f *feed) payOff(ctx context.Context) (done bool, err error) {
	for len(f.at.Owed) > 0 {
		for rec, err := range f.journal.Log(f.at.Owed[0]) {
			if errors.Is(err, audit.ErrClosed) {
				return false, nil
			}
			if err != nil {
				return false, fmt.Errorf("channel %s: %w", f.name, err)
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

func (f *feed) save() error {
	raw, err := json.Marshal(f.at)
	if err == nil {
		err = f.journal.SetMeta(f.cell(), raw)
	}
	if err != nil {
		return fmt.Errorf("keep the position of channel %s: %w", f.name, err)
	}
	f.saved = f.at.Next
	return nil
}

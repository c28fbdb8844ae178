package executor

import (
	"encoding/json"
	"fmt"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// This file is the boundary between what the executor means and what the
// journal stores. Names and forms here never change meaning; fields are added.

// Streams.
const (
	streamControl = "control"
	prefixRun     = "run/"
)

func streamOf(run string) string { return prefixRun + run }

// record encodes an event of a run. Its kind and time stand beside the data.
func record(e machine.Event) (audit.Record, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return audit.Record{}, fmt.Errorf("encode event %s: %w", e.Kind, err)
	}
	return audit.Record{Kind: string(e.Kind), Time: e.At, Data: data}, nil
}

// records encodes the events of one turn.
func records(events []machine.Event) ([]audit.Record, error) {
	out := make([]audit.Record, len(events))
	for i := range events {
		var err error
		if out[i], err = record(events[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// encode is JSON of this package's own structs.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("executor: cannot encode: " + err.Error()) // unreachable unless a struct of this package holds NaN or a channel
	}
	return data
}

// decode reads one of this package's own records.
func decode[T any](r audit.Record) (T, error) {
	var v T
	if err := json.Unmarshal(r.Data, &v); err != nil {
		return v, fmt.Errorf("decode %s, entry %d of the journal: %w", r.Kind, r.Seq, err)
	}
	return v, nil
}

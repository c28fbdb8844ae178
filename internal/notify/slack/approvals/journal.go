package approvals

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/inference-responder/responder/internal/audit"
)

// The stream of the records, and the cell with the index of the first record
// that is still needed. The names are stored.
const (
	stream   = "desk"
	fromCell = "desk/from"
)

// Journal is the [Memory] in the journal.
type Journal struct{ Journal *audit.Journal }

// Fold implements [Memory].
func (j Journal) Fold(each func(Record)) error {
	from, err := j.from()
	if err != nil {
		return err
	}
	for rec, err := range j.Journal.Stream(stream, from) {
		if err != nil {
			return fmt.Errorf("stream %s: %w", stream, err)
		}
		r := Record{Kind: rec.Kind, At: rec.Time, Index: rec.Index}
		if err := json.Unmarshal(rec.Data, &r); err != nil {
			return fmt.Errorf("entry %d of the journal: %w", rec.Seq, err)
		}
		each(r)
	}
	return nil
}

// from returns the index of the first record to fold. After a cell that cannot
// be understood every record is folded.
func (j Journal) from() (uint64, error) {
	raw, err := j.Journal.Meta(fromCell)
	if err != nil || raw == nil {
		return 0, err
	}
	head, err := j.Journal.Head(stream)
	if err != nil {
		return 0, err
	}
	if from, err := strconv.ParseUint(string(raw), 10, 64); err == nil && from <= head {
		return from, nil
	}
	return 0, nil
}

// Forget implements [Memory].
func (j Journal) Forget(before uint64) error {
	return j.Journal.SetMeta(fromCell, []byte(strconv.FormatUint(before, 10)))
}

// Append implements [Memory].
func (j Journal) Append(ctx context.Context, records ...Record) (uint64, error) {
	batch := make([]audit.Record, len(records))
	for i, r := range records {
		data, err := json.Marshal(r)
		if err != nil {
			return 0, fmt.Errorf("encode a record of Slack approvals: %w", err)
		}
		batch[i] = audit.Record{Kind: r.Kind, Time: r.At.UTC(), Data: data}
	}
	done, err := j.Journal.Append(ctx, audit.Append{Stream: stream, After: audit.Any, Records: batch})
	if err != nil {
		return 0, err
	}
	return done[0].Index, nil
}

package executor

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// Commits tells which commits the runs of a journal have made.
type Commits struct{ Journal *audit.Journal }

// longestRun bounds the name of a run that somebody else wrote.
const longestRun = 64

// Committed reports whether a run recorded that a commit is what its change, or the
// undo of it, became. It is false of a run that is archived.
func (c Commits) Committed(run, sha string) (bool, error) {
	if len(run) > longestRun || sha == "" {
		return false, nil
	}
	made := []machine.EventKind{machine.Applied, machine.Settled, machine.Undone, machine.Unwound}
	for rec, err := range c.Journal.Stream(streamOf(run), 0) {
		switch {
		case errors.Is(err, audit.ErrArchived):
			return false, nil
		case err != nil:
			return false, err
		case !slices.Contains(made, machine.EventKind(rec.Kind)):
			continue
		}
		ev, err := event(rec)
		if err != nil {
			return false, err
		}
		// The lever's own receipt; only its revision is of interest here.
		var receipt struct {
			Revision string `json:"revision"`
		}
		if len(ev.Data) > 0 && json.Unmarshal(ev.Data, &receipt) == nil && receipt.Revision == sha {
			return true, nil
		}
	}
	return false, nil
}

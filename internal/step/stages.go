package step

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// GitReceipt is what a commit, or its undo, left behind.
type GitReceipt struct {
	Action   machine.Action `json:"action"`
	Revision string         `json:"revision,omitempty"` // the commit, once it is on the branch
	Waits    string         `json:"waits,omitempty"`    // pull request that was opened

	Left string `json:"left,omitempty"` // of a pull request that was withdrawn: its branch, and why it was not deleted

	// Drift is what remained of the plan's drift when the change was made. Nil:
	// nobody looked; empty: nothing.
	Drift []machine.Drift `json:"beside,omitzero"`
}

// nudger is a lever whose change others carry out once it is made, and who may
// have to be asked for that again: the answer was lost, they were down, or the
// change became possible only later. Settling nudges as long as the change is
// made and not in effect. It is idempotent and decides nothing new.
type nudger interface {
	Nudge(ctx context.Context, in Input, plan machine.Plan, undo bool) error
}

// follower is a lever that can be told when its change takes effect, so that
// nobody has to look again and again. Settling follows after it has looked.
type follower interface {
	// Follow waits for news of a change that is made and not in effect, for a
	// part of the context's time. It gives what was told meanwhile, and reports
	// whether looking again is worth it.
	Follow(ctx context.Context, plan machine.Plan, receipt json.RawMessage) (told []Progress, news bool)
}

// Progress is a word on how far a change is on its way into effect.
type Progress struct {
	At   time.Time
	Text string
}

// stepwise is a lever whose change takes effect in steps of its own making.
type stepwise interface {
	// Advance takes the next step, one at most, and tells how far it is.
	Advance(ctx context.Context, in Input, plan machine.Plan) (Observation, error)
}

// seen adds what was told during a look to what it saw: one line for each, for
// people, and the last one is where the change stands now.
func (o *Observation) seen(told []Progress) {
	if n := len(told); n > 0 && strings.Contains(o.Progress, told[0].Text) {
		told = told[1:] // what the look saw itself
	}
	if n := len(told) - maxTold; n > 0 {
		told = told[n:]
	}
	for _, p := range told {
		o.Seen = append(o.Seen, p.At.UTC().Format("15:04:05Z ")+p.Text)
		o.Progress = p.Text
	}
}

// maxTold is how much of what was told during one look is kept: the newest.
const maxTold = 8

// keeper is a lever whose effect is read back once more before figures prove it.
// [Lever.Observe] may not have looked: whoever made the change in effect says of
// nothing then, such as an application that is out of sync.
type keeper interface {
	// Kept reports why a change cannot be said to be in effect; nil: it is.
	Kept(ctx context.Context, in Input, plan machine.Plan) error
}

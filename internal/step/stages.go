package step

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// GitReceipt is the receipt of a commit or of its undo.
type GitReceipt struct {
	Action   machine.Action `json:"action"`
	Revision string         `json:"revision,omitempty"` // the commit, once it is on the branch
	Waits    string         `json:"waits,omitempty"`    // pull request that was opened

	Left string `json:"left,omitempty"` // of a pull request that was withdrawn: its branch, and why it was not deleted

	// Drift is what remained of the plan's drift when the change was made. Nil:
	// nobody looked; empty: nothing.
	Drift []machine.Drift `json:"beside,omitzero"`
}

// nudger is a lever whose change is carried out by another system, which may
// have to be asked again: the answer was lost, it was down, or the change
// became possible only later. Settling calls Nudge while the change is made and
// not in effect. Nudge is idempotent and decides nothing new.
type nudger interface {
	Nudge(ctx context.Context, in Input, plan machine.Plan, undo bool) error
}

// follower is a lever that is notified when its change takes effect, which
// saves polling. Settling calls Follow after it has observed the change.
type follower interface {
	// Follow waits for news of a change that is made and not in effect, for a
	// part of the context's time. It gives what was told meanwhile, and reports
	// whether looking again is worth it.
	Follow(ctx context.Context, plan machine.Plan, receipt json.RawMessage) (told []Progress, news bool)
}

// Progress is one message about a change that is taking effect.
type Progress struct {
	At   time.Time
	Text string
}

// stepwise is a lever whose change takes effect in steps of its own making.
type stepwise interface {
	// Advance takes the next step, one at most, and tells how far it is.
	Advance(ctx context.Context, in Input, plan machine.Plan) (Observation, error)
}

// yielder is a lever that touches more than its target on the way. If somebody else
// changes the target meanwhile, the run ends, and nobody would put that back.
type yielder interface {
	// Yield puts it back as far as it is still as the lever left it, and says what it
	// did or what is left for people; empty: there was nothing.
	Yield(ctx context.Context, in Input, plan machine.Plan) string
}

// seen adds the messages of a look to the observation. The last one is the
// current progress.
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

// maxTold is how many messages of one look are kept: the newest ones.
const maxTold = 8

// prover is a lever that looks by itself whether its change stands, where the
// service's figures cannot tell.
type prover interface {
	// Prove returns the sample that ends the proof.
	Prove(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage) (machine.Sample, error)
}

// keeper is a lever whose effect is read once more before figures prove it.
// [Lever.Observe] may not have read it: an application that is out of sync, for
// example, does not tell.
type keeper interface {
	// Kept reports why a change cannot be said to be in effect; nil: it is.
	Kept(ctx context.Context, in Input, plan machine.Plan) error
}

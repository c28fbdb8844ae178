package step

import (
	"context"
	"encoding/json"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Input is the input of every step.
type Input struct {
	Run               string // for annotations and messages
	Key               string // idempotency key of the effect
	Service           playbook.Service
	Alert             playbook.Alert
	With              map[string]any // parameters, typed as the kind declares them
	Now               time.Time
	OperatorConfirmed bool            // undo of a request: the operator confirmed that nothing is requested; only its marks on the target are removed
	OperatorMade      machine.Action  // what nobody saw and a person says was made: apply or undo; empty: nothing
	MergeBy           machine.MergeBy // who merges a pull request of the change; empty: people
	Verdict           machine.Verdict // undo: no_effect or worse, if the service's objectives say so of the change; empty: it is undone for another reason
}

// Check reads the world and changes nothing. The value it returns is a struct
// whose JSON form matches the kind's Out. Missing, stale or NaN data is a
// value of the result, not an error; an error means the question could not be
// asked and is a [*fault.Error].
type Check interface {
	Run(ctx context.Context, in Input) (Finding, error)
}

// Finding is the evidence of a check, with the facts for people.
type Finding struct {
	Out   any
	Facts []string
}

// Lever is one mutating, reversible, single-variable change.
type Lever interface {
	// Plan computes what would change now, with a server-side dry-run. It
	// changes nothing. A lever that must not or need not act returns an
	// [*fault.Error] with the reason.
	Plan(ctx context.Context, in Input) (machine.Plan, error)

	// Apply carries plan out once, under its preconditions. Its receipt is
	// what Undo and Observe need. An error with Unknown set means that it
	// may have happened.
	Apply(ctx context.Context, in Input, plan machine.Plan) (json.RawMessage, error)

	// Observe reads back what became of an apply (undo false) or an undo
	// (undo true), also when no receipt was ever journaled (nil).
	Observe(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage, undo bool) (Observation, error)

	// Undo puts back exactly what Apply changed, under the precondition that
	// it is still as Apply left it.
	Undo(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error)
}

// Observation is what a lever observes of its own change.
type Observation struct {
	Applied    bool              // the change is in the world
	Settled    bool              // and has taken effect (rolled out, ready)
	Foreign    bool              // the target is neither as before nor as planned: someone else changed it
	Degraded   bool              // it will not take effect by itself (progress deadline exceeded)
	Slow       bool              // with Degraded: only a rollout that makes no progress; its pods may load a model
	Pending    bool              // it was asked for and waits for somebody else, such as a merge; Applied is false until then
	Waits      string            // with Pending: the pull request that has to be merged, for people
	Declined   bool              // people closed what it waited for: it is not made, and nobody else changed the target
	Unsure     bool              // Applied is as far as the target tells: whether the change was made elsewhere too cannot be read back, and takes somebody's word
	Unread     error             // Applied is certain, whether it has taken effect could not be asked
	Overridden bool              // it is made, and what runs has another value: something else sets it
	Next       bool              // of an undo: it has one more part, for which Undo is called again; Applied and Settled are of the part before
	Stays      bool              // of an undo: the change was only stopped, what it did until then stays
	Renews     bool              // Settled: Receipt has more than that of the apply, and takes its place
	Progress   string            // for people: "2 of 3 replicas updated"
	Rollout    *machine.Progress // how far its rollout has come; nil: it rolls nothing out, or that cannot be told
	Seen       []string          // how it came to that during the look, for people, oldest first
	Receipt    json.RawMessage   // as Apply would have returned it, when Applied
	Again      time.Duration     // not settled: when its next step may be taken; 0: nothing says so
}

// over reports whether waiting changes nothing any more.
func (o Observation) over() bool { return o.Foreign || o.Degraded || o.Overridden }

package machine

import (
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// CommandKind is what someone wants of a run.
type CommandKind string

// The commands.
const (
	CmdStart   CommandKind = "start"   // Start
	CmdTick    CommandKind = "tick"    // time passed
	CmdOutcome CommandKind = "outcome" // Effect, Outcome
	CmdAlert   CommandKind = "alert"   // Alert: joined, repeated or resolved
	CmdDecide  CommandKind = "decide"  // Decision on the open gate
	CmdReplan  CommandKind = "replan"  // Decision: a person wants a fresh plan instead of the one asked about
	CmdCancel  CommandKind = "cancel"  // Decision.By, Decision.Reason
	CmdResolve CommandKind = "resolve" // Decision: a person tells a held run what is true (Approve: it was applied)
	CmdPause   CommandKind = "pause"   // Message
	CmdUnpause CommandKind = "unpause"
	CmdResume  CommandKind = "resume" // after a restart: every open mutating effect must be observed first
	CmdRetry   CommandKind = "retry"  // what a waiting run waits for may be free: ask the guards again

	// CmdRelease ends a run that was set aside: Decision.By, Decision.Reason. No
	// machine can decide about such a run, so Decide refuses it; whoever set the
	// run aside carries it out.
	CmdRelease CommandKind = "release"
)

// Command is an input to Decide. Now is set on every command.
type Command struct {
	Kind      CommandKind
	Now       time.Time
	Start     *Start
	Playbook  *playbook.Playbook // with Start; the state keeps it
	Effect    string             // with Outcome: key of the effect it belongs to
	Attempt   int                // with Outcome: the attempt; 0: whichever is open
	Outcome   *Outcome
	Alert     *playbook.Alert
	Truncated bool // with Alert: the notification it came with was truncated
	Decision  *Decision
	Message   string

	// NoDivert says why no other playbook can take over now; a divert state
	// then escalates to people instead. Empty: it can.
	NoDivert string
}

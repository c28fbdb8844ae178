package machine

import (
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// CommandKind is the kind of a command.
type CommandKind string

// The commands. Comments name the fields that are set.
const (
	CmdStart   CommandKind = "start"   // Start
	CmdTick    CommandKind = "tick"    // time passed
	CmdOutcome CommandKind = "outcome" // Effect, Outcome
	CmdAlert   CommandKind = "alert"   // Alert: joined, repeated or resolved
	CmdDecide  CommandKind = "decide"  // Decision on the open gate
	CmdReplan  CommandKind = "replan"  // Decision: a person requests a new plan in place of the one in question
	CmdCancel  CommandKind = "cancel"  // Decision.By, Decision.Reason
	CmdResolve CommandKind = "resolve" // Decision: a person tells a held run whether the change was applied (Approve: it was)
	CmdPause   CommandKind = "pause"   // Message
	CmdUnpause CommandKind = "unpause"
	CmdProceed CommandKind = "proceed" // Decision: a person ends the wait that the run is in
	CmdResume  CommandKind = "resume"  // after a restart: observe every open mutating effect first
	CmdRetry   CommandKind = "retry"   // a lock may be free: ask the guards again

	// CmdRelease ends a quarantined run: Decision.By, Decision.Reason. The
	// machine cannot decide about such a run, so Decide refuses it; the
	// executor that quarantined the run carries it out.
	CmdRelease CommandKind = "release"
)

// Command is an input of Decide. Now is set on every command.
type Command struct {
	Kind      CommandKind
	Now       time.Time
	Start     *Start
	Playbook  *playbook.Playbook // with Start; the state keeps it
	Effect    string             // with Outcome: key of the effect it belongs to
	Attempt   int                // with Outcome: the attempt; 0: the open one
	Outcome   *Outcome
	Alert     *playbook.Alert
	Truncated bool // with Alert: its notification was truncated
	Decision  *Decision
	Refused   string // with a person's command: the right that they lack. It is recorded and changes nothing. Empty: none
	Message   string

	// Told holds what other runs have told within [OnceWithin], by the text of once:
	// a notify state with that text tells nobody.
	Told map[string]Telling

	// NoDivert is why no other playbook can take over now; a divert state then
	// escalates. Empty: one can.
	NoDivert string
}

// RightOf returns the right that a person's command takes; empty for the others.
func RightOf(k CommandKind) rights.Right {
	switch k {
	case CmdDecide, CmdReplan:
		return rights.Approve
	case CmdCancel:
		return rights.Cancel
	case CmdResolve:
		return rights.Resolve
	case CmdProceed, CmdRelease:
		return rights.Release
	default:
		return ""
	}
}

// Package approvals implements approvals in Slack: it turns what runs ask and do
// into messages, and what people click into decisions.
//
// It is a projection of the journal. A run never waits for it: a gate can be
// decided on the command line and through the API whatever Slack does. The
// package journals only what it must remember, in a stream of its own: which
// opaque identifier stands for which gate, which message belongs to which run,
// and how much of a run has been shown.
//
// # Invariants
//
//   - One message per run, edited in place until the run has ended. The intent
//     to post it is journaled first, so that after a crash it is looked for by
//     its metadata and not posted twice.
//   - A button carries an identifier that was drawn at random for one gate. The
//     gate and its plan are looked up here. The run decides whether the person
//     may decide.
//   - Only the newest state of a run is sent. After an outage people see the
//     current state, not a replay.
//   - The events of a run that is grouped into a list are posted in the thread
//     of the list, with the name of the run.
//   - A message that Slack refuses for its form is replaced by a plain notice,
//     and a deleted message is posted again. A message to a channel that does
//     not accept it is given up seven days after the run's end, and the journal
//     records that.
//   - A start reads what is needed: closed records are forgotten
//     (Memory.Forget), though the journal keeps them.
//   - Nothing waits for Slack: each failure is journaled once (desk.outage,
//     desk.recovered) and retried with a growing pause.
//
// # Stored keys
//
// The journal's stream desk has the records, and the cell desk/from the index of
// the first record that a start reads. "desk" is what this package was called
// first.
//
// Only internal/app calls it.
package approvals

// Package desk is where runs and people meet in Slack: it turns what runs ask
// and do into messages, and what people press into decisions.
//
// The desk is a projection of the journal. A run never waits for it: a gate
// stays decidable on the command line and the API whatever Slack does. What the
// desk itself has to remember is little, and is journaled in a stream of its
// own: which opaque identifier stands for which gate, which message belongs to
// which run, and how much of a run has been told.
//
// # Invariants
//
//   - One message per run, edited in place until the run has ended. The intent
//     to post it is journaled before it is posted, so that after a crash it is
//     looked for by its metadata and not posted twice.
//   - A button carries an identifier that was drawn at random for one gate.
//     Whose it is and which plan it is about is looked up here, and whether the
//     person may decide is the run's to say.
//   - Only the newest state of a run is ever sent. After an outage people see
//     how things are, not a replay of how they came about.
//   - A run in a storm's list is told in the thread of the list, by its name.
//   - A message that Slack refuses for its form is said in plain words, and one
//     that is gone is posted again. What a closed channel does not take is given
//     up seven days after the run's end, and the journal says so.
//   - A start reads what is needed: records of what is over are forgotten
//     (Memory.Forget), though the journal keeps them.
//   - Nobody is waited for: Slack's failures are journaled once each
//     (desk.outage, desk.recovered) and tried again with a growing pause.
//
// It is called by cmd/responder alone.
package desk

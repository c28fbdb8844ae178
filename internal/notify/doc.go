// Package notify tells people and their systems what runs need and do.
//
// A [Notice] is one message to people. A step or the executor sends it through
// [Router.Notify], which passes it to the channels that it names, or to the
// default ones. A [Fact] is one event of a run. Each channel has a [Feed] that
// follows the journal by itself, so a channel that is down holds up neither a
// run nor another channel. The feed also delivers the reminders and escalations
// of questions that nobody decides.
//
// A channel is a package below this one: its settings with their
// documentation, its client, and how notices and facts look in its protocol. A
// new one needs such a package and one field in the configuration's Channel.
//
// # Stored keys
//
// The journal's cell feed/NAME is the position of a channel's feed. Nothing
// else is stored.
//
// # Invariants
//
//   - Sending is at least once: a lost answer looks like a failure. Each message
//     carries a key by which the receiver recognizes a repeat.
//   - Facts reach a channel in the journal's order. What happens while the
//     receiver or this service is down is sent later.
//   - A notice to a channel that is no longer configured goes to the default
//     ones.
//
// Only internal/app calls it.
package notify

// Package slack speaks with Slack: it renders messages, posts and edits them,
// takes clicks, and finds out who clicked.
//
// It knows nothing of runs, playbooks or the executor. A caller fills plain
// structs ([Approval], [Digest], [Progress], [Notice], [Deny], [BreakGlass],
// [Details]) and gets a [Message] or a [Modal]; [Client] sends it. [Receiver]
// turns what people press into a [Click], over HTTP ([Receiver.ServeHTTP]) or
// Socket Mode ([Receiver.RunSocket]) with the same behaviour. [People] says who
// a Slack user is.
//
// Invariants:
//
//   - A button carries an opaque identifier that the caller chose, and nothing
//     else. Whatever else a click claims is looked up by that identifier.
//   - A click is acknowledged before it is worked on, so Slack's three seconds
//     hold whatever the consumer does. A click that cannot be queued is answered
//     with a hint to the command line, never dropped silently.
//   - Text from outside is shown, never obeyed: no mention, link, formatting or
//     invisible character of a label or a reason reaches Slack as such.
//   - Every message keeps within Slack's limits. What does not fit is counted
//     and linked, never dropped silently.
//   - A message carries [Meta], so that one that was posted before a crash is
//     found again ([Client.Find]) instead of posted twice.
//   - Tokens and the signing secret are [Secret] values, which no log shows.
//
// Nothing here blocks a run: every call has a timeout and an [Error] with a
// [Reason] to branch on.
package slack

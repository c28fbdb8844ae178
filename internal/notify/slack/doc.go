// Package slack is the channel to Slack: it renders messages, posts and edits
// them, receives clicks, and looks up who clicked. [Config] is the workspace's
// block of responder.yaml, [Workspace] its client, and
// [Workspace.NoticeChannel] posts notices.
//
// It knows nothing of events, playbooks or the executor. A caller fills plain
// structs ([Approval], [Digest], [Progress], [Notice], [Deny], [BreakGlass],
// [Details]) and gets a [Message] or a [Modal], which [Client] sends.
// [Receiver] turns interactions into a [Click], over HTTP
// ([Receiver.ServeHTTP]) or Socket Mode ([Receiver.RunSocket]) with the same
// behaviour. [People] looks up Slack users.
//
// Invariants:
//
//   - A button carries only an opaque identifier that the caller chose.
//     Everything else about a click is looked up by that identifier.
//   - A click is acknowledged before it is processed, so that Slack's limit of
//     three seconds holds whatever the consumer does. A click that cannot be
//     queued is answered with a hint to the command line.
//   - Text from outside is shown, never interpreted: no mention, link, formatting
//     or invisible character of a label or a reason reaches Slack as such.
//   - Every message keeps within Slack's limits. What does not fit is counted
//     and linked.
//   - A message carries [Meta], so that one that was posted before a crash is
//     found again ([Client.Find]) and not posted twice.
//   - Tokens and the signing secret are [Secret] values, which no log shows.
//
// Nothing here blocks a run: every call has a timeout and returns a [fault.Error]
// with a [fault.Reason] to branch on.
package slack

// Package dispatch decides what becomes of alerts: from a notification to the
// runs that it starts, joins or tells.
//
//	receiver ──▶ Intake.Admit ──▶ stream intake ──▶ Next ──▶ Resolve ──▶ Decision ──▶ stream dispatch
//
// Admission and reading are apart: a notification is answered once it is durable,
// whatever is decided about it later. What was admitted just now is handed over in
// memory (recent.go); after a start, or when there is too much of it, Next reads the
// stream.
//
// # Stored
//
//	intake    playbook.Notification as JSON, one record each, written by Intake
//	dispatch  Record: what became of some alerts of one notification. The last
//	          record is the cursor. Written in one batch with the run events it causes.
//	control   the intake's own pause (IntakePause)
//
// and beside the log a Snapshot of the memory, from which a start goes on (snapshot.go).
//
// # Invariants
//
//   - An episode (fingerprint and start) has at most one run under a playbook, and
//     one that resolved starts none (alert.go).
//   - Every alert of an admitted notification gets a Record, in order (decide.go).
//   - The cursor and what is remembered of episodes are the fold of the stream
//     dispatch and of the runs' events (dispatcher.go, episodes.go). A snapshot only
//     shortens it: without one, the same comes from the log.
//   - Whatever may ask the cluster is asked before the executor's loop decides
//     (resolve.go).
//   - What was suppressed is decided again when the reason is gone (reconsider.go).
//   - Memory follows what has or may get a run. Of alerts that nobody acts on only
//     the newest are remembered, to tell a repeat from news (episodes.go).
//
// Package executor reads, decides and commits with it; the service admits.
package dispatch

// Package executor runs playbooks: it turns journaled notifications into runs,
// carries out the effects that runs owe the world, and keeps the facts of both
// in the journal. What a run does next is not decided here but in package
// machine, which is pure; this package owns time, order and durability.
//
// # One way through
//
//	intake ──▶ dispatcher ──▶ run ──▶ machine.Decide ──▶ append ──▶ effect
//	                           ▲                                      │
//	                           └──────────── its outcome ◀────────────┘
//
// The dispatcher reads the stream intake from its cursor and decides for each
// alert: a new run, part of an open one, or nothing, with the reason. A run's
// events are appended after the head it was folded to; the intent of an effect
// is on disk before the effect starts, its outcome before the next one.
//
// # Stored streams
//
//	intake       notification: playbook.Notification as JSON, written by the receiver
//	dispatch     what became of each alert (Dispatched). The last record is the
//	             dispatcher's cursor. Written in one batch with the run events it causes.
//	control      pauses, playbook documents by digest, quarantined runs, notices
//	run/<id>     machine.Event, one record each; the kind is the event's
//
// and the cell executor/starts, which counts starts that did not end well.
//
// # Invariants
//
//   - A run's state is the fold of its stream. Nothing else is needed to go on
//     after a restart: locks, budgets, cooldowns, waiting order and known
//     episodes are projections, rebuilt when Run begins.
//   - Whoever holds a run's mutex owns the run: decides, appends, folds. Effects
//     run outside of it, at most one per run. A run that waits for people or
//     for a time has no goroutine.
//   - A failed append ends the executor, unless the journal says that nothing
//     was written and it will take it later (full). Ready then says so.
//   - An append refused because the stream has moved on means that somebody
//     else wrote: the run is folded anew and the command decided again.
//
// # What is forgotten
//
// Episodes that were not heard of for EpisodesKept are forgotten, and with them
// that they had a run: Alertmanager repeats a firing alert far more often. Ended
// runs are not kept in memory; views fold them from the journal.
package executor

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
//	ladder       what levers came to (LeverResult), demotions and their lifting, and
//	             what became of alerts that were only observed. Written in one batch
//	             with the run events or the dispatcher's records that it follows from
//	control      pauses, playbook documents by digest, runs that were set aside and
//	             released, messages that are due and what became of them
//	run/<id>     machine.Event, one record each; the kind is the event's
//
// and the cell executor/starts: what the process worked on when it ended badly.
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
//   - Who owns one run may only try to own another. Who has to wait holds many,
//     and takes it while owning none. The turn of a suspect (crashGuard) comes before both.
//   - A run that was set aside keeps what it holds; one that cannot be folded
//     keeps its service, whatever it was doing.
//
// # What is forgotten
//
// Episodes that were not heard of for EpisodesKept are forgotten, and with them
// that they had a run: Alertmanager repeats a firing alert far more often. Ended
// runs are not kept in memory; views fold them from the journal.
package executor

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
//	ladder       the track record of levers, see package ladder. Written in one batch
//	             with the run events or the dispatcher's records that it follows from
//	control      pauses, playbook documents by digest, runs in quarantine and
//	             released, messages that are due and what became of them
//	run/<id>     machine.Event, one record each; the kind is the event's
//
// and the cell executor/starts: what the process worked on when it ended badly.
//
// # Invariants
//
// Each names the file that keeps it.
//
//   - A run's state is the fold of its stream. Nothing else is needed to go on
//     after a restart: locks, budgets, cooldowns, waiting order and known
//     episodes are projections, rebuilt when Run begins (load.go).
//   - A run has one owner at a time: whoever decides, appends and folds. Nobody
//     owns a run without Executor.own, or a batch that may own several (run.go,
//     batch.go).
//   - An owner may wait for the journal. Whoever only reads does not: views,
//     figures and probes look at what owners published (run.go, views.go,
//     blocked_test.go).
//   - Who owns one run owns no second one. Where a run is handed over to another
//     open one it is decided again by an owner of many, and only one of those is
//     at work at a time (run.go, divert.go).
//   - Effects run while nobody owns the run, at most one per run. A run that
//     waits for people or for a time has no goroutine (run.go, clock.go).
//   - All that follows from one decision is appended in one batch, and is true in
//     memory only after that (batch.go).
//   - A failed append ends the executor, unless the journal reports that nothing
//     was written and that it will take it later. Ready then says so (batch.go).
//   - An append refused because the stream has moved on means that somebody
//     else wrote: the run is folded again and the command decided again (run.go).
//   - A panic over one run or notification quarantines that one (executor.go,
//     quarantine.go). So does an end of the process, if it happens again and again
//     (crashloop.go).
//   - A run in quarantine keeps what it holds; one that cannot be folded keeps its
//     service, whatever it was doing (quarantine.go, ledger.go).
//   - Levers, demotions and observe-only outcomes are counted once, in the order
//     of the log (package ladder).
//
// # What is forgotten
//
// Episodes that were not heard of for EpisodesKept are forgotten, and with them
// that they had a run: Alertmanager repeats a firing alert far more often. Ended
// runs are not kept in memory; views fold them from the journal.
package executor

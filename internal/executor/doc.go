// Package executor runs playbooks: it turns journaled notifications into runs,
// carries out the effects that runs owe the world, and keeps the facts of both
// in the journal. What a run does next is not decided here but in package
// machine, which is pure; this package owns time, order and durability.
//
// # One way through
//
//	dispatch ──▶ run ──▶ machine.Decide ──▶ append ──▶ effect
//	              ▲                                      │
//	              └──────────── its outcome ◀────────────┘
//
// One goroutine, the loop, owns all runs. Whoever wants something of a run hands
// it a task: the dispatcher, effects with their outcomes, timers, people. The loop
// decides what waits, appends it to the journal in one batch, publishes it, and
// begins the effects that are owed. Everybody else reads what it has published.
//
//	loop.go         tasks, their order, what happens when the journal takes nothing
//	batch.go        what is decided together, made durable together, published together
//	dispatching.go  hands notifications to package dispatch, and its decisions to the loop
//	run.go          one run and its snapshot
//	effects.go      what a run owes the world: begun, carried out, its outcome handed back
//	load.go         the start: projections are rebuilt, open effects observed
//
// Subjects of their own: package dispatch (from alerts to runs), package guard
// (guards, locks, budgets), package ladder (the track record of levers).
//
// # Stored streams
//
//	intake, dispatch  see package dispatch
//	ladder            see package ladder; written in one batch with what it follows from
//	control           pauses, playbook documents by digest, runs in quarantine and
//	                  released, messages that are due and what became of them,
//	                  reports that were made
//	run/<id>          machine.Event, one record each; the kind is the event's
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
//   - Only the loop decides, appends and changes what is decided from. It waits for
//     the journal and for nothing else; it never calls a step, and asks the
//     cluster nothing (loop.go).
//   - Whoever only reads does not wait for the loop: views, figures and probes look
//     at what it has published (views.go, blocked_test.go).
//   - All that follows from one decision is appended in one batch, and is true in
//     memory only after that. A task that fails leaves nothing in its batch
//     (batch.go).
//   - The intent of an effect is on disk before the effect starts, its outcome
//     before the next one. At most one effect of a run is under way. A run that
//     waits for people or for a time has no goroutine (effects.go, clock.go).
//   - While the journal is full, what people ask is refused and what has happened
//     is kept and tried again (loop.go). Any other failed append ends the
//     executor. Ready then says so (batch.go).
//   - An append refused because the stream has moved on means that somebody
//     else wrote: the run is folded again and the task decided again (loop.go).
//   - A panic over one run or notification quarantines that one (batch.go,
//     quarantine.go, dispatching.go). So does an end of the process, if it happens
//     again and again (crashloop.go).
//   - A run in quarantine keeps what it holds; one that cannot be folded keeps its
//     service, whatever it was doing (quarantine.go, guard/ledger.go).
//   - Levers, demotions and observe-only outcomes are counted once, in the order
//     of the log (package ladder).
//
// # What is forgotten
//
// Episodes that were not heard of for dispatch.EpisodesKept are forgotten, and with
// them that they had a run: Alertmanager repeats a firing alert far more often.
// Ended runs are not kept in memory; views fold them from the journal.
package executor

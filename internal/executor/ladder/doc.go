// Package ladder keeps the track record of levers: what each of them came to on
// each service, and how far it is trusted for that. Levels go down by
// themselves, when a lever fails too often in a row, and up only by the hand of
// a person.
//
// # Stored
//
// The stream ladder of the journal: LeverResult, Demotion, Promotion, ObservedEnd.
// Records are appended in one batch with the run's events that they follow from,
// so that neither is ever there without the other and nothing counts twice.
//
// # Invariants
//
//   - The track record is the fold of its stream and of nothing else
//     (track_record.go, learn.go).
//   - Results are folded in the order of the log, by the executor's loop.
//   - Readers wait for no append: mu is held for moments only.
//
// Only package executor appends here and folds.
package ladder

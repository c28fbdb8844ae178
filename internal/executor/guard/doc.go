// Package guard answers whether a lever may be applied now: the one list of guards
// (guard.go), and the ledger of what they count and hold (ledger.go).
//
// # Invariants
//
//   - All guards are asked and all verdicts are shown; what is unknown refuses.
//   - A run whose guards let it through holds its locks and its place in the budget
//     from the same moment on (Ledger.Ask).
//   - The ledger is a projection of the runs' events, plus what the guards have let
//     through and the log does not say yet. It stores nothing.
//
// Only the loop of package executor asks and changes the ledger; views read it.
package guard

// Package machine is the pure state machine of a run: [Decide] turns a command
// into events, [Evolve] folds an event into the state, and [Pending] derives
// from the state which effect is due and when to look again.
//
// Nothing here reads a clock, a file or a network. Time and identifiers arrive
// in the command. A run's state is the fold of its journaled events and nothing
// else, so that a restart, a dry-run and a test behave the same.
package machine

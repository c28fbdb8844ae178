// Package machine is the pure heart of a run: [Decide] turns a command into
// events, [Evolve] folds an event into the state, and [Pending] reads from the
// state which effects are owed to the world and when to look again.
//
// Nothing here reads a clock, a file or a network; time and identifiers arrive
// in the command. A run's state is the fold of its journaled events and nothing
// else, so that a restart, a dry-run and a test walk the same way.
package machine

// Package slo asks Prometheus and does the arithmetic of service-level
// objectives: burn rates and the rules that alert on them, and the verdict on
// whether a change helped ([Judge]).
//
// A proof has two forms: [Judge] compares samples with limits, [Test.Decide]
// decides from counts of requests, with bounded error rates. [Measure] takes
// those counts for all objectives of a service; where an indicator is found is
// the caller's knowledge.
//
// [Prometheus] is the only part that touches the network; the rest is pure and
// takes the time as an argument. Everything that is missing, stale, not a
// number or partial is its own answer here and never counts as good. The
// package knows nothing of playbooks or runs; package step translates.
package slo

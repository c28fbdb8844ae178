// Package judge turns readings of GPUs into verdicts.
//
// [Nodes] returns one [Judgement] per GPU: healthy, busy, degraded, throttled,
// failing or unknown. Each carries the rules that fired, the raw evidence and
// the source of each rule.
//
// The package is pure: no driver, no network, no clock. Invariants:
//
//   - a GPU is healthy only when everything that a verdict needs was read,
//     lately, and over a long enough time;
//   - more evidence of harm never makes a verdict milder.
//
// Facts about bits, counters and XIDs come from nvml.h 13.0 and from the
// documents that each rule names.
package judge

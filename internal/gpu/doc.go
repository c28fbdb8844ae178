// Package gpu holds what is known about the GPUs of a node and what it means.
//
// A [Snapshot] is what was read at one moment, and what could not be read and
// why. [Encode] and [Decode] are its one form outside of the process, with
// strict bounds. [Judge] turns it into one [Judgement] per GPU: healthy, busy,
// degraded, throttled, failing or unknown, each with the rules that say so,
// the raw evidence and where the rule comes from.
//
// The package is pure: no driver, no network, no clock. Invariants:
//
//   - a value that was not read is unknown, never zero: see [Reading];
//   - a GPU is healthy only when everything a verdict needs was read, lately,
//     and over a long enough time;
//   - more evidence of harm never makes a verdict milder.
//
// Units are those of NVML where it has one: °C, MHz, milliwatts, bytes,
// nanoseconds. Facts about bits, counters and XIDs come from nvml.h 13.0 and
// from the documents each rule names.
package gpu

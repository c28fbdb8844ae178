// Package gpu holds the readings of a node's GPUs.
//
// A [Snapshot] is what was read at one moment, and what could not be read and
// why. [Encode] and [Decode] are its only form outside of the process, with
// strict bounds. A value that was not read is unknown, never zero: see [Reading].
//
// The packages below judge readings (judge), take them from the driver (nvml) or
// from dcgm-exporter (dcgm), serve them on a node (agent) and fetch them (client).
//
// This package is pure: no driver, no network, no clock. Units are those of NVML
// where it has one: °C, MHz, milliwatts, bytes, nanoseconds. Facts about bits,
// counters and XIDs come from nvml.h 13.0 and from NVIDIA's XID catalog.
package gpu

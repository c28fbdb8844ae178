// Package dcgm turns series of dcgm-exporter, as Prometheus stores them, into
// the same [gpu.Snapshot] that a node agent returns.
//
// The package is pure: the caller queries Prometheus. A value that the exporter
// does not export stays unknown.
package dcgm

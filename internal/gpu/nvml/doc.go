// Package nvml reads a machine's GPUs through NVIDIA's driver library and keeps
// the recent readings as [gpu.Snapshot] values. It is the only package that
// imports go-nvml, and only `responder agent` uses it.
//
// Every call of the driver may hang forever, so callers never make one. One
// goroutine per GPU does, another waits for events, and [Collector.Snapshot]
// returns what they have stored. After half a second a hanging call makes the
// readings of that GPU unknown (timeout). The call cannot be interrupted. When it
// returns, sampling continues.
//
// A driver library lacks functions that are newer than it, and calling a missing
// one ends the process. Every function is therefore looked up before it is called;
// a missing one leaves its value unknown (old driver).
//
// Times are kept by the monotonic clock and written by the present wall clock, so
// a clock that jumps does not distort the history.
//
// go-nvml needs cgo. Built without it, the package compiles and a Collector
// reports that it cannot read anything.
package nvml

// Package nvml reads a machine's GPUs through NVIDIA's driver library and keeps
// what was read lately, as [gpu.Snapshot] values. It is the only package that
// imports go-nvml, and only `responder agent` uses it.
//
// Every call of the driver may hang for ever, so nobody who asks ever makes
// one: a goroutine for each GPU does, another waits for events, and
// [Collector.Snapshot] looks at what they left. A call that has not returned
// after half a second turns the readings of that GPU into unknown (timeout); it
// is left where it is, because nothing can interrupt it, and when it returns
// sampling goes on.
//
// A driver library may lack any function that came later than it, and calling a
// missing one ends the process, so every function is looked up before it is
// called; what is missing is unknown (old driver).
//
// Times are kept by the monotonic clock and written by the present wall clock,
// so a clock that jumps bends no history.
//
// go-nvml needs cgo. Built without it, the package compiles and a Collector
// answers that it cannot read anything.
package nvml

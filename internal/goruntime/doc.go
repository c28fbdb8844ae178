// Package goruntime says how the service has Go's runtime run: on how many
// processors, with how much memory, and when it collects garbage. All of it applies to
// the whole process, so only main and benchmarks of the service call it.
package goruntime

// Package goruntime says how the service has Go's runtime run: on how many
// processors, and when it collects garbage. Both are the whole process's, so
// only main and benchmarks that measure what the service would do call it.
package goruntime

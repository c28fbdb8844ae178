// Package engine renders Helm charts with Helm's own engine, for the program
// responder-helm. Templates keep every exported method in a binary, and can take any
// amount of time and memory, so that the service starts this program for each
// rendering and does not link it.
//
// [Main] renders closed: no cluster, no lookup, no network, no file, no environment.
// The chart and its values come from the standard input. Dependencies that are not
// vendored in charts/ are an error. A values.schema.json that refers to other
// documents is not checked, because Helm would fetch them.
package engine

//go:build !failpoints

package main

// failpoint gives nothing: places to die at are compiled in with the tag
// failpoints only.
func failpoint(func(string) string) func(string) error { return nil }

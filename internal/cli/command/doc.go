// Package command is what every command shares: the process it runs in
// ([Process]), the flag -o ([Output]), exit codes, temporary directories that are
// removed with the process, and failpoints for tests of crashes.
package command

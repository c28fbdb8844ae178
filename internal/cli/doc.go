// Package cli is the command line: one file for each command, named after it.
// [Run] is the whole program without the process around it.
//
// Commands that ask a running service use internal/cli/client; commands that act
// on a configuration build what they need with internal/app. It is the only
// package that knows flags and, through [command.Process], the environment. Data
// goes to standard output in the format of -o, everything else to standard error.
package cli

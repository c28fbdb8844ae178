// Package command reads the command line of a container as Kubernetes and a
// shell do, and finds the flags of serving engines in it.
//
// [ReadLine] follows command and args, scripts that a shell runs, and the
// environment variables that the command line expands. Each argument keeps the
// document and the bytes that it is written in. [Line.Hits] finds a flag in any
// spelling that engines accept, and returns an error for a mention that cannot be
// read for certain. [Hit.Site] is where its value is changed, and [Line.Missing]
// where a flag that is not set is added.
//
// Scripts are split with mvdan.cc/sh. Not followed: what $(...) runs, nested
// quotes, and here-documents that a program other than cat and tee reads.
package command

// Package runview turns runs and their events into words, tables and pictures,
// once, for the command line, the page, Slack and the demo.
//
// Everything shown is data from outside: [Printable] and [Cell] remove control
// characters before it reaches a terminal.
package runview

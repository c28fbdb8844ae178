// Package runview turns runs and their events into words, tables and pictures,
// once, for the command line, the page, Slack and the demo.
//
// Everything shown is data from outside: [Inline] and [Cell] keep it on one line, and
// with [Printable] they replace what could steer a terminal or hide text.
package runview

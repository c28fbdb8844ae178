// Package review turns one run, or all runs of a period, into a document that people
// read afterwards. The document is made once and rendered twice: as Markdown and as one
// HTML file that needs nothing from outside. A period also has a brief for a message.
//
// Everything shown is data from outside. The renderers escape it; nothing else may. A
// brief is plain text, which the channels escape.
// Only the command line and internal/app call this package.
package review

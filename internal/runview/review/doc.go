// Package review turns one run, or all runs of a period, into a document that people
// read afterwards. The document is made once and rendered twice: as Markdown and as one
// HTML file that needs nothing from outside.
//
// Everything shown is data from outside. The renderers escape it; nothing else may.
// Only the command line calls this package.
package review

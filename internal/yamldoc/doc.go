// Package yamldoc reads YAML strictly and knows the place of everything: every
// complaint carries file, line and column, down to a character inside a folded
// or quoted text, and a hint where there is a remedy.
//
// [Documents] cuts a file and refuses anchors, aliases, tags, directives and
// deep nesting. [Document.Mapping] reads a mapping whose keys must be known and
// given once; its methods read scalars of one type. Nothing is guessed: a
// number where a text is wanted is a problem, not a text.
//
// The package knows nothing of what it reads. It opens no files; whoever calls
// it hands in the bytes. A Document is for one goroutine.
package yamldoc

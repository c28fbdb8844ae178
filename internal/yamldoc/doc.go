// Package yamldoc reads YAML strictly and reports every error with file, line
// and column, down to a character inside a folded or quoted text, and with a
// hint if there is a remedy.
//
// [Documents] splits a file and refuses anchors, aliases, tags, directives and
// deep nesting. [Document.Mapping] reads a mapping whose keys must be known and
// unique; its methods read scalars of one type. Nothing is guessed: a number in
// place of a text is an error.
//
// The package knows nothing of the content and opens no files. A Document is
// not safe for concurrent use.
package yamldoc

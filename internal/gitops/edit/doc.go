// Package edit reads YAML files with the place of every value, and changes only
// the bytes of one value.
//
// [Documents] splits a file into documents, and refuses a file that cannot be
// edited safely: an encrypted one, one with conflict markers, one that is too
// large. [Document.Parse] refuses a document that has more than one meaning.
// [Merge] merges nodes without copying them, so that a merged tree still shows
// which document each node is written in.
//
// A change is a [Splice]: the methods of [Document] that return one compute the
// bytes to replace and the tree that must result. [Document.Apply] parses the
// result and returns an error if it is any other tree, or if another document of
// the file changed. Aliases are refused where a change would change two values.
//
// Errors are of type [*fault.Error] and name the file, line and column.
package edit

package command

// FlagGroup is the annotation of flags that --help lists under a heading of their
// own, which is its value.
const FlagGroup = "responder/group"

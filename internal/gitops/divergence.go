package gitops

import (
	"fmt"
	"strings"
)

// Divergence is the cause of a [fault.Conflict]: what happened on the branch since the
// state that a change was made for.
type Divergence struct {
	Base, Head string // commits: the one the change was made for, and the branch's now
	Rewritten  bool   // the branch no longer holds Base: somebody pushed with force
	Files      []DivergedFile
}

// DivergedFile is a file that the change and a later commit of the branch both change.
type DivergedFile struct {
	Path      string
	SameLines bool     // the very lines, or their neighbours; otherwise others of the file
	Lines     string   // the others' lines, in Head: "12", "12-14"; empty: the whole file
	By        []Commit // who changed it, newest first; empty: not known
}

// SameLines reports whether a commit changed the lines of the change, so that a
// person must decide whether to make it again.
func (m *Divergence) SameLines() bool {
	for _, f := range m.Files {
		if f.SameLines {
			return true
		}
	}
	return false
}

// Error returns who changed what.
func (m *Divergence) Error() string {
	var b strings.Builder
	if m.Rewritten {
		fmt.Fprintf(&b, "commit %.10s is no longer on the branch (somebody pushed with force), which is at %.10s", m.Base, m.Head)
	} else {
		fmt.Fprintf(&b, "the branch moved from %.10s to %.10s", m.Base, m.Head)
	}
	if len(m.Files) == 0 {
		b.WriteString("; the files of this change did not")
	}
	for _, f := range m.Files {
		switch {
		case f.Lines == "":
			fmt.Fprintf(&b, "; %s is another file", f.Path)
		case f.SameLines:
			fmt.Fprintf(&b, "; %s:%s changed, the lines of this change", f.Path, f.Lines)
		default:
			fmt.Fprintf(&b, "; %s:%s changed, other lines than this change's", f.Path, f.Lines)
		}
		if len(f.By) > 0 {
			fmt.Fprintf(&b, " (%.10s by %s)", f.By[0].SHA, f.By[0].Author.Name)
		}
	}
	return b.String()
}

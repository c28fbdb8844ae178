package yamldoc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/spelling"
)

// Problem is an error in a document, with its place and, if there is one, the
// remedy.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`           // 1-based; 0: the whole file
	Column  int    `json:"column"`         // 1-based, in characters
	Path    string `json:"path,omitempty"` // e.g. spec.states.triage.next[0].when
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do about it
}

// String returns the problem in one line: file:line:column: path: message
// (hint).
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Problems are all errors in one or more documents, in the order of their
// places.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Sorted returns the problems in the order of their places, without exact
// repeats.
func (ps Problems) Sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ps)
}

// Err returns the problems as an error, or nil if there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps.Sorted()
}

// DidYouMean returns a hint that names the candidate closest to got, or lists
// all candidates if none is close.
func DidYouMean(got string, candidates []string) string {
	if best := spelling.Nearest(got, candidates); best != "" {
		return fmt.Sprintf("did you mean %q? allowed: %s", best, strings.Join(candidates, ", "))
	}
	if len(candidates) == 0 {
		return ""
	}
	return "allowed: " + strings.Join(candidates, ", ")
}

package gitops

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// notFound returns a [*fault.Error] with the reason NotFound.
func notFound(format string, args ...any) error {
	return &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf(format, args...)}
}

// ambiguous returns the error about places of which only one may take effect.
func ambiguous(places []Place, why string) error {
	return undecided(places, why, "name the one that counts, or leave it in one place only")
}

// undecided is like ambiguous, with what to do.
func undecided(places []Place, why, decides string) error {
	var at []string
	for _, p := range places {
		at = append(at, fmt.Sprintf("%s:%d:%d (%s, %s)", p.File, p.Line, p.Column, p.Object, p.Path))
	}
	return &ambiguousError{
		places: places,
		err:    &fault.Error{Reason: fault.Ambiguous, Message: why + ": " + strings.Join(at, ", ") + ": " + decides},
	}
}

// ambiguousError carries the places to Locate.
type ambiguousError struct {
	places []Place
	err    error // with a [*fault.Error]
}

// Error returns the message of the error for callers.
func (e *ambiguousError) Error() string { return e.err.Error() }

// Unwrap returns the error for callers.
func (e *ambiguousError) Unwrap() error { return e.err }

// placeOf returns the place of a site.
func placeOf(s *edit.Site) Place {
	p := Place{
		File: s.File(), Line: s.Line, Column: s.Column, Object: s.Object.String(),
		Path: s.Path, Form: s.Form, Container: s.Container, Engine: s.Engine, Value: s.Value, Missing: s.Missing, Unknown: s.Unknown, Why: s.Why,
	}
	if s.Object.Kind != edit.ValuesKind {
		p.Kind, p.Name = s.Object.Kind, s.Object.Name
	}
	if s.Doc != nil {
		p.Document = s.Doc.Stream()
		if s.Doc.Role != "" {
			p.Object = s.Doc.Role
		}
	}
	return p
}

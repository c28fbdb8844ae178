package gitops

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// site is a place and how to change it.
type site struct {
	place  Place
	object *object
	doc    *edit.Document
	node   *yaml.Node
	set    func(value string) (edit.Splice, error)
	unset  func() (edit.Splice, error) // nil: it cannot be taken away
}

// site makes the place of a node; doc is nil when it has no single one.
func (o *object) site(doc *edit.Document, n *yaml.Node, p Place) *site {
	p.Object = o.String()
	if o.kind != helmKind {
		p.Kind, p.Name = o.kind, o.name
	}
	s := &site{place: p, object: o, doc: doc, node: n}
	if doc != nil {
		s.place.File, s.place.Document = doc.File, doc.Stream()
		s.place.Line, s.place.Column = doc.Position(n)
		if doc.Role != "" {
			s.place.Object = doc.Role
		}
		if doc.Role == patchRole {
			s.place.Why += "; a patch wins over what it patches"
		}
	}
	return s
}

// at moves the place to a byte of the scalar's value.
func (s *site) at(i int) {
	if s.doc == nil {
		return
	}
	if line, column, ok := s.doc.PositionIn(s.node, i); ok {
		s.place.Line, s.place.Column = line, column
	}
}

func notFound(format string, args ...any) error {
	return &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf(format, args...)}
}

// ambiguous names the places between which nothing decides.
func ambiguous(places []Place, why string) error {
	return undecided(places, why, "name the one that counts, or leave it in one place only")
}

// undecided is ambiguous, with what to do so that something decides.
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

// ambiguousError carries the places along to Locate.
type ambiguousError struct {
	places []Place
	err    error // with a [*fault.Error]
}

// Error says the message of the error that callers know.
func (e *ambiguousError) Error() string { return e.err.Error() }

// Unwrap gives the error that callers know.
func (e *ambiguousError) Unwrap() error { return e.err }

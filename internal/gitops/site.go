package gitops

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"go.yaml.in/yaml/v3"
)

// site is a place and how to change it.
type site struct {
	place  Place
	object *object
	doc    *document
	node   *yaml.Node
	set    func(value string) (splice, error)
	unset  func() (splice, error) // nil: it cannot be taken away
}

// site makes the place of a node; doc is nil when it has no single one.
func (o *object) site(doc *document, n *yaml.Node, p Place) *site {
	p.Object = o.String()
	if o.kind != helmKind {
		p.Kind, p.Name = o.kind, o.name
	}
	s := &site{place: p, object: o, doc: doc, node: n}
	if doc != nil {
		s.place.File, s.place.Document = doc.file, doc.stream()
		s.place.Line, s.place.Column = doc.position(n)
		if doc.role != "" {
			s.place.Object = doc.role
		}
		if doc.role == patchRole {
			s.place.Why += "; a patch wins over what it patches"
		}
	}
	return s
}

// stream is the document's number in its file.
func (d *document) stream() int {
	for d.outer != nil {
		d = d.outer.doc
	}
	return d.index
}

// at moves the place to a byte of the scalar's value.
func (s *site) at(i int) {
	if s.doc == nil {
		return
	}
	t, err := s.doc.text(s.node)
	switch {
	case err != nil:
	case i < len(t.from):
		s.place.Line, s.place.Column = s.doc.place(t.from[i])
	case i > 0:
		s.place.Line, s.place.Column = s.doc.place(t.to[i-1])
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

package edit

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
)

// PatchRole is the role of a document that patches objects.
const PatchRole = "kustomize patch"

// ValuesKind is the kind of an object that is the values of a Helm chart.
const ValuesKind = "Helm values"

// Object is one Kubernetes object as it is applied, or the values of a chart.
type Object struct {
	Kind, Namespace, Name string

	Root    *yaml.Node
	Docs    []*Document // that its parts are written in, base first
	Former  []string    // names it had before kustomizations changed them, the written one first
	Builder string      // directory of the kustomization that builds it; empty: none
	Why     string      // how it is made, unless it is one manifest as written
	Prefix  string      // of paths, when it is a part of a larger object
	Holder  *Object     // the object that holds these values; nil: they are a file, or no values
}

// HeldBy returns the values as those that an object holds.
func (o *Object) HeldBy(holder *Object) *Object {
	c := *o
	c.Holder, c.Builder = holder, holder.Builder
	return &c
}

// Deployed returns the object that is deployed: the one that holds it, or itself.
func (o *Object) Deployed() *Object {
	if o.Holder != nil {
		return o.Holder
	}
	return o
}

// String returns the kind, namespace and name.
func (o *Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Called reports whether a name is that of the object, or one that it had before a
// kustomization changed it.
func (o *Object) Called(name string) bool { return name == o.Name || slices.Contains(o.Former, name) }

// Written returns the name in the manifest, before a kustomization changes it.
func (o *Object) Written() string {
	if len(o.Former) > 0 {
		return o.Former[0]
	}
	return o.Name
}

// Rename changes the name of the object.
func (o *Object) Rename(name string) {
	if name != o.Name {
		o.Former, o.Name = append(slices.Clone(o.Former), o.Name), name
	}
}

// DocOf returns the document that a node of the object is written in. It is nil
// for a node that is merged from several documents.
func (o *Object) DocOf(n *yaml.Node) *Document {
	for _, d := range o.Docs {
		if d.Holds(n) {
			return d
		}
	}
	return nil
}

// Invalid returns an error about a node of the object.
func (o *Object) Invalid(n *yaml.Node, message string) error {
	if d := o.DocOf(n); d != nil {
		return d.Invalid(n, message)
	}
	return &fault.Error{Reason: fault.Invalid, Message: o.String() + ": " + message}
}

// NotFound returns an [*fault.Error] with the reason NotFound about the object.
func (o *Object) NotFound(message string) error {
	return &fault.Error{Reason: fault.NotFound, Message: o.String() + ": " + message}
}

// Part returns the part of the object that a path leads to.
func (o *Object) Part(n *yaml.Node, path string) *Object {
	c := *o
	c.Root, c.Prefix = n, path+"."
	return &c
}

// Site is where a value is written, or would be added, and how to change it.
type Site struct {
	Object       *Object
	Doc          *Document  // nil: the value is put together from several documents
	Node         *yaml.Node // the scalar, or what the value would be added to
	Line, Column int        // of the value in the file; 0: no single document

	Path      string // of the value in the object, for people
	Form      string // how the value is written: "--flag=value", "--flag value", "boolean", "shell", "env", "config", "field", "values"
	Container string // that the value belongs to; empty: none
	Engine    string // that the container runs; empty: none, or not known
	Value     string // as written, without quotes; "true" or "false" for a boolean; if missing, what a chart renders without it
	Missing   bool   // not set; set adds it
	Unknown   string // of a missing one: why it may be set all the same; empty: it certainly is not
	Why       string // why this is the value that takes effect

	Set   func(value string) (Splice, error)
	Unset func() (Splice, error) // nil: it cannot be removed
}

// Site returns s with the place of a node of the object. doc is nil if the node
// is written in no single document.
func (o *Object) Site(doc *Document, n *yaml.Node, s Site) *Site {
	s.Object, s.Doc, s.Node = o, doc, n
	if doc != nil {
		s.Line, s.Column = doc.Position(n)
		if doc.Role == PatchRole {
			s.Why += "; a patch wins over what it patches"
		}
	}
	return &s
}

// At moves the place to a byte of the scalar's value.
func (s *Site) At(i int) {
	if s.Doc == nil {
		return
	}
	if line, column, ok := s.Doc.positionIn(s.Node, i); ok {
		s.Line, s.Column = line, column
	}
}

// File returns the path of the file, or "" if the site is in no single document.
func (s *Site) File() string {
	if s.Doc == nil {
		return ""
	}
	return s.Doc.File
}

// Value is a text that a manifest sets: a scalar, a part of one, or a whole file.
type Value struct {
	Doc       *Document
	Node      *yaml.Node // the scalar; nil: the value is a file, or only the running pod has it
	Begin     int        // of the value in the scalar's text: KEY=value in a list of literals or an env file
	After     int        // bytes of the scalar's text after the value
	Path      string     // for people
	File      string     // the value is this whole file
	ConfigMap bool       // Kubernetes does not expand $(NAME) in it
}

// Text returns the value as the manifest has it.
func (v *Value) Text() string { return v.Node.Value[v.Begin : len(v.Node.Value)-v.After] }

// Site returns where the value is written.
func (v *Value) Site(o *Object, why string) *Site {
	s := o.Site(v.Doc, v.Node, Site{Path: v.Path, Form: "env", Value: v.Text(), Why: why})
	s.Set = func(to string) (Splice, error) {
		if v.Begin > 0 {
			return v.Doc.ReplaceText(v.Node, v.Begin, len(v.Node.Value)-v.After, to)
		}
		return v.Doc.SetScalar(v.Node, to)
	}
	s.At(v.Begin)
	return s
}

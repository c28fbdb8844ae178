package edit

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
)

// Number returns the site of a whole number of the object, or, if it is missing, of
// the mapping to add it to.
func (o *Object) Number(why string, at ...string) (*Site, error) {
	key := at[len(at)-1]
	parent := Get(o.Root, at[:len(at)-1]...)
	if o.Why != "" {
		why += "; " + o.Why
	}
	if !IsMap(parent) || len(parent.Content) == 0 {
		return nil, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("%s has no %s", o, strings.Join(at[:len(at)-1], "."))}
	}
	n := Get(parent, key)
	place := Site{Path: o.Prefix + strings.Join(at, "."), Form: "field", Why: why}
	if o.Prefix != "" {
		place.Form = "values"
	}
	if n == nil {
		doc := o.DocOf(parent)
		if doc == nil {
			doc, parent = o.lastHolder(at[:len(at)-1])
		}
		if doc == nil {
			return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %s is assembled by patches: add %s in one of them", o, strings.Join(at[:len(at)-1], "."), key)}
		}
		place.Missing = true
		s := o.Site(doc, parent, place)
		s.Set = func(v string) (Splice, error) {
			return doc.AddScalar(parent, key, v)
		}
		return s, nil
	}
	doc := o.DocOf(n)
	if n.Kind != yaml.ScalarNode || doc == nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %s is not a number (a template?)", o, strings.Join(at, "."))}
	}
	if _, err := strconv.Atoi(n.Value); err != nil {
		return nil, doc.Invalid(n, strings.Join(at, ".")+" is not a whole number")
	}
	place.Value = n.Value
	s := o.Site(doc, n, place)
	s.Set = func(v string) (Splice, error) { return doc.SetScalar(n, v) }
	s.Unset = func() (Splice, error) { return doc.RemoveKey(parent, key) }
	return s, nil
}

// lastHolder returns a mapping as the last document of the object that has it.
func (o *Object) lastHolder(at []string) (*Document, *yaml.Node) {
	for i := len(o.Docs) - 1; i >= 0; i-- {
		root, err := o.Docs[i].Parse()
		if n := Get(root, at...); err == nil && IsMap(n) && len(n.Content) > 0 {
			return o.Docs[i], n
		}
	}
	return nil, nil
}

// Bound returns the site of the lower or, if bound is "max", of the upper one of two
// numbers. Setting one returns an error if it would cross the other.
func (o *Object) Bound(bound, why string, at []string, low, high string) (*Site, error) {
	mine, other := low, high
	if bound == "max" {
		mine, other = high, low
	}
	s, err := o.Number(why, append(at[:len(at):len(at)], mine)...)
	if err != nil {
		return nil, err
	}
	set := s.Set
	s.Set = func(value string) (Splice, error) {
		n := Get(o.Root, append(at[:len(at):len(at)], other)...)
		wanted, _ := strconv.Atoi(value)
		if n != nil {
			limit, err := strconv.Atoi(n.Value)
			if err != nil || mine == low && wanted > limit || mine == high && wanted < limit {
				return Splice{}, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: %s: %s cannot be %s while %s is %s: change that first", s.File(), o, mine, value, other, Clip(n.Value))}
			}
		}
		return set(value)
	}
	return s, nil
}

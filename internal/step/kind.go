package step

import "github.com/inference-responder/responder/internal/playbook"

// Kind couples a declaration with what carries it out. Exactly one of Check and
// Lever is set, as the declaration's role says. A step receives only the
// dependencies it needs.
type Kind struct {
	Decl  playbook.Kind
	Check func(Deps) Check
	Lever func(Deps) Lever
}

// Limit makes the pointer a field's Min and Max want.
func Limit(v float64) *float64 { return &v }

// Scalar is the type of that name.
func Scalar(name playbook.TypeName) playbook.Type { return playbook.Type{Name: name} }

// ListOf is the type of a list of elem.
func ListOf(elem playbook.Type) playbook.Type {
	return playbook.Type{Name: playbook.List, Elem: &elem}
}

// MapOf is the type of a map from strings to elem.
func MapOf(elem playbook.Type) playbook.Type {
	return playbook.Type{Name: playbook.Map, Elem: &elem}
}

// Object is the type of an object with these fields.
func Object(fields ...playbook.Field) playbook.Type {
	return playbook.Type{Name: playbook.Object, Fields: fields}
}

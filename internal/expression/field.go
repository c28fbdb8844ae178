package expression

import "slices"

// Field is one declared field: of a variable, a piece of evidence, or a
// parameter of a step.
type Field struct {
	Name     string
	Type     Type
	Doc      string
	Unit     string   // seconds, ratio, replicas, ...; empty where none applies
	Required bool     // parameters only
	Default  any      // parameters only; nil: none
	Enum     []string // strings only: the allowed values
	Min, Max *float64 // numbers and, in seconds, durations only; inclusive

	Above, Below *float64 // numbers only; exclusive
}

// Words returns the allowed values of a string as they are shown: the empty one
// in quotes.
func (f Field) Words() []string {
	out := slices.Clone(f.Enum)
	for i, word := range out {
		if word == "" {
			out[i] = `""`
		}
	}
	return out
}

// Type is the type of a field: a scalar, a list or an object.
type Type struct {
	Name   TypeName
	Elem   *Type   // of a list or a map's values
	Fields []Field // of an object
}

// TypeName is the name of a type. The names map one to one to CEL's types. A
// Duration is written like 5m; a Query is a string of PromQL.
type TypeName string

// The types.
const (
	String    TypeName = "string"
	Int       TypeName = "int"
	Double    TypeName = "double"
	Bool      TypeName = "bool"
	Duration  TypeName = "duration"
	Timestamp TypeName = "timestamp"
	Query     TypeName = "query" // a string that must parse as PromQL once its ${...} are filled in
	List      TypeName = "list"
	Map       TypeName = "map" // string keys
	Object    TypeName = "object"
)

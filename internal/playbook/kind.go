package playbook

// Role says what a kind of step is.
type Role string

// The roles a kind can have.
const (
	RoleCheck Role = "check" // reads the world, changes nothing, yields evidence
	RoleLever Role = "lever" // one mutating, reversible, single-variable change
)

// Kind is the declaration of one kind of check or lever, against which
// playbooks are compiled. Package step declares them; this package knows none.
type Kind struct {
	Name string // e.g. prometheus.query
	Role Role
	Doc  string  // one paragraph for the reference, Markdown
	With []Field // parameters, in the order the reference shows them
	// OneOf lists groups of parameters of each of which exactly one is given.
	OneOf [][]string
	// Idempotent levers may be applied again after a failure; others are applied once.
	Idempotent bool
	Out        []Field // evidence a check yields, or the facts a lever's plan yields; what out.* is checked against
}

// Field is one parameter or one piece of evidence.
type Field struct {
	Name     string
	Type     Type
	Doc      string
	Unit     string   // seconds, ratio, replicas, ...; empty where none applies
	Required bool     // parameters only
	Default  any      // parameters only; nil: none
	Enum     []string // strings only: the allowed values
	Min, Max *float64 // numbers only, inclusive
}

// Type is the type of a field: a scalar, a list or an object.
type Type struct {
	Name   TypeName
	Elem   *Type   // of a list or a map's values
	Fields []Field // of an object
}

// TypeName enumerates the types the language knows. They map one to one to
// CEL's types; Duration is written like 5m, Query is a string holding PromQL.
type TypeName string

// The types of the language.
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

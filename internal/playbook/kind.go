package playbook

import "github.com/inference-responder/responder/internal/expression"

// Role is the role of a kind of step.
type Role string

// The roles of kinds.
const (
	RoleCheck Role = "check" // reads the world, changes nothing, yields evidence
	RoleLever Role = "lever" // one mutating, reversible, single-variable change
)

// Kind declares one kind of check or lever. Playbooks are compiled against
// kinds. Package step declares them.
type Kind struct {
	Name string // e.g. prometheus.query
	Role Role
	Doc  string  // one paragraph of Markdown for the reference
	With []Field // parameters, in the order of the reference
	// OneOf lists groups of parameters; exactly one of each group is required.
	OneOf [][]string
	// Idempotent levers may be applied again after a failure; others are applied once.
	Idempotent bool
	// Request marks a lever that asks somebody else for something and changes
	// nothing that serves: once a run has verified a change, it needs no firing
	// alert. When the operator confirms that the request is not needed, Undo
	// withdraws it.
	Request bool
	// Class of a lever. Empty: ClassSetting.
	Class Class
	// Restarts is set if taking the change back restarts what serves. Such a
	// change of class setting that had no effect is taken back after the
	// incident, not during it.
	Restarts bool
	// Steps is the parameter of a lever that can be changed in steps; nil: none.
	Steps *Stepping
	Out   []Field // evidence of a check, or the facts of a lever's plan; type of out.*

	// Lint checks parameters beyond their declared fields. It gets the given
	// parameters, and the entries of maps, with nil for values that only a run
	// knows. It may be nil.
	Lint func(with map[string]any) []Complaint `json:"-"`
}

// Complaint is an error that [Kind.Lint] found in a parameter.
type Complaint struct {
	At      []string // name of the parameter; for an entry of a map, both names
	Message string
	Hint    string // what to do
}

// Field is one parameter or one piece of evidence.
type Field = expression.Field

// Type is the type of a field: a scalar, a list or an object.
type Type = expression.Type

// TypeName enumerates the types the language knows.
type TypeName = expression.TypeName

// The types of the language.
const (
	String    = expression.String
	Int       = expression.Int
	Double    = expression.Double
	Bool      = expression.Bool
	Duration  = expression.Duration
	Timestamp = expression.Timestamp
	Query     = expression.Query // a string that must parse as PromQL once its ${...} are filled in
	List      = expression.List
	Map       = expression.Map
	Object    = expression.Object
)

package engine

import (
	"fmt"
	"strings"
)

// Kind is the type of a flag's value.
type Kind string

// The kinds of flags.
const (
	Int    Kind = "int"    // a whole number, plain
	Size   Kind = "size"   // a whole number, also as 8k = 8000, 8K = 8192, 25.6k, 2G
	Float  Kind = "float"  // a number
	Bool   Kind = "bool"   // --flag, and --no-flag for false
	Switch Kind = "switch" // --flag, and nothing for false
	Enum   Kind = "enum"   // one of some words
	Text   Kind = "text"   // anything; only of flags that a run never changes
)

// Flag is one flag of a program.
type Flag struct {
	Name    string   // as the program documents it, without leading dashes
	Aliases []string // other names, without leading dashes: tp for -tp
	Kind    Kind
	Words   []string // all values of an Enum; values of a number besides numbers

	// Limits of a number, inclusive unless Above or Below is set; nil: none.
	Min, Max     *float64
	Above, Below bool

	Unit    string // of the number: tokens, requests, GiB; empty: none
	Default string // in words: the value if the flag is not set
	Trades  string // the effect of a larger or smaller value
	Source  string // file and name in it that set the limits
	Note    string // what changed between versions, or is easily misread

	// Compiles is set if the program compiles the value into its start, so that
	// the first start with a new value is slower.
	Compiles bool
	// Contract is set if clients are served differently; only of flags that a
	// run may change.
	Contract bool

	// Fixed is why a run never changes the flag; empty: it may.
	Fixed Reason
	// Removed is the replacement of a flag that the version no longer has.
	Removed string
}

// Reason is why a run never changes a flag, as text for people. It is no
// fault.Reason: nothing has failed.
type Reason string

// The reasons. A proof by latency, errors and traffic does not cover these.
const (
	Served  Reason = "it decides what is served, and a proof by latency and errors does not show whether the answers are still right"
	Answers Reason = "it changes the numerics of answers, and a proof by latency and errors does not show whether they are still right"
	Layout  Reason = "it depends on the GPUs, the pods and their peers, which no flag changes"
	Access  Reason = "it decides where the service is reached, by whom and with which credentials"
	Code    Reason = "it loads code"
	Sight   Reason = "it decides what is measured and logged, which proofs depend on"
	Several Reason = "it holds many settings, and one variable is changed at a time"
)

// Changeable reports whether a run may change the flag.
func (f Flag) Changeable() bool { return f.Fixed == "" && f.Removed == "" }

// changeable refuses a flag that a run never changes.
func (f Flag) changeable(p *Program) *Error {
	switch {
	case f.Fixed != "":
		return &Error{
			Problem: Fixed, Flag: f.Name,
			Message: fmt.Sprintf("--%s of %s is never changed by a run: %s", f.Name, p.Title, f.Fixed),
			Hint:    "change it manually, with a review and a test",
		}
	case f.Removed != "":
		return &Error{
			Problem: Removed, Flag: f.Name,
			Message: fmt.Sprintf("%s no longer has the flag --%s and would not start with it (%s)", p.Title, f.Name, p.Source), Hint: f.Removed,
		}
	}
	return nil
}

// Range describes the values that the flag takes.
func (f Flag) Range() string {
	switch f.Kind {
	case Bool:
		return "true or false"
	case Switch:
		return "true, or false to remove it"
	case Enum:
		return "one of " + strings.Join(f.Words, ", ")
	case Text:
		return ""
	}
	what := "a number"
	if f.Kind != Float {
		what = "a whole number"
	}
	switch {
	case strings.HasPrefix(f.Unit, "fraction"), strings.HasPrefix(f.Unit, "multiple"):
		what = "a " + f.Unit
	case f.Unit != "":
		what += " of " + f.Unit
	}
	if f.Kind == Size {
		what += ", also as 8k (8000) or 8K (8192)"
	}
	if b := f.bounds(); b != "" {
		what += ", " + b
	}
	if len(f.Words) > 0 {
		what += ", or " + strings.Join(f.Words, ", ")
	}
	return what
}

func (f Flag) bounds() string {
	var low, high string
	if f.Min != nil {
		low = fmt.Sprintf("at least %v", *f.Min)
		if f.Above {
			low = fmt.Sprintf("above %v", *f.Min)
		}
	}
	if f.Max != nil {
		high = fmt.Sprintf("at most %v", *f.Max)
		if f.Below {
			high = fmt.Sprintf("below %v", *f.Max)
		}
	}
	if low != "" && high != "" {
		return low + " and " + high
	}
	return low + high
}

// at returns a pointer for Min and Max.
func at(v float64) *float64 { return &v }

// fixed returns flags that are never changed for one reason. Aliases follow a
// name: "tensor-parallel-size tp".
func fixed(why Reason, names ...string) []Flag {
	out := make([]Flag, 0, len(names))
	for _, n := range names {
		all := strings.Fields(n)
		out = append(out, Flag{Name: all[0], Aliases: all[1:], Kind: Text, Fixed: why})
	}
	return out
}

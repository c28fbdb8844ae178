package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Engine is what a service runs, by its name in the catalog.
type Engine struct {
	Name     string // one of [Names]; empty: unknown
	Title    string // for people
	programs []*Program
}

// Program is a server with its own flags.
type Program struct {
	Name   string // vllm, sglang, dynamo, kserve
	Title  string
	Source string // version and files that the table was read from
	Flags  []Flag // sorted by name
	rules  []rule
}

// table holds all known programs. It is built on first use: a service whose
// playbooks change no flag never needs it.
var table = sync.OnceValue(func() programs {
	return programs{
		vllm:   newProgram("vllm", "vLLM", vllmSource, vllmRules(), vllmFlags(), vllmFixed(), vllmRemoved()),
		sglang: newProgram("sglang", "SGLang", sglangSource, sglangRules(), sglangFlags(), sglangFixed()),
		dynamo: newProgram("dynamo", "Dynamo", dynamoSource, nil, dynamoFixed()),
		kserve: newProgram("kserve", "KServe", kserveSource, nil, kserveFixed()),
	}
})

type programs struct{ vllm, sglang, dynamo, kserve *Program }

func newProgram(name, title, source string, rules []rule, flags ...[]Flag) *Program {
	p := &Program{Name: name, Title: title, Source: source, rules: rules, Flags: slices.Concat(flags...)}
	slices.SortFunc(p.Flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// Names returns the engines that a catalog may name, in their usual order.
func Names() []string { return []string{"vllm", "sglang", "dynamo", "kserve"} }

// Named returns the engine of a name; for an unknown or empty name it returns
// [Unstated] and false.
func Named(name string) (Engine, bool) {
	t := table()
	switch name {
	case "vllm":
		return Engine{name, "vLLM", []*Program{t.vllm}}, true
	case "sglang":
		return Engine{name, "SGLang", []*Program{t.sglang}}, true
	case "dynamo":
		return Engine{name, "Dynamo (runs vLLM or SGLang)", []*Program{t.vllm, t.sglang, t.dynamo}}, true
	case "kserve":
		return Engine{name, "KServe (runs vLLM)", []*Program{t.vllm, t.kserve}}, true
	}
	return Unstated(), false
}

// Running returns the engine with only the flags of the program that a container
// runs, and of the servers in front of it. It returns false if the engine does not
// run that program; every engine is taken to run one that is not known ("").
func (e Engine) Running(program string) (Engine, bool) {
	if program == "" {
		return e, true
	}
	t := table()
	own := map[string]*Program{"vllm": t.vllm, "sglang": t.sglang}[program]
	if own == nil {
		return Engine{Name: program, Title: program, programs: nil}, e.Name == "" || e.Name == "dynamo" || e.Name == "kserve"
	}
	out := Engine{Name: e.Name, Title: own.Title}
	if e.Name == "" {
		out.Name = program
	}
	for _, p := range e.programs {
		if p == own || p == t.dynamo || p == t.kserve {
			out.programs = append(out.programs, p)
		}
	}
	return out, slices.Contains(out.programs, own)
}

// Unstated returns the engine of a service whose engine is unknown: any.
func Unstated() Engine {
	t := table()
	return Engine{Title: "an unknown engine", programs: []*Program{t.vllm, t.sglang, t.dynamo, t.kserve}}
}

// Programs returns the programs whose flags the engine takes.
func (e Engine) Programs() []*Program { return slices.Clone(e.programs) }

// named is a flag with the program that has it.
type named struct {
	Flag
	program *Program
}

// find returns the flags of a name, in any spelling, one for each program.
func (e Engine) find(name string) []named {
	var out []named
	for _, p := range e.programs {
		if f, ok := p.Flag(name); ok {
			out = append(out, named{f, p})
		}
	}
	return out
}

// Flag returns the program's flag of a name or alias. Dashes equal underscores,
// and leading dashes are ignored.
func (p *Program) Flag(name string) (Flag, bool) {
	name = plain(name)
	for _, f := range p.Flags {
		if f.Name == name || slices.Contains(f.Aliases, name) {
			return f, true
		}
	}
	return Flag{}, false
}

// plain converts a flag's name to the table's spelling. The --no- form of a
// boolean is another value of the same flag, not a name.
func plain(name string) string {
	return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
}

// Flags returns the names of all flags that the engine takes, sorted.
func (e Engine) Flags() []string {
	var out []string
	for _, p := range e.programs {
		for _, f := range p.Flags {
			out = append(out, f.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Known returns the flag of a name. An [*Error] with Unknown names the flag
// that was probably meant. If two programs of the engine have the flag, it is
// the first one's.
func (e Engine) Known(name string) (Flag, *Error) {
	found := e.find(name)
	if len(found) == 0 {
		near := e.Nearest(name)
		hint := "'responder engine flags' lists the known flags"
		if near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return Flag{}, &Error{Problem: Unknown, Flag: name, Nearest: near, Message: fmt.Sprintf("%s --%s", e.lacks(), clip(plain(name))), Hint: hint}
	}
	return found[0].Flag, nil
}

// lacks returns the beginning of an error about an unknown flag.
func (e Engine) lacks() string {
	if e.Name == "" {
		return "no known engine (vLLM, SGLang, Dynamo, KServe) has the flag"
	}
	return e.Title + " has no known flag"
}

// Settable returns the flag of a name, if a run may change it. An [*Error]
// gives the reason if not: Unknown, Fixed or Removed. If two programs of the
// engine have the flag, both must allow the change.
func (e Engine) Settable(name string) (Flag, *Error) {
	first, unknown := e.Known(name)
	if unknown != nil {
		return Flag{}, unknown
	}
	for _, f := range e.find(name) {
		if err := f.changeable(f.program); err != nil {
			return f.Flag, err
		}
	}
	return first, nil
}

// Check is Settable for a value: an [*Error] may also be BadValue. If two
// programs of the engine have the flag, one of them must take the value.
func (e Engine) Check(name, value string) (Flag, *Error) {
	first, err := e.Settable(name)
	if err != nil {
		return first, err
	}
	for _, f := range e.find(name) {
		wrong := f.value(f.program, value)
		if wrong == nil {
			return f.Flag, nil
		}
		if err == nil {
			err = wrong
		}
	}
	return first, err
}

// Error is why a flag cannot be set. It is not a fault.Error: it concerns the
// table of flags and the input, not a failed request.
type Error struct {
	Problem Problem
	Flag    string
	Message string // what, why and its source
	Hint    string // what to do
	Nearest string // the flag that was probably meant; may be empty
}

// Problem is the kind of an [Error].
type Problem string

// The kinds of an [Error].
const (
	Unknown  Problem = "unknown"  // no program of the engine has such a flag
	Removed  Problem = "removed"  // the version of the table no longer has it
	Fixed    Problem = "fixed"    // a run never changes it
	BadValue Problem = "value"    // not of its type, or out of range
	Conflict Problem = "conflict" // with the value of another flag
)

// Error returns the message and the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// clip shortens user input for a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Engine is what a service runs, by the catalog's name for it.
type Engine struct {
	Name     string // one of [Names]; empty: not known
	Title    string // for people
	programs []*Program
}

// Program is a server with flags of its own.
type Program struct {
	Name   string // vllm, sglang, dynamo, kserve
	Title  string
	Source string // version and files that the table was read from
	Flags  []Flag // sorted by name
	rules  []rule
}

// table are all programs that are known. It is made when somebody asks for the
// first time: a service whose playbooks change no flag never does.
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

// Names are those of the engines that a catalog may name, in the order people
// list them.
func Names() []string { return []string{"vllm", "sglang", "dynamo", "kserve"} }

// Named gives the engine of that name; for a name that is not known, and for
// none, it is [Unstated] and false.
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

// Unstated is the engine of a service of which nobody said what it runs: any.
func Unstated() Engine {
	t := table()
	return Engine{Title: "an engine that is not known", programs: []*Program{t.vllm, t.sglang, t.dynamo, t.kserve}}
}

// Programs are those whose flags the engine takes.
func (e Engine) Programs() []*Program { return slices.Clone(e.programs) }

// named is a flag with the program that has it.
type named struct {
	Flag
	program *Program
}

// find gives the flags of that name, in any spelling, one for each program.
func (e Engine) find(name string) []named {
	var out []named
	for _, p := range e.programs {
		if f, ok := p.Flag(name); ok {
			out = append(out, named{f, p})
		}
	}
	return out
}

// Flag gives the program's flag of that name or alias. Dashes and underscores
// are the same, and so are dashes in front or none.
func (p *Program) Flag(name string) (Flag, bool) {
	name = plain(name)
	for _, f := range p.Flags {
		if f.Name == name || slices.Contains(f.Aliases, name) {
			return f, true
		}
	}
	return Flag{}, false
}

// plain is a flag's name in the table's spelling. The --no- form of a boolean
// is another value of the same flag, and nobody names it that way.
func plain(name string) string {
	return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
}

// Flags lists the names of all flags that the engine takes, sorted.
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

// Known gives the flag of that name; an [*Error] with Unknown says which one was
// probably meant. Where two programs of the engine have it, it is the first one's.
func (e Engine) Known(name string) (Flag, *Error) {
	found := e.find(name)
	if len(found) == 0 {
		near := e.Nearest(name)
		hint := "'responder engine flags' lists those that are known"
		if near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return Flag{}, &Error{Problem: Unknown, Flag: name, Nearest: near, Message: fmt.Sprintf("%s --%s", e.lacks(), clip(plain(name))), Hint: hint}
	}
	return found[0].Flag, nil
}

// lacks begins the sentence that a flag is none.
func (e Engine) lacks() string {
	if e.Name == "" {
		return "no engine that is known (vLLM, SGLang, Dynamo, KServe) has a flag"
	}
	return e.Title + " has no flag that is known as"
}

// Settable gives the flag of that name, if a run may change it. An [*Error] says
// why not: Unknown, Fixed or Removed. Where two programs of the engine have the
// flag, it is not enough that one lets it be changed.
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

// Check is Settable for a value: an [*Error] may also be BadValue. Where two
// programs of the engine have the flag, it is enough that one takes the value.
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

// Error is why a flag is not set. It is no fault.Error: it is about the table
// of flags and what was written, not about a request that failed.
type Error struct {
	Problem Problem
	Flag    string
	Message string // what, why and where it comes from
	Hint    string // what to do
	Nearest string // flag that was probably meant; empty: none
}

// Problem is the kind of an [Error].
type Problem string

// The problems.
const (
	Unknown  Problem = "unknown"  // no program of the engine has such a flag
	Removed  Problem = "removed"  // the version that was read has it no longer
	Fixed    Problem = "fixed"    // a run never changes it
	BadValue Problem = "value"    // not of its type, or out of its range
	Conflict Problem = "conflict" // with the value of another flag
)

// Error says the message and the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// clip keeps what somebody wrote short enough for a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

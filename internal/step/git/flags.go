package git

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// What may be done with a flag that no table knows. Empty is change, for a flag
// whose name is only known once the run is there.
const (
	unknownChange = "change" // where it stands in Git already
	unknownAdd    = "add"    // where it does not, too
)

// FlagRules holds what the flags of a service are checked against.
type FlagRules struct {
	Service string
	Engine  string // as the catalog names it; empty: not known
	Unknown string // what may be done with flags that no table knows: change (or empty), add
	Name    string // what to do so that the engine is known

	// Look returns where variables stand in Git, of one container where it is named.
	Look func(container string, vs []gitops.Variable) ([]gitops.Place, error)
}

// CheckedFlags are flags that the engine takes.
type CheckedFlags struct {
	Set      []gitops.Assignment // by the names that the engine's table has
	Notes    []string            // what people should know before they say yes
	Contract []string            // flags with which clients are served other than before
}

// CheckFlags refuses flags that the engine of a service does not take: unknown
// flags that would be added, values of a wrong type or out of range, flags that
// a run never changes, and flags that contradict others that are set. The engine is
// the one that the flag's container runs, as far as its manifest tells.
func CheckFlags(r FlagRules, wanted []gitops.Assignment) (CheckedFlags, error) {
	e, known := engine.Named(r.Engine)
	c := flagCheck{FlagRules: r, engine: e, stated: known}
	for _, a := range wanted {
		f, err := judge(e, a)
		if err != nil {
			return CheckedFlags{}, err
		}
		name := f.Variable.Flag
		if slices.ContainsFunc(c.flags, func(b wantedFlag) bool { return b.Variable.Flag == name }) {
			return CheckedFlags{}, step.Invalid("--%s is given twice, in two spellings", name)
		}
		c.flags = append(c.flags, f)
	}
	if err := c.places(); err != nil {
		return CheckedFlags{}, err
	}
	if err := c.together(); err != nil {
		return CheckedFlags{}, err
	}
	return c.result(), nil
}

// flagCheck is the state of one call of CheckFlags.
type flagCheck struct {
	FlagRules
	engine engine.Engine
	stated bool
	flags  []wantedFlag
}

// wantedFlag is a flag to set, checked against the engine's table.
type wantedFlag struct {
	gitops.Assignment
	engine    engine.Engine // it was checked against
	container string        // that it is set in; empty: of all, or not known
	runs      string        // the program of that container; empty: not known
	note      string
	contract  bool
	unknown   *engine.Error // no table has it; nil: one does
}

// judge checks one flag and its value alone.
func judge(e engine.Engine, a gitops.Assignment) (wantedFlag, error) {
	out := wantedFlag{Assignment: a, engine: e}
	f, err := e.Check(a.Variable.Flag, a.Value)
	if environment(a.Variable) {
		err = &engine.Error{Problem: engine.Unknown, Message: a.Variable.Flag + " is an environment variable, which no flag table covers"}
	}
	switch {
	case err == nil:
		out.Variable.Flag, out.Variable.Switch = f.Name, f.Kind == engine.Switch
		out.note, out.contract = trade(f), f.Contract
	case err.Problem == engine.Unknown || err.Problem == engine.Removed:
		out.unknown, out.note = err, err.Message+": its value is not checked"
	default:
		return out, refusedFlag(err)
	}
	return out, nil
}

// result returns what is to be set, with the notes for people.
func (c *flagCheck) result() CheckedFlags {
	var out CheckedFlags
	runs := ""
	for _, f := range c.flags {
		out.Set = append(out.Set, f.Assignment)
		out.Notes = append(out.Notes, f.note)
		if f.contract {
			out.Contract = append(out.Contract, f.Variable.Flag)
		}
		runs = cmp.Or(runs, f.runs)
	}
	switch {
	case c.stated:
	case runs != "":
		out.Notes = append(out.Notes, fmt.Sprintf("the container runs %s, which the catalog does not say of service %s: %s", runs, c.Service, c.Name))
	default:
		out.Notes = append(out.Notes, fmt.Sprintf("the engine of service %s is not known, so the values were checked against all engines: %s", c.Service, c.Name))
	}
	return out
}

// environment reports whether a variable is an environment variable.
func environment(v gitops.Variable) bool { return v.String() == v.Flag }

// trade returns the trade-off of a flag, for people.
func trade(f engine.Flag) string {
	text := "--" + f.Name + ": " + f.Trades
	if f.Compiles {
		text += "; the engine compiles anew, so that its first start is slower"
	}
	return text
}

// places looks where the flags stand, checks them against what runs there, and
// refuses to add what is not known.
func (c *flagCheck) places() error {
	var vs []gitops.Variable
	for _, f := range c.flags {
		vs = append(vs, f.Variable)
	}
	places, err := c.Look("", vs)
	if err != nil {
		return err
	}
	if len(places) != len(vs) {
		return step.Invalid("%d flags were looked up, %d places were returned", len(vs), len(places))
	}
	for i, p := range places {
		f := &c.flags[i]
		if err := c.runsThere(f, p); err != nil {
			return err
		}
		if !p.Missing || c.Unknown == unknownAdd {
			continue
		}
		if f.unknown != nil {
			return step.Invalid("%s; Git does not set it, and an unknown flag is added only with unknown_flag: add (--unknown-flag add)", f.unknown)
		}
		if !c.stated && f.runs == "" {
			return step.Invalid("%s is not set in Git, and the engine of service %s is unknown: %s; unknown_flag: add (--unknown-flag add) adds it anyway", vs[i], c.Service, c.Name)
		}
	}
	return nil
}

// runsThere checks a flag against the program that the container of its place runs.
func (c *flagCheck) runsThere(f *wantedFlag, p gitops.Place) error {
	f.container, f.runs = p.Container, p.Engine
	if p.Engine == "" || environment(f.Variable) {
		return nil
	}
	e, runs := c.engine.Running(p.Engine)
	if !runs {
		return step.Invalid("%s: the container %s of %s runs %s, and the engine of service %s is %s", f.Variable, p.Container, p.Object, e.Title, c.Service, c.engine.Title)
	}
	there, err := judge(e, f.Assignment)
	switch {
	case err != nil:
		return err
	case there.unknown != nil && f.unknown == nil && !p.Missing:
		return nil // it stands there: the table may be older than the engine
	case there.unknown != nil && f.unknown == nil && (len(e.Programs()) > 0 || c.Unknown != unknownAdd):
		return step.Invalid("%s: the container %s of %s runs %s, and %s", f.Variable, p.Container, p.Object, e.Title, there.unknown)
	}
	there.container, there.runs = f.container, f.runs
	*f = there
	return nil
}

// together checks the flags together with the others that are set, for each
// container separately: each runs its own engine.
func (c *flagCheck) together() error {
	var containers []string
	for _, f := range c.flags {
		containers = append(containers, f.container)
	}
	slices.Sort(containers)
	containers = slices.Compact(containers)
	if len(containers) > 1 && containers[0] == "" {
		containers = containers[1:]
	}
	for _, name := range containers {
		if err := c.within(name); err != nil {
			return err
		}
	}
	return nil
}

// within is together for one container. A flag without a known container counts
// in all of them.
func (c *flagCheck) within(container string) error {
	values, set := map[string]string{}, map[string]string{}
	var changed []string
	e := c.engine
	for _, f := range c.flags {
		if f.container != "" && f.container != container {
			continue
		}
		if f.runs != "" {
			e = f.engine
		}
		set[f.Variable.Flag] = f.Value
		if f.unknown == nil {
			changed = append(changed, f.Variable.Flag)
		}
	}
	for _, name := range e.Related(changed...) {
		value, stands, err := c.standing(e, container, name)
		if err != nil {
			e := *step.AsError(err)
			e.Message = fmt.Sprintf("--%s goes with --%s, whose place in Git cannot be found: %s", strings.Join(changed, ", --"), name, e.Message)
			return &e
		}
		if stands {
			values[name] = value
		}
	}
	maps.Copy(values, set)
	for _, err := range e.Conflicts(values, changed) {
		return refusedFlag(err)
	}
	return nil
}

// standing is what a flag is set to in Git, by whichever of its names.
func (c *flagCheck) standing(e engine.Engine, container, name string) (value string, set bool, err error) {
	f, unknown := e.Known(name)
	if unknown != nil {
		return "", false, unknown // unreachable unless a rule names a flag that no table has
	}
	for _, n := range append([]string{f.Name}, f.Aliases...) {
		places, err := c.Look(container, []gitops.Variable{{Flag: n, Switch: f.Kind == engine.Switch}})
		if errors.Is(err, gitops.ErrUnset) {
			continue // it is not to be added here, so it does not matter where
		}
		if err != nil {
			return "", false, err
		}
		for _, p := range places {
			if !p.Missing || p.Value != "" {
				return p.Value, true, nil
			}
		}
	}
	return "", false, nil
}

// refusedFlag converts an error of the flag table to an outcome of a lever.
func refusedFlag(err *engine.Error) error {
	return &fault.Error{Reason: fault.Invalid, Message: err.Error()}
}

// lintSetFlag finds flags in a playbook that no engine takes. Only a run knows
// the engine of its service.
func lintSetFlag(with map[string]any) []playbook.Complaint {
	e := engine.Unstated()
	_, free := with["unknown_flag"].(string)
	var out []playbook.Complaint
	if err := gathered(with); err != nil {
		out = append(out, *err)
	}
	check := func(flag string, value any, name, at []string) {
		text, literal := value.(string)
		if bare := strings.TrimLeft(flag, "-"); bare != flag {
			out = append(out, playbook.Complaint{At: name, Message: fmt.Sprintf("%q is not a flag name: omit the leading dashes", flag), Hint: "write " + bare})
			return
		}
		_, err := e.Settable(flag)
		if environment(gitops.Variable{Flag: flag}) {
			err = &engine.Error{Problem: engine.Unknown, Message: flag + " is an environment variable, which no flag table covers", Hint: "unknown_flag: change lets runs change it where Git sets it, unchecked"}
		}
		switch {
		case err != nil && (err.Problem == engine.Unknown || err.Problem == engine.Removed) && free:
		case err != nil:
			out = append(out, playbook.Complaint{At: name, Message: err.Message, Hint: err.Hint})
		case literal && text != lastGood:
			if _, err := e.Check(flag, text); err != nil {
				out = append(out, playbook.Complaint{At: at, Message: err.Message, Hint: err.Hint})
			}
		}
	}
	if flag, ok := with["flag"].(string); ok {
		check(flag, with["value"], []string{"flag"}, []string{"value"})
	}
	flags, _ := with["flags"].(map[string]any)
	values := map[string]string{}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		check(flag, flags[flag], []string{"flags", flag}, []string{"flags", flag})
		f, err := e.Known(flag)
		if text, literal := flags[flag].(string); literal && err == nil && text != lastGood {
			values[f.Name] = text
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, err := range e.Among(values) {
		out = append(out, playbook.Complaint{At: []string{"flags"}, Message: err.Message, Hint: err.Hint})
	}
	return out
}

// gathered finds parameters that contradict each other.
func gathered(with map[string]any) *playbook.Complaint {
	_, flag := with["flag"]
	_, value := with["value"]
	flags, _ := with["flags"].(map[string]any)
	_, reason := with["one_variable"]
	switch {
	case flag && !value:
		return &playbook.Complaint{At: []string{"flag"}, Message: "the flag has no value", Hint: "add value"}
	case !flag && value:
		return &playbook.Complaint{At: []string{"value"}, Message: "value belongs to flag; flags holds its own values"}
	case len(flags) > 1 && !reason:
		return &playbook.Complaint{
			At: []string{"flags"}, Message: fmt.Sprintf("%d flags are %d variables, but one is changed at a time", len(flags), len(flags)),
			Hint: "state in one_variable why they are one",
		}
	}
	return nil
}

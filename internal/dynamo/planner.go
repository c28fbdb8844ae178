// Package dynamo reads and changes the lower bounds of the planner of a Dynamo graph, which sets
// the replicas of the graph's components by itself. They stand in the planner's arguments: in the JSON
// document of --config, or as flags of the versions before it. Package kube changes them in the cluster,
// package gitops in a manifest.
//
// Source: components/src/dynamo/planner/config/planner_config.py of ai-dynamo/dynamo, and PlannerConfig in its
// documentation.
package dynamo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Defaults of PlannerConfig.
const (
	defaultFloor  = 1
	defaultBudget = 8
)

// Component is one component of a graph.
type Component struct {
	Name     string
	Type     string // componentType or type: frontend, planner, worker, prefill, decode, ...
	Sub      string // subComponentType of a worker: prefill or decode; empty: not written
	Replicas *int   // nil: not written
	GPUs     int    // of one replica, on all its nodes; 0: not known
	Unknown  string // why they are not known
}

// role returns prefill, decode or worker; empty: a planner does not scale it.
func (c Component) role() string {
	switch {
	case c.Type == "prefill" || c.Type == "decode":
		return c.Type
	case c.Type == "worker" && (c.Sub == "prefill" || c.Sub == "decode"):
		return c.Sub
	case c.Type == "worker":
		return c.Type
	}
	return ""
}

// Planner is the planner of a graph, for one component of it.
type Planner struct {
	Service string // its name in the graph
	At      int    // index of the argument that holds the lower bound; -1: none does
	Name    string // of the lower bound: min_endpoint, decode_min_endpoint or --min-endpoint
	Floor   *int   // lower bound in replicas; nil: not written, so that it is 1
	Fixed   string // why it is not raised, as the end of a sentence; empty: it may be
	Most    int    // replicas of the component that its GPUs have room for; -1: not known
	Starts  int    // lower bound with which it still starts, beside the others; -1: not known
	Limit   string // what limits them, for people; empty: nothing does

	prefix, value string // the argument
	inJSON        bool
}

// ErrUnread is the error where whether a graph has a planner is not known.
var ErrUnread = errors.New("whether a planner sets the replicas is not known")

// Find returns the name of the planner of a graph; empty: it has none.
func Find(graph []Component) (string, error) {
	var names []string
	for _, c := range graph {
		if c.Type == "planner" {
			names = append(names, c.Name)
		}
	}
	if len(names) > 1 {
		return "", fmt.Errorf("%w: it has several planners, %s", ErrUnread, strings.Join(names, " and "))
	}
	return strings.Join(names, ""), nil
}

// Read reads what a planner with these arguments has for a component. hidden is what may set
// its flags besides the arguments, such as its environment; empty: nothing may.
func Read(service string, args []string, hidden string, graph []Component, component string) Planner {
	p := Planner{Service: service, At: -1}
	s, err := p.settings(args, hidden)
	if err != nil {
		p.At, p.Fixed = -1, err.Error()
		return p
	}
	if !slices.ContainsFunc(graph, func(c Component) bool { return c.Name == component && c.role() != "" }) {
		p.At, p.Fixed = -1, component+" is not known as a component that it scales, by its componentType"
		return p
	}
	if err := p.lowest(s, graph, component); err != nil {
		p.Fixed = err.Error()
	}
	if p.Fixed == "" {
		p.Fixed = s.fixed
	}
	p.room(s, graph, component)
	return p
}

// settings are what a planner is configured with.
type settings struct {
	numbers map[string]*int // by the names of PlannerConfig; nil: null
	fixed   string          // why nothing comes of a higher lower bound
}

func (s settings) number(name string, otherwise int) int {
	if n := s.numbers[name]; n != nil {
		return *n
	}
	return otherwise
}

// floor returns the lower bound of a component that counts.
func (s settings) floor(role string) int {
	if n := s.numbers[role+"_min_endpoint"]; n != nil {
		return *n
	}
	return s.number("min_endpoint", defaultFloor)
}

// settings reads the configuration, and finds the argument that holds it.
func (p *Planner) settings(args []string, hidden string) (settings, error) {
	document, n := p.flag(args, "--config")
	switch {
	case n > 1:
		return settings{}, errors.New("it has --config more than once")
	case n == 1:
		return p.config(document)
	}
	out := settings{numbers: map[string]*int{}}
	if hidden != "" {
		out.fixed = "its flags may come from " + hidden
	}
	for flag, name := range map[string]string{"--max-gpu-budget": "max_gpu_budget", "--min-endpoint": "min_endpoint"} {
		if v, n := p.flag(args, flag); n > 0 {
			number, err := strconv.Atoi(v)
			if err != nil || n > 1 || number < 0 && flag == "--min-endpoint" {
				return settings{}, fmt.Errorf("its %s is no one number", flag)
			}
			out.numbers[name] = &number
		}
	}
	if v, n := p.flag(args, "--environment"); n > 0 && v != "kubernetes" {
		out.fixed = "its --environment is " + clip(v) + ", so that something else decides"
	}
	if slices.Contains(args, "--no-operation") {
		out.fixed = "it only advises (--no-operation)"
	}
	v, n := p.flag(args, "--min-endpoint") // the place, too
	if n == 0 {
		return settings{}, errors.New("its lower bound is not in its arguments (--config with a JSON document, or --min-endpoint): set it there first")
	}
	p.value = v
	return out, nil
}

// config reads a JSON document. Names count as they are written, other than in encoding/json.
func (p *Planner) config(document string) (settings, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(document), &fields); err != nil || fields == nil {
		return settings{}, errors.New("its --config is no JSON object in its arguments (a file, or a variable): change the lower bound there")
	}
	p.inJSON, p.value = true, document
	out := settings{numbers: map[string]*int{}}
	for _, name := range []string{"max_gpu_budget", "min_endpoint", "prefill_min_endpoint", "decode_min_endpoint"} {
		var n *int
		raw, there := fields[name]
		wrong := there && json.Unmarshal(raw, &n) != nil
		switch {
		case wrong && name == "max_gpu_budget":
			out.fixed = "max_gpu_budget of its --config is no whole number"
		case wrong, n != nil && *n < 0 && name != "max_gpu_budget":
			return settings{}, fmt.Errorf("%s of its --config is no whole number of replicas", name)
		}
		out.numbers[name] = n
	}
	out.fixed = cmp.Or(out.fixed, fixed(fields))
	return out, nil
}

// fixed returns why a higher lower bound changes nothing, or may keep the planner from starting.
func fixed(fields map[string]json.RawMessage) string {
	text := func(name string) string { return strings.TrimSpace(string(fields[name])) }
	for _, name := range []string{"no_operation", "advisory"} {
		if v := text(name); v != "" && v != "false" && v != "null" {
			return "it only advises (" + name + ")"
		}
	}
	if v := text("scaling_mode"); v != "" && v != "null" {
		return "its scaling_mode is " + clip(v) + ", and whether it scales then is not known"
	}
	if v := text("environment"); v != "" && v != `"kubernetes"` {
		return "its environment is " + clip(v) + ", so that something else decides"
	}
	if v := text("enable_power_awareness"); v != "" && v != "false" && v != "null" {
		return "whether its power budget has room is not known (enable_power_awareness)"
	}
	return ""
}

// clip shortens a value for people.
func clip(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "..."
	}
	return strconv.Quote(strings.Trim(s, `"`))
}

// flag returns the value of a flag and how often it is given, and takes its place over.
func (p *Planner) flag(args []string, name string) (value string, times int) {
	for i, arg := range args {
		joined, ok := strings.CutPrefix(arg, name+"=")
		switch {
		case ok:
			p.At, p.prefix, value, times = i, name+"=", joined, times+1
		case arg == name && i+1 < len(args):
			p.At, p.prefix, value, times = i+1, "", args[i+1], times+1
		}
	}
	return value, times
}

// lowest finds the lower bound of the component. It is read also where it is not the
// component's alone, so that a change of it is recognized.
func (p *Planner) lowest(s settings, graph []Component, component string) error {
	role, same, all := "", 0, []string{}
	for _, c := range graph {
		if c.Name == component {
			role = c.role()
		}
	}
	for _, c := range graph {
		if r := c.role(); r != "" {
			all = append(all, c.Name)
			if r == role {
				same++
			}
		}
	}
	slices.Sort(all)
	own := role + "_min_endpoint"
	p.Name = "min_endpoint"
	if !p.inJSON {
		p.Name = "--min-endpoint"
	}
	p.Floor = s.numbers["min_endpoint"]
	switch {
	case p.inJSON && s.numbers[own] != nil:
		p.Name, p.Floor = own, s.numbers[own]
		if same > 1 {
			return fmt.Errorf("its %s is of %d components alike", own, same)
		}
	case len(all) > 1 && role == "worker":
		return fmt.Errorf("its %s is of %s alike", p.Name, strings.Join(all, " and "))
	case len(all) > 1:
		return fmt.Errorf("its %s is of %s alike: set %s in its --config, if its version has it", p.Name, strings.Join(all, " and "), own)
	}
	return nil
}

// room finds how many replicas of the component its GPUs have room for. All components share them, and
// each has at least its lower bound: a planner with less does not start.
func (p *Planner) room(s settings, graph []Component, component string) {
	budget := s.number("max_gpu_budget", defaultBudget)
	if budget < 0 {
		return
	}
	p.Most, p.Starts = -1, -1
	left, bounds, each := budget, budget, 0
	var others []string
	for _, c := range graph {
		role := c.role()
		switch {
		case role == "":
			continue
		case c.GPUs < 1, c.Name != component && c.Replicas == nil:
			p.Limit = fmt.Sprintf("whether its %d GPUs (max_gpu_budget) have room is not known: %s: %s", budget, c.Name, cmp.Or(c.Unknown, "replicas are not written"))
			return
		case c.Name == component:
			each = c.GPUs
			continue
		}
		taken := max(*c.Replicas, s.floor(role)) * c.GPUs
		left, bounds = left-taken, bounds-s.floor(role)*c.GPUs
		others = append(others, fmt.Sprintf("%s takes %d", c.Name, taken))
	}
	p.Most, p.Starts = max(left, 0)/each, max(bounds, 0)/each
	p.Limit = fmt.Sprintf("its %d GPUs (max_gpu_budget) ", budget)
	if len(others) > 0 {
		p.Limit = "of " + p.Limit + strings.Join(others, " and ") + fmt.Sprintf("; %d ", max(left, 0))
	}
	p.Limit += fmt.Sprintf("have room for %d replicas of %s, which take %d each", p.Most, component, each)
}

// With returns the argument at At with another lower bound; nil: it is not written.
func (p Planner) With(floor *int) (string, error) {
	switch {
	case p.At < 0:
		return "", errors.New("the lower bound is not in the arguments of the planner")
	case p.inJSON:
		text, err := splice(p.value, p.Name, floor)
		return p.prefix + text, err
	case floor == nil:
		return "", errors.New("--min-endpoint cannot be unset")
	}
	return p.prefix + strconv.Itoa(*floor), nil
}

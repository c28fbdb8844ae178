package playbook

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/cel"

	"github.com/inference-responder/responder/internal/expression"
)

// compiler holds what compiling any playbook needs: the kinds and CEL's base
// environment. It is immutable and shared by all documents of a set.
type compiler struct {
	kinds  map[string]*Kind
	checks []string // names of kinds, sorted
	levers []string
	table  *expression.Types
	base   *cel.Env
	types  map[string]*cel.Type // of the kinds' evidence

	gathered map[string]*cel.Type // of the checks' evidence inside a gather
	recorded bool                 // the document is one that a journal recorded
}

// newCompiler checks the declarations of the kinds and makes the CEL
// environment.
func newCompiler(kinds []Kind) (*compiler, error) {
	table, err := expression.NewTypes()
	if err != nil {
		return nil, err
	}
	c := &compiler{kinds: map[string]*Kind{}, table: table, types: map[string]*cel.Type{}, gathered: map[string]*cel.Type{}}
	for i := range kinds {
		if err := c.declare(&kinds[i]); err != nil {
			return nil, fmt.Errorf("kind %q: %w", kinds[i].Name, err)
		}
	}
	slices.Sort(c.checks)
	slices.Sort(c.levers)
	alert, err := table.Declare("alert.type", alertFields())
	if err != nil {
		return nil, err
	}
	service, err := table.Declare("service.type", ServiceFields())
	if err != nil {
		return nil, err
	}
	told := toldKind()
	if c.types[told.Name], err = table.Declare("out:"+told.Name, told.Out); err != nil {
		return nil, err
	}
	c.base, err = table.Environment(
		cel.Variable("alert", alert), cel.Variable("alerts", cel.ListType(alert)), cel.Variable("service", service),
		cel.Variable("run", cel.StringType), cel.Variable("now", cel.TimestampType), cel.Variable("since", cel.DurationType),
	)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// declare adds one kind.
func (c *compiler) declare(k *Kind) error {
	if k.Name == "" || c.kinds[k.Name] != nil {
		return errors.New("missing name, or declared twice")
	}
	switch k.Role {
	case RoleCheck:
		c.checks = append(c.checks, k.Name)
	case RoleLever:
		c.levers = append(c.levers, k.Name)
	default:
		return fmt.Errorf("unknown role %q", k.Role)
	}
	if _, err := c.table.Declare("with:"+k.Name, k.With); err != nil {
		return err
	}
	t, err := c.table.Declare("out:"+k.Name, k.Out)
	if err != nil {
		return err
	}
	c.kinds[k.Name], c.types[k.Name] = k, t
	if k.Role == RoleCheck {
		if c.gathered[k.Name], err = c.table.Declare("gathered:"+k.Name, gatheredFields(k.Out)); err != nil {
			return err
		}
	}
	return nil
}

// environments are the CEL environments of one playbook, one for each type that
// out can have. They are made on demand.
type environments struct {
	c      *compiler
	checks map[string]evidenceOf
	states []string
	lets   map[string]*definition
	plain  *cel.Env
	byOut  map[string]*cel.Env // by kind
}

// environments prepares CEL for a playbook whose states gather this evidence,
// by variable name.
func (c *compiler) environments(checks map[string]evidenceOf, states []string) (*environments, error) {
	opts := make([]cel.EnvOption, 0, len(checks))
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		ev := checks[name]
		if ev.gathered {
			opts = append(opts, cel.Variable(name, c.gathered[ev.kind.Name]))
		} else {
			opts = append(opts, cel.Variable(name, c.types[ev.kind.Name]))
		}
	}
	plain, err := c.base.Extend(opts...)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	return &environments{c: c, checks: checks, states: states, plain: plain, byOut: map[string]*cel.Env{}}, nil
}

// compile compiles source. out is the evidence of the state (nil: none); since
// reports whether the source may name since.
func (e *environments) compile(source string, out *evidenceOf, since bool) (*compiled, []exprError) {
	env := e.plain
	if out != nil {
		name := out.kind.Name
		if e.byOut[name] == nil {
			extended, err := e.plain.Extend(cel.Variable("out", e.c.types[name]))
			if err != nil {
				return nil, []exprError{{Message: "set up CEL: " + err.Error()}}
			}
			e.byOut[name] = extended
		}
		env = e.byOut[name]
	}
	return variables{table: e.c.table, checks: e.checks, out: out, since: since, states: e.states, lets: e.lets}.compile(env, source)
}

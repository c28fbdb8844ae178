package playbook

import (
	"encoding/json"
	"fmt"
	"time"
)

// Scope holds the values that the expressions of a playbook can read.
type Scope struct {
	Alert    Alert
	Alerts   func() []Alert // what alerts lists; nil: Alert alone
	Service  Service
	Run      string
	Now      time.Time
	Evidence map[string]json.RawMessage // by name, as the checks returned it
	Unknown  map[string]string          // gathered evidence that is not known, by name: why
	Out      json.RawMessage            // evidence of the current state: the variable out
	Since    time.Duration              // from the fix to Now, in a verify block; 0: unknown yet, ${since} stays unfilled
}

// Condition is a compiled boolean CEL expression of an edge. It is immutable
// and safe for concurrent use.
type Condition struct {
	expr *compiled
}

// Source returns the expression as written.
func (c *Condition) Source() string { return c.expr.Source }

// Eval reports whether the condition holds. Missing evidence, evidence of the
// wrong type, an absent label and an expression that costs too much are errors,
// never false: a caller that branches on a condition must stop on an error.
func (c *Condition) Eval(s Scope) (bool, error) {
	v, err := c.expr.eval(s)
	if err != nil {
		return false, fmt.Errorf("condition %q: %w", c.expr.Source, err)
	}
	holds, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("condition %q: result is a %T, want a bool", c.expr.Source, v)
	}
	return holds, nil
}

// variable returns the value of one of the language's variables.
func (s Scope) variable(u use) (any, error) {
	switch u.Name {
	case "alert":
		return alertValue(s.Alert), nil
	case "alerts":
		return alertValues(s), nil
	case "service":
		return ServiceValue(s.Service), nil
	case "run":
		return s.Run, nil
	case "now":
		return s.Now, nil
	case "since":
		if s.Since <= 0 {
			return nil, fmt.Errorf("since is unknown before the fix took effect")
		}
		return s.Since, nil
	case "out":
		if len(s.Out) == 0 {
			return nil, fmt.Errorf("no evidence of this state (out)")
		}
		v, err := decodeEvidence(s.Out, u.fields)
		if err != nil {
			return nil, fmt.Errorf("evidence of this state (out): %w", err)
		}
		return v, nil
	}
	if u.gathered {
		if why, unknown := s.notKnown(u.evidence); unknown {
			return map[string]any{knownField: false, whyField: why}, nil
		}
	}
	data, ok := s.Evidence[u.evidence]
	if !ok {
		// Reading any field of it is an error, and has() returns false.
		return map[string]any{}, nil
	}
	v, err := decodeEvidence(data, u.fields)
	if err != nil {
		return nil, fmt.Errorf("evidence %s: %w", u.evidence, err)
	}
	if u.gathered {
		v[knownField] = true
		if _, own := fieldNamed(u.fields, whyField); !own {
			v[whyField] = ""
		}
	}
	return v, nil
}

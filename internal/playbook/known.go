package playbook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// knownField and whyField are what evidence has in addition if a gather collects
// it: its check may have failed, and the run goes on.
const (
	knownField = "known"
	whyField   = "why"
)

// gatheredFields returns the fields of evidence inside a gather. A kind may have
// a why of its own, which then tells why it is not known, too.
func gatheredFields(own []Field) []Field {
	out := []Field{{Name: knownField, Type: Type{Name: Bool}, Doc: "The check answered. If not, no other field can be told."}}
	if _, has := fieldNamed(own, whyField); !has {
		out = append(out, Field{Name: whyField, Type: Type{Name: String}, Doc: "Why it is not known; empty if it is."})
	}
	return append(out, own...)
}

// unknown returns the fields of gathered evidence that the expression may read
// and nobody knows, like slo.status, and why.
func (x *compiled) unknown(s Scope) (fields []string, why string) {
	var reasons []string
	for _, u := range x.uses {
		if !u.gathered {
			continue
		}
		reason, bad := s.notKnown(u.evidence)
		if !bad {
			continue
		}
		for _, f := range u.fields {
			if f.Name != whyField {
				fields = append(fields, u.Name+"."+f.Name)
			}
		}
		reasons = append(reasons, u.evidence+" is unknown: "+reason)
	}
	return fields, strings.Join(reasons, "; ")
}

// notKnown reports whether and why gathered evidence is not known.
func (s Scope) notKnown(name string) (why string, unknown bool) {
	if why, ok := s.Unknown[name]; ok {
		return why, true
	}
	if _, ok := s.Evidence[name]; !ok {
		return "not gathered", true
	}
	return "", false
}

// Truth is the result of a condition.
type Truth string

// The results of conditions. What cannot be told is neither true nor false.
const (
	True    Truth = "true"
	False   Truth = "false"
	Unknown Truth = "unknown"
)

// Examined is an edge that a run looked at when it left a state.
type Examined struct {
	Edge   string   `json:"edge"` // label or condition; empty: always taken
	To     string   `json:"to"`
	Result Truth    `json:"result"`
	Why    string   `json:"why,omitempty"`    // unknown: what is missing; true: why it is not taken nevertheless
	Values []string `json:"values,omitempty"` // what the condition read, like slo.status = met
}

// Judge evaluates the condition. A condition that depends on evidence which a
// gather could not collect, or which lacks the field, is Unknown with a reason,
// as && and || have it: false && unknown is false. Every other failure is an
// error, as of [Condition.Eval].
func (c *Condition) Judge(s Scope) (Truth, string, error) {
	holds, err := c.Eval(s)
	switch {
	case err == nil && holds:
		return True, "", nil
	case err == nil:
		return False, "", nil
	case slices.ContainsFunc(c.expr.uses, func(u use) bool { return u.gathered }):
		if _, why := c.expr.unknown(s); why != "" {
			return Unknown, why, nil
		}
		return Unknown, err.Error(), nil
	default:
		return "", "", err
	}
}

// maxValue limits the length of one value shown with a condition, in bytes.
const maxValue = 80

// Values returns what the condition reads, like slo.status = met. What is
// absent is left out.
func (c *Condition) Values(s Scope) []string {
	vars, err := c.expr.variables(s)
	if err != nil {
		return nil
	}
	var out []string
	for _, path := range c.expr.Reads {
		var v any = vars
		for _, name := range strings.Split(path, ".") {
			m, ok := v.(map[string]any)
			if !ok {
				v = nil
				break
			}
			v = m[name]
		}
		if v != nil {
			out = append(out, path+" = "+shownValue(v))
		}
	}
	return out
}

// shownValue formats a value of evidence on one short line.
func shownValue(v any) string {
	text := ""
	switch v := v.(type) {
	case string, bool, int64, time.Time:
		text, _ = formatScalar(v)
	case float64:
		text = fmt.Sprintf("%.4g", v)
	case time.Duration:
		text = v.String()
	case []any:
		if len(v) > 0 {
			if _, objects := v[0].(map[string]any); objects {
				return fmt.Sprintf("%d entries", len(v))
			}
		}
		text = shownJSON(v)
	default:
		text = shownJSON(v)
	}
	if text == "" {
		return `""`
	}
	if len(text) > maxValue {
		return yamldoc.Clip(text[:maxValue]) + "..."
	}
	return text
}

func shownJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(b)
}

// HeldBack reports why an edge to a state is not taken after edges before it
// could not be told, or after one that is true leads to a lever that the run
// has tried; empty: it is taken. What changes production, and an end that says
// all is well, need a condition that is true, and no doubt before it.
func (p *Playbook) HeldBack(e Edge, doubt, passed bool) string {
	lever, well := p.acts(e.To)
	switch {
	case doubt && lever:
		return "not taken: it leads to a lever, and an edge before it cannot be told"
	case doubt && well && e.always():
		return "not taken: it ends the run well, and an edge before it cannot be told"
	case passed && (lever || well) && e.always():
		return "not taken: an edge before it is true, and its lever was tried"
	default:
		return ""
	}
}

// acts reports whether a state is a lever, or an end that says all is well, or
// leads to one by states only that tell people or let time pass.
func (p *Playbook) acts(name string) (lever, well bool) {
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		s := p.byName[name]
		if s == nil || seen[name] {
			return
		}
		seen[name] = true
		switch s.Kind {
		case StateLever:
			lever = true
		case StateEnd:
			well = well || s.End != EndEscalated
		case StateNotify:
			for _, e := range s.Next {
				visit(e.To)
			}
		case StateWait:
			if s.Wait != nil && s.Wait.For != nil { // it only lets time pass
				for _, e := range s.Next {
					visit(e.To)
				}
			}
		}
	}
	visit(name)
	return lever, well
}

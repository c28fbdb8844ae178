package git

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
)

// lintSetFlag finds in a playbook what no engine takes. Which engine a service
// has is known to its runs only.
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
			out = append(out, playbook.Complaint{At: name, Message: fmt.Sprintf("%q is no flag: it stands without dashes in front", flag), Hint: "write " + bare})
			return
		}
		_, err := e.Settable(flag)
		if environment(gitops.Variable{Flag: flag}) {
			err = &engine.Error{Problem: engine.Unknown, Message: flag + " is an environment variable, of which no table is kept", Hint: "unknown_flag: change lets runs change it where it stands in Git, unchecked"}
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

// gathered finds parameters that do not go together.
func gathered(with map[string]any) *playbook.Complaint {
	_, flag := with["flag"]
	_, value := with["value"]
	flags, _ := with["flags"].(map[string]any)
	_, reason := with["one_variable"]
	switch {
	case flag && !value:
		return &playbook.Complaint{At: []string{"flag"}, Message: "the flag has no value", Hint: "add value"}
	case !flag && value:
		return &playbook.Complaint{At: []string{"value"}, Message: "value goes with flag; flags holds values of its own"}
	case len(flags) > 1 && !reason:
		return &playbook.Complaint{
			At: []string{"flags"}, Message: fmt.Sprintf("%d flags are %d variables, and one is changed at a time", len(flags), len(flags)),
			Hint: "say in one_variable why they are one",
		}
	}
	return nil
}

package gitops

import "strings"

// Override is a field of an application's spec that overrides a field of its
// manifests.
type Override struct {
	Field string // spec.source.helm.parameters[maxNumSeqs]; never a value: they hold secrets, too

	// What it decides, as far as that is known: a path of Helm values, or the
	// replicas of the workload of that name. Both empty: not known.
	Values   string
	Replicas string
}

// Decides reports whether the override may replace a field of the manifests. An item
// of a list that one names by its index and the other by its name may be the same.
func (o Override) Decides(t Touch) bool {
	if o.Replicas != "" {
		return t.Variable == (Variable{Replicas: true}).String() && t.Name == o.Replicas
	}
	if o.Values == "" || t.Kind != "" {
		return false
	}
	field, setting := strings.Split(t.Path, "."), strings.Split(o.Values, ".")
	if len(setting) > len(field) {
		return false
	}
	for i, s := range setting {
		a, item, listed := strings.Cut(s, "[")
		b, other, list := strings.Cut(field[i], "[")
		if a != b || listed && list && item != other && isNumber(item) && isNumber(other) {
			return false
		}
	}
	return true
}

func isNumber(item string) bool {
	return strings.Trim(item, "0123456789]") == "" && item != ""
}

package runview

import (
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// GatheredLines describes what the checks of a gather found: each line begins
// with the name of the evidence.
func GatheredLines(gathered []machine.Gathered) []string {
	var out []string
	for _, g := range gathered {
		switch {
		case g.Unknown():
			out = append(out, g.Name+": UNKNOWN: "+g.Why)
		case len(g.Facts) == 0:
			out = append(out, g.Name+": answered")
		}
		for _, fact := range g.Facts {
			out = append(out, g.Name+": "+fact)
		}
	}
	return out
}

// ExaminedLines describes the edges that a run looked at when it left a state,
// with what their conditions read.
func ExaminedLines(examined []machine.Examined) []string {
	var out []string
	for _, x := range examined {
		word := map[playbook.Truth]string{playbook.True: "yes", playbook.False: "no ", playbook.Unknown: "?  "}[x.Result]
		line := word + " " + OrText(x.Edge, "otherwise") + " -> " + x.To
		if x.Why != "" {
			line += ": " + x.Why
			if x.Result == playbook.Unknown {
				line = word + " " + OrText(x.Edge, "otherwise") + " -> " + x.To + ": cannot be told: " + x.Why
			}
		}
		if len(x.Values) > 0 {
			line += "  [" + strings.Join(x.Values, ", ") + "]"
		}
		out = append(out, line)
	}
	return out
}

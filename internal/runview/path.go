package runview

import (
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// DrawPath draws a playbook with the path taken, for a terminal.
func DrawPath(pb *playbook.Playbook, path []machine.Visit) string {
	names := slices.DeleteFunc(PathNames(path), func(name string) bool { return pb.State(name) == nil })
	drawn, err := playbook.Graph(pb, names, playbook.GraphText)
	if err != nil {
		return ""
	}
	return drawn
}

// PathNames returns the states of a path.
func PathNames(path []machine.Visit) []string {
	var names []string
	for _, v := range path {
		names = append(names, v.State)
	}
	return names
}

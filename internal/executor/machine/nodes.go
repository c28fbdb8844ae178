package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/playbook"
)

// Keys by which evidence names nodes: a text under keyNode, or a list under keyNodes of
// texts or of objects with a keyName. Checks keep to them.
const (
	keyNode  = "node"
	keyNodes = "nodes"
	keyName  = "name"
)

// mostNodes is how many nodes a message lists.
const mostNodes = 5

// unseenNode returns why the node of the current lever is refused: no check of this run
// named it. The loader requires an expression that reads evidence, but such an expression
// may still compute another name. Empty: it is allowed, or the lever has no node.
func (s State) unseenNode(with map[string]any) string {
	node, _ := with[keyNode].(string)
	if st := s.current(); st.Kind != playbook.StateLever || st.With[keyNode] == nil || node == "" {
		return "" // without a name the lever itself refuses
	}
	names := s.nodes()
	if names[node] {
		return ""
	}
	known := "none"
	if list := slices.Sorted(maps.Keys(names)); len(list) > mostNodes {
		known = fmt.Sprintf("%s and %d more", strings.Join(list[:mostNodes], ", "), len(list)-mostNodes)
	} else if len(list) > 0 {
		known = strings.Join(list, ", ")
	}
	return fmt.Sprintf("with.node is %q, which no evidence of this run names (it names %s): a lever acts only on a node that a check has seen", node, known)
}

// nodes returns the nodes that the evidence of the run names. What is unknown names none.
func (s State) nodes() map[string]bool {
	names := map[string]bool{}
	for _, e := range s.Evidence {
		var data any
		if e.Unknown == "" && json.Unmarshal(e.Data, &data) == nil {
			addNodes(data, names)
		}
	}
	return names
}

// addNodes adds the nodes that a value of JSON names.
func addNodes(v any, names map[string]bool) {
	add := func(v any) {
		if name, ok := v.(string); ok && name != "" {
			names[name] = true
		}
	}
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			addNodes(one, names)
		}
	case map[string]any:
		for key, value := range v {
			switch key {
			case keyNode:
				add(value)
			case keyNodes:
				list, _ := value.([]any)
				for _, one := range list {
					add(one)
					if m, ok := one.(map[string]any); ok {
						add(m[keyName])
					}
				}
			}
			addNodes(value, names)
		}
	}
}

package gitops

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/command"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// graphPart is one component of a Dynamo graph: v1alpha1 has services in a mapping, v1beta1 components
// in a list.
type graphPart struct {
	name string
	node *yaml.Node
}

func graphParts(o *edit.Object) []graphPart {
	var out []graphPart
	services := edit.Get(o.Root, "spec", "services")
	for i := 0; edit.IsMap(services) && i+1 < len(services.Content); i += 2 {
		out = append(out, graphPart{services.Content[i].Value, services.Content[i+1]})
	}
	for _, c := range edit.List(o.Root, "spec", "components") {
		out = append(out, graphPart{edit.Str(c, "name"), c})
	}
	return out
}

// kind returns the type of a component, in lower case.
func (p graphPart) kind() string {
	return strings.ToLower(edit.Str(p.node, "componentType") + edit.Str(p.node, "type"))
}

// role returns prefill, decode or worker; empty: the planner does not scale it.
func (p graphPart) role() string {
	switch kind := p.kind(); kind {
	case "prefill", "decode":
		return kind
	case "worker":
		if sub := strings.ToLower(edit.Str(p.node, "subComponentType")); sub != "" {
			return sub
		}
		return kind
	}
	return ""
}

// plannerBound returns the site of the lower bound that the planner of a graph has for a component: in the
// document of its --config, or its --min-endpoint. Source: PlannerConfig in the documentation of Dynamo.
func (tr *tree) plannerBound(o *edit.Object, planner, component string) (*edit.Site, error) {
	owned := func(format string, args ...any) (*edit.Site, error) {
		return nil, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s: the planner %s sets the replicas of its components by itself, and ", o, edit.Clip(planner)) + fmt.Sprintf(format, args...)}
	}
	role, scaled := "", 0
	for _, p := range graphParts(o) {
		if p.role() != "" {
			scaled++
		}
		if strings.EqualFold(p.name, component) {
			role = p.role()
		}
	}
	if role == "" {
		return owned("%s is not known as a component that it scales, by its componentType", edit.Clip(component))
	}
	containers := tr.matchingContainers(o, Target{}, planner)
	if len(containers) != 1 {
		return owned("its arguments are not in the graph")
	}
	l, err := containers[0].commandLine()
	if err != nil {
		return nil, err
	}
	configs, err := l.Hits("config")
	if err != nil {
		return nil, err
	}
	floors, err := l.Hits("min-endpoint")
	switch {
	case err != nil:
		return nil, err
	case len(configs) == 1:
	case len(configs) == 0 && len(floors) == 1 && scaled == 1:
		return floors[0].Site(), nil
	case len(configs) == 0 && len(floors) == 1:
		return owned("its --min-endpoint is of all components alike")
	default:
		return owned("its lower bound is not in its arguments once (--config with a JSON document, or --min-endpoint)")
	}
	key := "min_endpoint"
	if own := role + "_min_endpoint"; role != "worker" && len(boundIn(configs[0].Value, own)) == 1 {
		key = own
	} else if scaled > 1 {
		return owned("its min_endpoint is of all components alike: set %s in its --config, if its version has it", own)
	}
	return boundSite(configs[0], key, owned)
}

// boundIn returns where the number of a field stands in a JSON document.
func boundIn(document, key string) [][]int {
	return regexp.MustCompile(`"`+key+`"\s*:\s*(\d+)\b`).FindAllStringSubmatchIndex(document, -1)
}

// boundSite returns the site of one number in the JSON document that a flag has.
func boundSite(config command.Hit, key string, owned func(string, ...any) (*edit.Site, error)) (*edit.Site, error) {
	text := config.Value
	at := boundIn(text, key)
	if !json.Valid([]byte(text)) || len(at) != 1 || strings.Count(text, key) != strings.Count(text, `"`+key+`"`)+strings.Count(text, "_"+key) {
		return owned("%s is not written once as a number in its --config: write it there first", key)
	}
	s := config.Site()
	whole := s.Set
	s.Path, s.Value, s.Unset = strings.TrimSuffix(s.Path, "]")+"."+key+"]", text[at[0][2]:at[0][3]], nil
	s.Set = func(value string) (edit.Splice, error) {
		if _, err := strconv.Atoi(value); err != nil {
			return edit.Splice{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %q is no number of replicas", key, edit.Clip(value))}
		}
		return whole(text[:at[0][2]] + value + text[at[0][3]:])
	}
	return s, nil
}

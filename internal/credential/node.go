package credential

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Secrets returns the nodes of a document of YAML that are of a Secret, whose values
// need not look like credentials, with all that is in them: a mapping whose kind
// is Secret or SecretList, however deep it stands; a kustomize patch whose target
// may be a Secret; what a secretGenerator makes one of, or the template of an ExternalSecret;
// any stringData; the value
// of an operation of a JSON patch on /data or /stringData, whose target may be in
// another file. What such a node refers to by an alias is told, too. A text that
// is itself a manifest is not looked into: see [InSecret]. The time is in
// proportion to the nodes.
func Secrets(n *yaml.Node) map[*yaml.Node]bool {
	s := search{hidden: map[*yaml.Node]bool{}, kinds: map[*yaml.Node]bool{}, targets: map[*yaml.Node]bool{}}
	s.walk(n)
	return s.hidden
}

type search struct {
	hidden map[*yaml.Node]bool
	// Many aliases may lead to one node, which is judged once.
	kinds   map[*yaml.Node]bool // whether a mapping, or one of a list, is a Secret; false while that is being found out
	targets map[*yaml.Node]bool // whether what a patch is for may be a Secret
	makes   bool                // what is walked is of an object of which a Secret is made
}

func (s *search) walk(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			s.walk(c)
		}
		return
	}
	if s.secret(n) || s.patches(n) {
		s.hide(n)
		return
	}
	defer func(outer bool) { s.makes = outer }(s.makes)
	s.makes = s.makes || slices.ContainsFunc(values(n, "kind"), func(kind *yaml.Node) bool { return strings.HasSuffix(kind.Value, "ExternalSecret") })
	operation := operates(n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := resolve(n.Content[i]); {
		case key.Value == "secretGenerator", key.Value == "stringData", operation && key.Value == "value", s.makes && key.Value == "template":
			s.hide(n.Content[i+1])
		default:
			s.walk(n.Content[i])
			s.walk(n.Content[i+1])
		}
	}
}

func (s *search) hide(n *yaml.Node) {
	if n == nil || s.hidden[n] {
		return
	}
	s.hidden[n] = true
	s.hide(n.Alias)
	for _, c := range n.Content {
		s.hide(c)
	}
}

// secret reports whether a mapping, or one that is merged into it, says that it is
// a Secret, or one of a list of them. Any of its fields may: which of two counts is the
// reader's choice.
func (s *search) secret(n *yaml.Node) bool {
	if is, known := s.kinds[n]; known || n.Kind != yaml.MappingNode && n.Kind != yaml.SequenceNode {
		return is
	}
	s.kinds[n] = false
	if n.Kind == yaml.SequenceNode {
		s.kinds[n] = slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return s.secret(resolve(c)) })
		return s.kinds[n]
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := resolve(n.Content[i+1])
		is := false
		switch resolve(n.Content[i]).Value {
		case "kind":
			words := strings.Fields(value.Value)
			is = len(words) > 0 && (words[0] == "Secret" || words[0] == "SecretList")
		case "<<":
			is = s.secret(value)
		}
		if is {
			s.kinds[n] = true
			return true
		}
	}
	return false
}

// patches reports whether a mapping is a kustomize patch whose target may be a Secret.
func (s *search) patches(n *yaml.Node) bool {
	return slices.ContainsFunc(values(n, "target"), func(target *yaml.Node) bool {
		is, known := s.targets[target]
		if !known {
			is = s.secret(target) || slices.ContainsFunc(values(target, "kind"), mayBeSecret)
			s.targets[target] = is
		}
		return is
	})
}

// maxKind is how long the pattern of a kind is that is read, in bytes.
const maxKind = 256

// mayBeSecret reports whether the pattern of a patch's kind matches a Secret, or is none
// that is read: with a repetition it may stand for a program of any size.
func mayBeSecret(kind *yaml.Node) bool {
	if kind.Value == "" || len(kind.Value) > maxKind || strings.Contains(kind.Value, "{") {
		return kind.Value != ""
	}
	pattern, err := regexp.Compile("^(?:" + kind.Value + ")$")
	return err != nil || pattern.MatchString("Secret")
}

// operates reports whether a mapping is an operation of a JSON patch on what may
// be the values of a Secret.
func operates(n *yaml.Node) bool {
	return len(values(n, "op")) > 0 && slices.ContainsFunc(values(n, "path"), func(path *yaml.Node) bool {
		first, _, _ := strings.Cut(strings.TrimPrefix(path.Value, "/"), "/")
		return first == "data" || first == "stringData"
	})
}

// values returns what a mapping has under a key: several, where it repeats it.
func values(n *yaml.Node, key string) []*yaml.Node {
	var out []*yaml.Node
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if resolve(n.Content[i]).Value == key {
			out = append(out, resolve(n.Content[i+1]))
		}
	}
	return out
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

package credential

import (
	"regexp"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// spans finds the lines of a document's hidden nodes. A node does not tell where
// it ends, but the node behind it where it begins.
type spans struct {
	*manifest

	text            string
	from, to, depth int
	secrets         nodes
	keys            nodes
	variables       nodes                 // lists of variables, or of headers, and their elements; mappings of variables
	files           nodes                 // the variables of a ConfigMap, which may be files
	texts           nodes                 // scalars that hold a list or a mapping of variables
	named           map[*yaml.Node]string // mappings of a variable whose name is their key; nil: there are none
	anchors         nodes                 // that were hidden
	values          nodes                 // the scalars that are hidden by what names them
	inside          bool                  // a value that is hidden
	nodes           []*yaml.Node          // in the order of the text
	found           []span
}

// nodes are some nodes of a document. Most documents have none of most kinds: nil is empty.
type nodes map[*yaml.Node]bool

func (n *nodes) add(one *yaml.Node) {
	if *n == nil {
		*n = nodes{}
	}
	(*n)[one] = true
}

// span is a hidden node, and the place in nodes of what comes behind it.
type span struct {
	node  *yaml.Node
	next  int  // 0: behind the node itself, an anchor
	plain bool // comments below it are none of it
	below bool // its first line is judged by itself
	line  int  // of the scalar behind the key that the node is; 0: it is no key, or the scalar a block
}

func (s *spans) visit(n *yaml.Node) {
	s.nodes = append(s.nodes, n)
	switch {
	case s.secrets[n]:
	case n.Kind == yaml.ScalarNode:
		if n.Value == s.text || !s.texts[n] && !mentions(n.Value) {
			return // the whole document is this scalar, or it says nothing
		}
		lines := strings.Split(n.Value, "\n")
		inner := inSecret(lines, s.depth+1, s.texts[n])
		if slices.Max(inner) == shown {
			return
		}
		if s.texts[n] {
			s.values.add(n)
		}
		if s.literal(n, lines) {
			for i, hidden := range inner {
				at := s.from + n.Line + i
				if hidden == all {
					s.manifest.hide(at, at+1)
				} else if at < s.to {
					s.hidden[at] = max(s.hidden[at], hidden)
				}
			}
			return
		}
	case n.Kind == yaml.MappingNode:
		of := s.mapping(n)
		for i := 0; i+1 < len(n.Content); i += 2 {
			s.field(of, n.Content[i], n.Content[i+1])
		}
		return
	default:
		for _, c := range n.Content {
			s.visit(c)
		}
		return
	}
	s.found = append(s.found, span{node: n, next: len(s.nodes)})
}

// field visits a field of a mapping. If its name is that of a credential, or of options
// of a storage driver, which are anything, its value is hidden also where it has several
// lines or is a list or a mapping.
func (s *spans) field(of mapping, key, value *yaml.Node) {
	options := key.Value == "volumeAttributes" || key.Value == "options" && of.isVolume
	s.keys.add(key)
	s.visit(key)
	if target := resolve(value); holdsVariables(of, key.Value) {
		s.hold(target)
		if of.isConfig {
			s.files.add(target)
		} else if target.Kind == yaml.ScalarNode && (isBlock(target) || strings.Contains(target.Value, "\n")) {
			s.texts.add(target)
		}
	} else if target.Kind == yaml.MappingNode && of.names == nil && s.variables[of.node] {
		if s.named == nil {
			s.named = map[*yaml.Node]string{}
		}
		s.named[target] = key.Value
	}
	if value.Kind == yaml.SequenceNode && argumentsName.MatchString(key.Value) && !s.secrets[value] && !s.inside {
		s.nodes = append(s.nodes, value)
		s.arguments(key, value)
		return
	}
	valued, apart := s.valued(of, key, resolve(value))
	if !options && !valued && !Named(key.Value) || s.secrets[value] || s.inside || value.Kind != yaml.ScalarNode && names(value) {
		s.visit(value)
		return
	}
	if value.Kind == yaml.AliasNode {
		s.hideAnchor(value.Alias)
	}
	from := len(s.nodes)
	s.inside = value.Kind != yaml.ScalarNode
	s.visit(value)
	s.inside = false
	if value.Kind == yaml.ScalarNode {
		s.values.add(value)
		f := span{node: key, next: len(s.nodes), plain: !isBlock(value), below: !apart}
		if f.plain {
			f.line = value.Line
		}
		s.found = append(s.found, f)
		return
	}
	for i := from; i < len(s.nodes); i++ {
		if n := s.nodes[i]; n.Kind == yaml.ScalarNode && !s.keys[n] && !short.MatchString(n.Value) && n.Value != "" {
			s.values.add(n)
			s.found = append(s.found, span{node: n, next: i + 1})
		}
	}
}

// hideAnchor hides the scalars of what an anchor holds.
func (s *spans) hideAnchor(n *yaml.Node) {
	if s.anchors[n] || s.keys[n] || n.Kind == yaml.MappingNode && names(n) {
		return
	}
	s.anchors.add(n)
	if n.Kind == yaml.ScalarNode {
		s.values.add(n)
		s.found = append(s.found, span{node: n})
	}
	for _, c := range n.Content {
		s.hideAnchor(c)
	}
}

// variableWords end the names of fields that hold variables, also of values of charts, or headers.
var variableWords = []string{"env", "envs", "environment", "vars", "variables", "headers"}

// holdsVariables reports whether a field of a mapping holds variables, or is that of a
// ConfigMap, which is read into variables.
func holdsVariables(of mapping, key string) bool {
	words := wordsOf(key)
	return len(words) > 0 && slices.Contains(variableWords, words[len(words)-1]) || of.isConfig && key == "data"
}

// hold records that a node is a list or a mapping of variables.
func (s *spans) hold(n *yaml.Node) {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	if n.Kind == yaml.ScalarNode || s.variables[n] {
		return
	}
	s.variables.add(n)
	for _, c := range n.Content {
		if n.Kind == yaml.SequenceNode {
			s.variables.add(resolve(c))
		}
	}
}

// mapping is what the fields of a mapping say together. It is read once: a mapping may
// repeat each of them.
type mapping struct {
	node     *yaml.Node
	isVolume bool       // has a driver
	isConfig bool       // is a ConfigMap
	isItem   bool       // a JSON patch on an argument
	name     string     // the strictest
	isSmall  bool       // its name is of a list of variables, and its line does not tell that
	hides    bool       // a JSON patch on what is hidden, or has the name of a credential
	names    *yaml.Node // the key of the name or path; nil: none
	apart    bool       // there are several, or it stands on another line than its key
}

func (s *spans) mapping(n *yaml.Node) mapping {
	m := mapping{node: n, isVolume: len(values(n, "driver")) > 0}
	isPatch := len(values(n, "op")) > 0
	m.isConfig = slices.ContainsFunc(values(n, "kind"), func(kind *yaml.Node) bool { return kind.Value == "ConfigMap" })
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], resolve(n.Content[i+1])
		switch {
		case k.Value == "name":
			m.name = stricter(m.name, v.Value)
			m.isSmall = m.isSmall || s.variables[n] && !variable.MatchString(v.Value)
		case isPatch && k.Value == "path" && hidesPath(v.Value):
			m.hides = true
		case isPatch && k.Value == "path" && argumentPath.MatchString(v.Value):
			m.isItem = true
		default:
			continue
		}
		m.apart = m.apart || m.names != nil || k.Line != v.Line
		m.names = k
	}
	if name, ok := s.named[n]; ok && m.names == nil {
		m.name, m.isSmall, m.names = name, true, n
	}
	m.hides = m.hides || Named(m.name)
	m.apart = m.apart || m.isSmall || m.isItem
	return m
}

// valued reports whether a field holds the value of a variable or of a JSON patch that is
// hidden, and whether what names it stands apart, so that its line does not tell.
func (s *spans) valued(of mapping, key, value *yaml.Node) (is, apart bool) {
	if of.names == nil && s.variables[of.node] && value.Kind == yaml.ScalarNode && !variable.MatchString(key.Value) {
		isFile := s.files[of.node] && (isBlock(value) || strings.HasPrefix(value.Value, "{") || strings.HasPrefix(value.Value, "["))
		is = !isFile && !plainLiteral(key.Value, value.Value) // the key is the name of a variable
		return is, is
	}
	if key.Value != "value" || value.Kind != yaml.ScalarNode || isBlock(value) || of.names == nil {
		return false, false
	}
	is = of.hides || of.isItem && !plainItem(value.Value) || of.isSmall && !plainLiteral(of.name, value.Value) || variable.MatchString(of.name) && !plainLiteral(of.name, value.Value)
	return is, is && (of.apart || between(of.node, of.names.Line, key.Line))
}

// isBlock reports whether a scalar is a text of lines behind | or >.
func isBlock(n *yaml.Node) bool { return n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 }

// between reports whether a field of a mapping begins between two lines.
func between(of *yaml.Node, a, b int) bool {
	first := sort.Search(len(of.Content)/2, func(i int) bool { return of.Content[2*i].Line > min(a, b) }) // they are in order
	return 2*first < len(of.Content) && of.Content[2*first].Line < max(a, b)
}

// referring are the fields of what names a Secret, or an account's token.
var referring = []string{"name", "namespace", "key", "secretName", "items", "optional", "defaultMode", "kind", "apiVersion", "apiGroup", "path", "mode", "audience", "expirationSeconds"}

// names reports whether a value names a Secret, or Secrets.
func names(value *yaml.Node) bool {
	if value.Kind == yaml.SequenceNode {
		return !slices.ContainsFunc(value.Content, func(c *yaml.Node) bool { return c.Kind != yaml.MappingNode || !names(c) })
	}
	for i := 0; value.Kind == yaml.MappingNode && i+1 < len(value.Content); i += 2 {
		if !slices.Contains(referring, value.Content[i].Value) {
			return false
		}
	}
	return value.Kind == yaml.MappingNode
}

// literal reports whether a scalar stands in the manifest line by line, from the
// line behind its own.
func (s *spans) literal(n *yaml.Node, lines []string) bool {
	if n.Style&yaml.LiteralStyle == 0 || s.from+n.Line+len(lines) > s.to+1 {
		return false
	}
	for i, line := range lines {
		at := s.from + n.Line + i
		if strings.TrimSpace(line) != "" && (at >= s.to || strings.TrimSpace(s.lines[at]) != strings.TrimSpace(line)) {
			return false
		}
	}
	return true
}

// hide hides what was found, with the comments above it.
func (s *spans) hide() {
	places := map[*yaml.Node]int{}
	if len(s.anchors) > 0 {
		for i, n := range s.nodes {
			places[n] = i
		}
	}
	above := -1 // the line whose comments were hidden last: many nodes may stand in one
	for _, f := range s.found {
		first, last := s.from+f.node.Line-1, s.to
		if f.next == 0 {
			f.next = places[f.node] + 1
		}
		if f.next < len(s.nodes) {
			next := s.nodes[f.next]
			last = s.from + next.Line - 1
			if last == first || s.behind(last, next.Column) {
				last++
			}
		}
		if f.below {
			first++
		}
		for f.plain && last > first && comment(s.lines[last-1]) {
			last--
		}
		if !f.below && f.node.Line == f.line && last == first+1 && s.begins(f.node) {
			s.hidden[first] = max(s.hidden[first], oneValue)
			continue
		}
		if at := first; !f.below && at != above {
			for above = at; first > s.from && comment(s.lines[first-1]); first-- {
			}
		}
		s.manifest.hide(first, last)
	}
}

// begins reports whether a key is the first in its line, and its value stands behind it.
func (s *spans) begins(key *yaml.Node) bool {
	line := s.lines[s.from+key.Line-1]
	return keyAndValue.MatchString(line) && strings.TrimLeft(line[:min(key.Column-1, len(line))], " -\t") == ""
}

// behind reports whether something stands in a line before a node at a column
// (1 is the first): the end of the node before it.
func (s *spans) behind(line, column int) bool {
	before := []rune(s.lines[line])
	return strings.Trim(string(before[:min(column-1, len(before))]), " \t-,[]{}") != ""
}

// keyAndValue is a line with a key and its value.
var keyAndValue = regexp.MustCompile(`^(\s*(?:-\s+)*["']?[\w./-]+["']?\s*:\s+)(\S.*)$`)

// hideValue is a line with its key, and nothing of its value left.
func hideValue(line string) string {
	m := keyAndValue.FindStringSubmatch(line)
	if m == nil {
		return hideLine(line)
	}
	return m[1] + hidden(m[2])
}

// comment reports whether a line says nothing, or is a comment.
func comment(line string) bool {
	text := strings.TrimSpace(line)
	return text == "" || text[0] == '#'
}

func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

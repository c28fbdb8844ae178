package credential

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxTexts is how many texts may hold each other before one is taken for a
// Secret unread.
const maxTexts = 8

// maxManifest is how much of a manifest is read for its Secrets, in bytes: a few seconds'
// work.
const maxManifest = 2 << 20

var (
	documents     = regexp.MustCompile(`^(?:---|\.\.\.)(?:\s|$)`)
	harmlessField = regexp.MustCompile(`^\s*(?:-\s+)*["']?(?:apiVersion["']?\s*:\s*["']?v1|kind["']?\s*:\s*["']?Secret|secretGenerator["']?\s*:)["']?\s*,?\s*$`)
	// doubtful is in a text that cannot be read and may hold a Secret.
	doubtful = regexp.MustCompile(`\bkind\b["']?\s*:[^\n]*Secret(?:List)?\b|\bsecretGenerator\b|\bstringData\b|\bpath\b["']?\s*:\s*["']?/data\b`)
	// breaks are what YAML takes for the end of a line, too.
	breaks = strings.NewReplacer("\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
)

// InSecret tells which lines of a manifest hold something of a Secret, as
// [Secrets] finds it, also in a text that is the value of a field. The manifest is
// YAML or JSON; all of a document that cannot be read and speaks of a Secret is
// told. Lines that are comments are not read. [HideLine] is how such a line is
// shown. So are the lines of a text that a variable or a credential holds, as in value: |-,
// and the values of options of storage drivers, and the lines of a private key. Of a manifest
// of more than 2 MiB every line is told: it is not read. The time is in proportion to the
// length.
func InSecret(lines []string) []bool {
	size := 0
	for _, line := range lines {
		size += len(line) + 1
	}
	if size > maxManifest {
		return slices.Repeat([]bool{true}, len(lines))
	}
	hidden := inSecret(lines, 0)
	hideKeys(lines, hidden)
	for i := 0; i < len(lines); i++ {
		m := textBelow.FindStringSubmatch(lines[i])
		secret := m != nil && Named(m[1])
		if !secret && !block.MatchString(lines[i]) {
			continue
		}
		for in := len(indent(lines[i])); i+1 < len(lines) && (strings.TrimSpace(lines[i+1]) == "" || len(indent(lines[i+1])) > in); i++ {
			hidden[i+1] = hidden[i+1] || secret || !strings.HasPrefix(strings.TrimSpace(lines[i+1]), "--") // flags are judged by their names
		}
	}
	return hidden
}

// hideKeys tells the lines of private keys. One whose end is missing reaches to the next
// line that is indented less than its first one, or to the last line.
func hideKeys(lines []string, hidden []bool) {
	inside, in := false, 0
	for i, line := range lines {
		if inside && strings.TrimSpace(line) != "" && len(indent(line)) < in {
			inside = false
		}
		begin := beginLine.FindStringIndex(line)
		if begin != nil {
			inside, in = true, len(indent(line))
		}
		hidden[i] = hidden[i] || inside
		if end := endLine.FindAllStringIndex(line, -1); end != nil && (begin == nil || end[len(end)-1][0] > begin[0]) {
			inside = false
		}
	}
}

var (
	beginLine = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY`)
	endLine   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY`)
)

// block is the first line of a text of several lines that a variable holds.
var block = regexp.MustCompile(`^\s*(?:-\s+)?["']?(?:value|[A-Z_][A-Z0-9_]+)["']?:\s+[|>][-+0-9]*\s*(?:#.*)?$`)

// textBelow is the first line of a text of several lines.
var textBelow = regexp.MustCompile(`^\s*(?:-\s+)?["']?([A-Za-z0-9_.-]+)["']?:\s+[|>][-+0-9]*\s*(?:#.*)?$`)

// HideLine is a line with nothing left but its indentation.
func HideLine(line string) string { return indent(line) + Redacted }

func inSecret(lines []string, depth int) []bool {
	var m manifest
	var of []int
	for i, line := range lines {
		for part := range strings.SplitSeq(breaks.Replace(strings.TrimRight(strings.TrimPrefix(line, "\ufeff"), "\r\n")), "\n") {
			m.lines, of = append(m.lines, part), append(of, i)
		}
	}
	m.hidden = make([]bool, len(m.lines))
	for from, to := 0, 1; to <= len(m.lines); to++ {
		if to == len(m.lines) || documents.MatchString(m.lines[to]) {
			m.document(from, to, depth)
			from = to
		}
	}
	out := make([]bool, len(lines))
	for i, hidden := range m.hidden {
		out[of[i]] = out[of[i]] || hidden
	}
	return out
}

// manifest is a text of which lines are being hidden.
type manifest struct {
	lines  []string
	hidden []bool
}

// hide hides the lines from and to (exclusive).
func (m *manifest) hide(from, to int) {
	for i := from; i < to; i++ {
		m.hidden[i] = m.hidden[i] || strings.TrimSpace(m.lines[i]) != "" && !harmlessField.MatchString(m.lines[i])
	}
}

// document hides what is of a Secret in the document of lines from and to
// (exclusive).
func (m *manifest) document(from, to, depth int) {
	lines := slices.Clone(m.lines[from:to])
	if strings.HasPrefix(lines[0], "...") {
		lines[0] = "" // the end of the one before
	}
	text := strings.Join(lines, "\n")
	if !mentions(text) {
		return
	}
	doc, ok := parse(text)
	switch {
	case !ok && doubtful.MatchString(text), depth > maxTexts:
		m.hide(from, to)
	case ok:
		s := spans{manifest: m, text: strings.TrimSpace(text), from: from, to: to, depth: depth, secrets: Secrets(doc), keys: map[*yaml.Node]bool{}, variables: map[*yaml.Node]bool{}}
		s.visit(doc)
		s.hide()
	}
}

// parse reads a text that is one document.
func parse(text string) (*yaml.Node, bool) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	if dec.Decode(&doc) != nil {
		return nil, false
	}
	return &doc, errors.Is(dec.Decode(&more), io.EOF)
}

// mentions reports whether a text may hold something of a Secret: most do not,
// and are not read.
func mentions(text string) bool {
	return strings.Contains(text, "/data") || strings.Contains(text, `\`) || namesOne.MatchString(text)
}

// namesOne is in a text that may hold a Secret, or a field that is called like a
// credential, or options of a driver.
var namesOne = regexp.MustCompile(`(?im)secret|stringData|(?:name|value)["']?\s*:\s*(?:#.*)?$|value["']?\s*:[^\n{}]*\n\s+[^-\s][^:\n]*$|/env/|\b(?:env|extraEnv(?:Vars)?|envVars|httpHeaders)["']?\s*:|docker|token|key|passw|passphrase|pwd|pass\b|pw\b|credential|auth|dsn|jwt|cookie|private|webhook|volumeAttributes|flexVolume`)

// spans finds the lines of a document's hidden nodes. A node does not tell where
// it ends, but the node behind it where it begins.
type spans struct {
	*manifest

	text            string
	from, to, depth int
	secrets         map[*yaml.Node]bool
	keys            map[*yaml.Node]bool
	variables       map[*yaml.Node]bool // lists of variables, or of headers, and their elements; mappings of variables
	inside          bool                // a value that is hidden
	nodes           []*yaml.Node        // in the order of the text
	found           []span
}

// span is a hidden node, and the place in nodes of what comes behind it.
type span struct {
	node  *yaml.Node
	next  int
	plain bool // comments below it are none of it
	below bool // its first line is judged by itself
}

func (s *spans) visit(n *yaml.Node) {
	s.nodes = append(s.nodes, n)
	switch {
	case s.secrets[n]:
	case n.Kind == yaml.ScalarNode:
		if n.Value == s.text || !mentions(n.Value) {
			return // the whole document is this scalar, or it says nothing
		}
		lines := strings.Split(n.Value, "\n")
		inner := inSecret(lines, s.depth+1)
		if !slices.Contains(inner, true) {
			return
		}
		if s.literal(n, lines) {
			for i, hidden := range inner {
				if hidden {
					s.manifest.hide(s.from+n.Line+i, s.from+n.Line+i+1)
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
	s.keys[key] = true
	s.visit(key)
	if list := resolve(value); slices.Contains(variableFields, key.Value) && list.Kind != yaml.ScalarNode && !s.variables[list] {
		s.variables[list] = true
		for _, c := range list.Content {
			if list.Kind == yaml.SequenceNode {
				s.variables[resolve(c)] = true
			}
		}
	}
	valued, apart := s.valued(of, key, value)
	if !options && !valued && !Named(key.Value) || s.secrets[value] || s.inside || value.Kind != yaml.ScalarNode && names(value) {
		s.visit(value)
		return
	}
	from := len(s.nodes)
	s.inside = value.Kind != yaml.ScalarNode
	s.visit(value)
	s.inside = false
	if value.Kind == yaml.ScalarNode {
		s.found = append(s.found, span{key, len(s.nodes), value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0, !apart})
		return
	}
	for i := from; i < len(s.nodes); i++ {
		if n := s.nodes[i]; n.Kind == yaml.ScalarNode && !s.keys[n] && !short.MatchString(n.Value) && n.Value != "" {
			s.found = append(s.found, span{node: n, next: i + 1})
		}
	}
}

// variableFields are the fields that hold variables, also of values of charts, or headers.
var variableFields = []string{"env", "extraEnv", "extraEnvVars", "envVars", "httpHeaders"}

// mapping is what the fields of a mapping say together. It is read once: a mapping may
// repeat each of them.
type mapping struct {
	node     *yaml.Node
	isVolume bool       // has a driver
	name     string     // the strictest
	isSmall  bool       // its name is of a list of variables, and its line does not tell that
	hides    bool       // a JSON patch on what is hidden, or has the name of a credential
	names    *yaml.Node // the key of the name or path; nil: none
	apart    bool       // there are several, or it stands on another line than its key
}

func (s *spans) mapping(n *yaml.Node) mapping {
	m := mapping{node: n, isVolume: len(values(n, "driver")) > 0}
	isPatch := len(values(n, "op")) > 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], resolve(n.Content[i+1])
		switch {
		case k.Value == "name":
			m.name = stricter(m.name, v.Value)
			m.isSmall = m.isSmall || s.variables[n] && !variable.MatchString(v.Value)
		case isPatch && k.Value == "path" && hidesPath(v.Value):
			m.hides = true
		default:
			continue
		}
		m.apart = m.apart || m.names != nil || k.Line != v.Line
		m.names = k
	}
	m.hides = m.hides || Named(m.name)
	m.apart = m.apart || m.isSmall
	return m
}

// valued reports whether a field holds the value of a variable or of a JSON patch that is
// hidden, and whether what names it stands apart, so that its line does not tell.
func (s *spans) valued(of mapping, key, value *yaml.Node) (is, apart bool) {
	if of.names == nil && s.variables[of.node] && value.Kind == yaml.ScalarNode && !variable.MatchString(key.Value) {
		is = !plainLiteral("", value.Value) // the key is the name of a variable
		return is, is
	}
	if key.Value != "value" || value.Kind != yaml.ScalarNode || value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 || of.names == nil {
		return false, false
	}
	is = of.hides || of.isSmall && !plainLiteral("", value.Value) || variable.MatchString(of.name) && !plainLiteral(of.name, value.Value)
	return is, is && (of.apart || between(of.node, of.names.Line, key.Line))
}

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
	above := -1 // the line whose comments were hidden last: many nodes may stand in one
	for _, f := range s.found {
		first, last := s.from+f.node.Line-1, s.to
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
		if at := first; !f.below && at != above {
			for above = at; first > s.from && comment(s.lines[first-1]); first-- {
			}
		}
		s.manifest.hide(first, last)
	}
}

// behind reports whether something stands in a line before a node at a column
// (1 is the first): the end of the node before it.
func (s *spans) behind(line, column int) bool {
	before := []rune(s.lines[line])
	return strings.Trim(string(before[:min(column-1, len(before))]), " \t-,[]{}") != ""
}

// comment reports whether a line says nothing, or is a comment.
func comment(line string) bool {
	text := strings.TrimSpace(line)
	return text == "" || text[0] == '#'
}

func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

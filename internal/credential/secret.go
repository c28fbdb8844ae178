package credential

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
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
// told. Lines that are comments are not read. So are the lines of a text that a variable or a credential holds, as in value: |-,
// and the values of options of storage drivers, and the lines of a private key. Of a manifest
// of more than 2 MiB every line is told: it is not read. The time is in proportion to the
// length.
func InSecret(lines []string) []bool {
	out := make([]bool, len(lines))
	for i, s := range shades(lines) {
		out[i] = s != shown
	}
	return out
}

// shade is how much of a line is hidden.
type shade byte

const (
	shown    shade = iota
	oneValue       // of a field that stands first in the line
	all
)

// shades is [InSecret] with how much of each line is hidden.
func shades(lines []string) []shade {
	size := 0
	for _, line := range lines {
		size += len(line) + 1
	}
	if size > maxManifest {
		return slices.Repeat([]shade{all}, len(lines))
	}
	hidden := inSecret(lines, 0, false)
	hideKeys(lines, hidden)
	for i := 0; i < len(lines); i++ {
		m := textBelow.FindStringSubmatch(lines[i])
		secret := m != nil && Named(m[1])
		if !secret && !block.MatchString(lines[i]) {
			continue
		}
		for in := len(indent(lines[i])); i+1 < len(lines) && (strings.TrimSpace(lines[i+1]) == "" || len(indent(lines[i+1])) > in); i++ {
			if secret || !strings.HasPrefix(strings.TrimSpace(lines[i+1]), "--") { // flags are judged by their names
				hidden[i+1] = all
			}
		}
	}
	return hidden
}

// hideKeys tells the lines of private keys. One whose end is missing reaches to the next
// line that is indented less than its first one, or to the last line.
func hideKeys(lines []string, hidden []shade) {
	inside, in := false, 0
	for i, line := range lines {
		if inside && strings.TrimSpace(line) != "" && len(indent(line)) < in {
			inside = false
		}
		begin := beginLine.FindStringIndex(line)
		if begin != nil {
			inside, in = true, len(indent(line))
		}
		if inside {
			hidden[i] = all
		}
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

// hideLine is a line with nothing left but its indentation.
func hideLine(line string) string { return indent(line) + Redacted }

// inSecret is InSecret for a text within depth others. One that variables holds, as the
// value of extraEnv, is hidden if it cannot be read.
func inSecret(lines []string, depth int, variables bool) []shade {
	m := manifest{ofVariables: variables}
	var of []int
	for i, line := range lines {
		for part := range strings.SplitSeq(breaks.Replace(strings.TrimRight(strings.TrimPrefix(line, "\ufeff"), "\r\n")), "\n") {
			m.lines, of = append(m.lines, part), append(of, i)
		}
	}
	m.hidden = make([]shade, len(m.lines))
	for from, to := 0, 1; to <= len(m.lines); to++ {
		if to == len(m.lines) || documents.MatchString(m.lines[to]) {
			m.document(from, to, depth)
			from = to
		}
	}
	out := make([]shade, len(lines))
	for i, hidden := range m.hidden {
		out[of[i]] = max(out[of[i]], hidden)
	}
	return out
}

// manifest is a text of which lines are being hidden.
type manifest struct {
	lines       []string
	hidden      []shade
	ofVariables bool // it is a list or a mapping of variables
}

// hide hides the lines from and to (exclusive).
func (m *manifest) hide(from, to int) {
	for i := from; i < to; i++ {
		if strings.TrimSpace(m.lines[i]) != "" && !harmlessField.MatchString(m.lines[i]) {
			m.hidden[i] = all
		}
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
	if !m.ofVariables && !mentions(text) {
		return
	}
	doc, ok := parse(text)
	isTemplate := !ok && strings.Contains(text, "{{")
	if isTemplate {
		doc, ok = parse(filledIn(text))
	}
	switch {
	case (!ok || isTemplate) && doubtful.MatchString(text), !ok && m.ofVariables, depth > maxTexts:
		m.hide(from, to)
	case ok:
		s := spansOf(doc)
		s.manifest, s.text, s.from, s.to, s.depth = m, strings.TrimSpace(text), from, to, depth
		if m.ofVariables {
			s.hold(doc)
		}
		s.visit(doc)
		s.hide()
	}
}

func spansOf(doc *yaml.Node) *spans { return &spans{manifest: &manifest{}, secrets: Secrets(doc)} }

// Literals returns the scalars of a document whose values are hidden by what names them:
// of variables, headers, options of storage drivers and credentials. Those that have a
// credential's form are not among them, nor what a text holds.
func Literals(doc *yaml.Node) map[*yaml.Node]bool {
	s := spansOf(doc)
	s.visit(doc)
	return s.values
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

var (
	action      = regexp.MustCompile(`\{\{[^\n]*?\}\}`)
	actionsOnly = regexp.MustCompile(`(?m)^[ \t]*(?:-[ \t]+)?\{\{[^\n]*\}\}[ \t]*$`)
)

// filledIn is a template of Helm with words in place of its actions, so that it can be read:
// lines of actions alone are blank.
func filledIn(text string) string {
	text = actionsOnly.ReplaceAllString(text, "")
	return action.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("x", len(s)) })
}

// mentions reports whether a text may hold something of a Secret: most do not,
// and are not read.
func mentions(text string) bool {
	return strings.Contains(text, "/data") || strings.Contains(text, `\`) || namesOne.MatchString(text)
}

// namesOne is in a text that may hold a Secret, or a field that is called like a
// credential, or options of a driver.
var namesOne = regexp.MustCompile(`(?im)secret|stringData|(?:name|value)["']?\s*:\s*(?:#.*)?$|value["']?\s*:[^\n{}]*\n\s+[^-\s][^:\n]*$|/env/|/args/|/command/|kind["']?\s*:\s*["']?ConfigMap|(?:args|command)["']?\s*:|(?:env|envs|environment|vars|variables|headers)["']?\s*:|docker|token|key|passw|passphrase|pwd|pass\b|pw\b|credential|auth|dsn|jwt|cookie|private|webhook|volumeAttributes|flexVolume`)

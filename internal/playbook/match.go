package playbook

import (
	"fmt"
	"log/slog"
	"regexp/syntax"
	"strings"

	"github.com/prometheus/alertmanager/matcher/compat"
	"github.com/prometheus/alertmanager/pkg/labels"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// matcherSet is one entry of match: all of its matchers must hold.
type matcherSet struct {
	source   string
	matchers labels.Matchers
}

// matches reports whether all matchers hold. As in Alertmanager, an absent
// label has the empty value.
func (s matcherSet) matches(alert map[string]string) bool {
	for _, m := range s.matchers {
		if !m.Matches(alert[m.Name]) {
			return false
		}
	}
	return true
}

// Limits of match.
const (
	maxMatcherSets = 64
	maxMatcher     = 8192 // characters
)

// matchers reads match: one matcher set, or a list of which one must match. An
// empty list matches no alert: people, loans and other playbooks start such a
// playbook.
func (d document) matchers(n *yaml.Node, path string) []matcherSet {
	texts, nodes := d.Texts(n, path)
	if len(texts) > maxMatcherSets {
		d.Report(n, path, fmt.Sprintf("%d matcher sets, at most %d allowed", len(texts), maxMatcherSets), "")
		return nil
	}
	var out []matcherSet
	for i, text := range texts {
		set, err := parseMatchers(text)
		if err != nil {
			at := path
			if n.Kind == yaml.SequenceNode {
				at = fmt.Sprintf("%s[%d]", path, i)
			}
			d.Report(nodes[i], at, err.Error(), `Alertmanager's syntax: '{alertname="A", severity=~"page|critical"}'`)
			continue
		}
		out = append(out, set)
	}
	return out
}

// parseMatchers parses one matcher set as Alertmanager does: as UTF-8 matchers
// first, then as classic ones.
func parseMatchers(text string) (matcherSet, error) {
	if len(text) > maxMatcher {
		return matcherSet{}, fmt.Errorf("matchers have %d bytes, at most %d allowed", len(text), maxMatcher)
	}
	parse := compat.FallbackMatchersParser(slog.New(slog.DiscardHandler))
	ms, err := parse(text, "playbook")
	if err != nil {
		return matcherSet{}, fmt.Errorf("invalid matchers: %w", err)
	}
	set := matcherSet{source: text, matchers: ms}
	if len(ms) == 0 || set.matches(nil) {
		return matcherSet{}, fmt.Errorf("%s matches every alert, even one without labels", yamldoc.Clip(text))
	}
	return set, nil
}

// key is a label with all the values of it that a matcher set can match. An
// index finds the set by it.
type key struct {
	label  string
	values []string
}

// keys lists the set's keys; none if it names only patterns.
func (s matcherSet) keys() []key {
	var out []key
	for _, m := range s.matchers {
		switch {
		case m.Type == labels.MatchEqual && m.Value != "":
			out = append(out, key{m.Name, []string{m.Value}})
		case m.Type == labels.MatchRegexp:
			if words := alternatives(m.Value); len(words) > 0 {
				out = append(out, key{m.Name, words})
			}
		}
	}
	return out
}

// maxAlternatives limits the index entries of one pattern.
const maxAlternatives = 128

// alternatives returns the words of a pattern that is only a choice of words,
// such as A|B|C. It returns nil for any other pattern and for one that matches
// the empty word.
func alternatives(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	words, ok := words(re)
	if !ok || len(words) > maxAlternatives {
		return nil
	}
	for _, w := range words {
		if w == "" {
			return nil
		}
	}
	return words
}

// words expands a pattern into the words it matches, if there are few.
func words(re *syntax.Regexp) ([]string, bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}, re.Flags&syntax.FoldCase == 0
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpCapture:
		return words(re.Sub[0])
	case syntax.OpCharClass:
		return classWords(re.Rune)
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			ws, ok := words(sub)
			if out = append(out, ws...); !ok || len(out) > maxAlternatives {
				return nil, false
			}
		}
		return out, true
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			ws, ok := words(sub)
			if !ok || len(out)*len(ws) > maxAlternatives {
				return nil, false
			}
			var joined []string
			for _, a := range out {
				for _, b := range ws {
					joined = append(joined, a+b)
				}
			}
			out = joined
		}
		return out, true
	default:
		return nil, false
	}
}

func classWords(ranges []rune) ([]string, bool) {
	var out []string
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i+1]-ranges[i] > maxAlternatives {
			return nil, false
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if out = append(out, string(r)); len(out) > maxAlternatives {
				return nil, false
			}
		}
	}
	return out, true
}

// Match returns the playbook's matcher sets as written.
func (p *Playbook) Match() []string {
	out := make([]string, len(p.match))
	for i, s := range p.match {
		out[i] = strings.TrimSpace(s.source)
	}
	return out
}

package playbook

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/spelling"
)

// Nearest returns the playbook that comes nearest to matching an alert, and the
// matchers of it that fail: of as many as fail, those whose words look most like the
// alert's values. It returns no name where none comes near.
func (s *Set) Nearest(a Alert) (name string, failed []string) {
	best := 0
	for _, p := range s.all {
		for _, ms := range p.match {
			fails, away, alike := ms.failed(a.Labels)
			if len(fails) == 0 || len(fails) == len(ms.matchers) && !alike {
				continue
			}
			if rank := len(fails)*10*notNear + away; name == "" || rank < best {
				name, failed, best = p.Name, fails, rank
			}
		}
	}
	return name, failed
}

// notNear is the distance of a value from a pattern, and from words that look otherwise.
const notNear = 100

// failed returns the matchers that fail on an alert's labels, and how many letters the
// values are away from what would match; alike: one of them looks like it.
func (s matcherSet) failed(of map[string]string) (fails []string, away int, alike bool) {
	words := map[string][]string{}
	for _, k := range s.keys() {
		words[k.label] = append(words[k.label], k.values...)
	}
	for _, m := range s.matchers {
		value, ok := of[m.Name]
		if m.Matches(value) {
			continue
		}
		near, like := notNear, ""
		if !ok {
			near = notNear / 2 // a label that was forgotten
		}
		for _, w := range words[m.Name] {
			if len(value) > 2*len(w) {
				continue
			}
			if d := spelling.Distance(strings.ToLower(value), strings.ToLower(w)); d < near && d <= len(w)/3 {
				near, like = d, w
			}
		}
		miss := Mismatch{Matcher: m.String(), Label: m.Name, Value: value, Missing: !ok}.String()
		if like != "" {
			alike = true
			miss += fmt.Sprintf(" (did you mean %q?)", like)
		}
		fails, away = append(fails, miss), away+near
	}
	return fails, away, alike
}

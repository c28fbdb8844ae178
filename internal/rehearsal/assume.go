package rehearsal

import (
	"errors"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Findings are results of checks, by the name of the kind.
type Findings map[string]finding

// ReadFindings reads results of checks by their kinds, each written as in a test:
// its evidence, or as a text why there is none. The error is a [yamldoc.Problems].
func ReadFindings(file string, data []byte, kinds []playbook.Kind) (Findings, error) {
	var problems yamldoc.Problems
	docs := yamldoc.Documents(file, data, &problems)
	if len(docs) != 1 && len(problems) == 0 {
		problems = append(problems, yamldoc.Problem{File: file, Message: fmt.Sprintf("%d documents, want one", len(docs))})
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	r := &reader{d: docs[0], kinds: map[string]playbook.Kind{}}
	var checks []string
	for _, k := range kinds {
		if k.Role == playbook.RoleCheck {
			r.kinds[k.Name] = k
			checks = append(checks, k.Name)
		}
	}
	out := Findings{}
	if m := docs[0].Mapping(docs[0].Root, "", checks...); m != nil {
		for _, name := range checks {
			if n := m.Get(name); n != nil {
				out[name] = r.finding(n, name, r.kinds[name])
			}
		}
	}
	return out, problems.Sorted().Err()
}

// Of returns the evidence of a kind at a time; false: there is none of it. The error
// is the text that stands in its place.
func (f Findings) Of(kind string, now time.Time) (evidence map[string]any, ok bool, err error) {
	found, ok := f[kind]
	switch {
	case !ok:
		return nil, false, nil
	case found.why != "":
		return nil, true, errors.New(found.why)
	}
	evidence, _ = at(found.value, now).(map[string]any)
	return evidence, true, nil
}

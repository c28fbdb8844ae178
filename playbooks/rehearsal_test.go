package playbooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// The cases of tests/ hold, and together take every edge of their playbook.
func TestRehearsals(t *testing.T) {
	files, err := filepath.Glob("tests/*.test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	set := load(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".test.yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			suite, err := rehearsal.Read(file, data)
			if err != nil {
				t.Fatal(err)
			}
			p := set.ByName(strings.TrimSuffix(filepath.Base(suite.Playbook), ".yaml"))
			if p == nil {
				t.Fatalf("%s names %s, which is not shipped", file, suite.Playbook)
			}
			if err := suite.Compile(p, kinds.Declarations()); err != nil {
				t.Fatal(err)
			}
			rehearse(t, suite, p)
		})
	}
}

func rehearse(t *testing.T, suite *rehearsal.Suite, p *playbook.Playbook) {
	t.Helper()
	var results []rehearsal.Result
	for _, c := range suite.Cases {
		r := c.Run(p)
		if len(r.Failed) > 0 {
			t.Errorf("%s, line %d:\n%s", c.Name, c.Line, strings.Join(r.Failed, "\n"))
		}
		results = append(results, r)
	}
	cover := rehearsal.Cover(p, results)
	for _, s := range cover.Unseen {
		t.Errorf("no case enters %s", s)
	}
	for _, e := range cover.Untaken {
		t.Errorf("no case takes %s -> %s (%s): add one", e.From, e.To, e.Why)
	}
}

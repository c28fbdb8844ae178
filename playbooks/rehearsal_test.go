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

// Each playbook has cases in tests/, which hold and together take every edge of it.
func TestRehearsals(t *testing.T) {
	for _, p := range load(t).All() {
		t.Run(p.Name, func(t *testing.T) {
			file := filepath.Join("tests", p.Name+".test.yaml")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: write the playbook's cases", err)
			}
			suite, err := rehearsal.Read(file, data)
			if err != nil {
				t.Fatal(err)
			}
			if suite.Playbook != "../"+p.Name+".yaml" {
				t.Fatalf("%s is of playbook %s", file, suite.Playbook)
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

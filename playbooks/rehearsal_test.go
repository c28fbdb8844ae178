package playbooks

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/step/kinds"
)

var update = flag.Bool("update", false, "write the record of what the cases cover")

// Each playbook has cases in tests/, which hold and together take every edge of it. What
// they cover is on record for the page.
func TestRehearsals(t *testing.T) {
	worlds, err := filepath.Glob("tests/worlds/*.world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var record []Tested
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
			tested := rehearse(t, suite, p)
			tested.Worlds = len(worlds)
			record = append(record, tested)
		})
	}
	want, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if want = append(want, '\n'); *update && !t.Failed() {
		if err := os.WriteFile("tests/covered.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, Tests) && len(record) == len(load(t).All()) {
		t.Error("tests/covered.json is out of date: go test ./playbooks -run TestRehearsals -update")
	}
}

func rehearse(t *testing.T, suite *rehearsal.Suite, p *playbook.Playbook) Tested {
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
	return Tested{
		Digest: p.Digest, Cases: len(results), States: cover.States, Seen: cover.States - len(cover.Unseen), Edges: cover.Edges, Taken: cover.Edges - len(cover.Untaken),
	}
}

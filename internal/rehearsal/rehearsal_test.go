package rehearsal

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/playbook"
)

func testKinds() []playbook.Kind {
	text, number := playbook.Type{Name: playbook.String}, playbook.Type{Name: playbook.Double}
	return []playbook.Kind{
		{
			Name: "test.look", Role: playbook.RoleCheck, Doc: "Looks.",
			Out: []playbook.Field{
				{Name: "bad", Type: playbook.Type{Name: playbook.Bool}},
				{Name: "value", Type: number},
				{Name: "since", Type: playbook.Type{Name: playbook.Timestamp}},
				{Name: "state", Type: text, Enum: []string{"", "hot"}},
			},
		},
		{
			Name: "test.turn", Role: playbook.RoleLever, Doc: "Turns.", Class: playbook.ClassRollback,
			With: []playbook.Field{{Name: "to", Type: playbook.Type{Name: playbook.Int}, Required: true}}, Steps: &playbook.Stepping{Param: "to"},
		},
	}
}

// compiled reads a suite for the playbook of the tests.
func compiled(t *testing.T, file, text string) (*Suite, *playbook.Playbook, error) {
	t.Helper()
	data, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := playbook.Parse("all.yaml", data, testKinds())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(file, []byte(text))
	if err == nil {
		err = s.Compile(all[0], testKinds())
	}
	return s, all[0], err
}

// Every kind of state, edge and result is rehearsed; the cases are those that the
// documentation refers to.
func TestCases(t *testing.T) {
	data, err := os.ReadFile("testdata/all.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, p, err := compiled(t, "all.test.yaml", string(data))
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	for _, c := range s.Cases {
		r := c.Run(p)
		if len(r.Failed) > 0 {
			t.Errorf("%s:\n%s", c.Name, strings.Join(r.Failed, "\n"))
		}
		if diff := cmp.Diff(r, c.Run(p), cmp.AllowUnexported(Case{}), cmp.Comparer(func(a, b *Case) bool { return a == b })); diff != "" {
			t.Errorf("%s: the second time is different:\n%s", c.Name, diff)
		}
		results = append(results, r)
	}
	if c := Cover(p, results); len(c.Unseen) > 0 || len(c.Untaken) > 0 || c.States != 10 || c.Edges != 18 {
		t.Errorf("coverage %+v", c)
	}
	short := Cover(p, results[:1])
	if len(short.Unseen) != 8 || len(short.Untaken) != 17 {
		t.Errorf("coverage of one case: %+v", short)
	}
}

// A case that comes out otherwise says how, and one that ends for want of a result
// says of which state.
func TestCasesThatFail(t *testing.T) {
	const head = "apiVersion: responder/v1alpha1\nkind: PlaybookTest\nplaybook: all.yaml\nalert: {alertname: Slow}\n" +
		"results: {look: {bad: true, value: 1, since: -10m}, many: {one: {value: 7}, two: {value: 9}}}\ncases:\n"
	for text, want := range map[string]string{
		`- {name: a, results: {turn: verified}, want: {path: [look, fine]}}`:           "path: got look -> many -> turn -> resolved, want look -> fine",
		`- {name: a, results: {turn: verified}, want: {levers: [{turn: {to: 8}}]}}`:    "levers: got turn (to=7), want turn (to=8)",
		`- {name: a, results: {turn: verified}, want: {levers: []}}`:                   "levers: got turn (to=7), want none",
		`- {name: a, results: {turn: verified}, want: {outcome: escalated}}`:           "outcome: got resolved (Resolved), want escalated",
		`- {name: a, results: {turn: verified}, want: {within: 1m}}`:                   "time: got 3m, want at most 1m",
		`- {name: a, want: {outcome: escalated}}`:                                      "the run comes to state turn, for which the case has no results",
		`- {name: a, results: {look: {since: -10s}}, want: {outcome: escalated}}`:      "the run comes to state calm, for which the case has no results",
		`- {name: a, results: {turn: improved, sure: approved}, want: {path: [look]}}`: "path: got look -> many -> turn -> turn -> turn -> many",
	} {
		s, p, err := compiled(t, "a.test.yaml", head+text+"\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Cases[0].Run(p).Failed, "\n"); !strings.Contains(got, want) {
			t.Errorf("%s\n got  %s\n want %s", text, got, want)
		}
	}
}

// Every mistake in a file is reported, with its place and the words that are
// allowed.
func TestBadSuites(t *testing.T) {
	const text = `apiVersion: responder/v1alpha1
kind: PlaybookTest
playbook: all.yaml
age: 48h
results:
  look: {bda: true, value: high, since: yesterday, state: cold}
  lock: {}
  many: {three: {}}
  turn: fine
  away: gone
cases:
- name: a
  service: {nam: x}
  results: {told: second, sure: yes}
  want: {path: [look, nowhere], levers: [look], outcome: solved}
- {name: a, want: {}}
- {name: b}
`
	_, _, err := compiled(t, "a.test.yaml", text)
	want := `a.test.yaml:4:6: age: the duration is 2d, must be at most 1d
a.test.yaml:6:10: results.look: unknown field "bda" (did you mean "bad"? allowed: bad, value, since, state)
a.test.yaml:6:28: results.look.value: want double, got the text "high"
a.test.yaml:6:41: results.look.since: "yesterday" is no time (write how long before the check it was, e.g. -10m, or 2026-01-07T12:00:00Z)
a.test.yaml:6:59: results.look.state: state is never "cold" (allowed: "", hot)
a.test.yaml:7:3: results: playbook all has no state "lock" (did you mean "look"? allowed: look, calm, many, turn, sure, away, told, fine, resolved, people)
`
	if err == nil || !strings.HasPrefix(err.Error()+"\n", want) {
		t.Fatalf("got\n%v\nwant\n%s", err, want)
	}
	for _, part := range []string{
		`unknown field "three" (allowed: one, two)`, `unknown result "fine" (allowed: verified`, `state away is a divert and has no result`, `unknown field "nam" (did you mean "name"?`,
		`unknown result "second" (allowed: first, told)`, `sure: unknown result "yes" (allowed: approved, denied, expired)`, `has no state "nowhere"`, `state look is a check, not a lever`, `unknown outcome "solved"`,
		`duplicate case "a"`, `nothing is expected`, `cases[2]: missing field want`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("lacks %q:\n%v", part, err)
		}
	}
}

// Whatever a file holds, it is refused or runs to an end.
func FuzzSuite(f *testing.F) {
	data, err := os.ReadFile("testdata/all.test.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	doc, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		f.Fatal(err)
	}
	all, err := playbook.Parse("all.yaml", doc, testKinds())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read("a.test.yaml", data)
		if err != nil || s.Compile(all[0], testKinds()) != nil {
			return
		}
		for _, c := range s.Cases {
			if r := c.Run(all[0]); r.Outcome == "" && len(r.Failed) == 0 {
				t.Errorf("%s neither ended nor failed", c.Name)
			}
		}
	})
}

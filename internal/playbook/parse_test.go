package playbook

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func mustParse(tb testing.TB, file string) *Playbook {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	ps, err := Parse(file, data, testKinds())
	if err != nil {
		tb.Fatal(err)
	}
	return ps[0]
}

// Whom a notify state tells: one channel, several, or the default ones.
func TestNotifyTo(t *testing.T) {
	doc, err := os.ReadFile("testdata/good/scale.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string][]string{"": nil, "to: oncall": {"oncall"}, "to: [oncall, audit-feed]": {"oncall", "audit-feed"}} {
		ps, err := Parse("f.yaml", []byte(strings.Replace(string(doc), "    tell:\n", "    tell:\n      "+to+"\n", 1)), testKinds())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ps[0].State("tell").To); diff != "" {
			t.Errorf("%q (-want +got):\n%s", to, diff)
		}
	}
}

// A notify with once is told by one run, and drawn so.
func TestNotifyOnce(t *testing.T) {
	doc, err := os.ReadFile("testdata/good/scale.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ps, err := Parse("f.yaml", []byte(strings.Replace(string(doc), "    tell:\n", "    tell:\n      once: 'pods of ${service.name}'\n", 1)), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	text, err := ps[0].State("tell").Once.Text(Scope{Service: Service{Name: "chat"}})
	if err != nil || text != "pods of chat" {
		t.Errorf("once is %q, %v", text, err)
	}
	if dot := (graph{p: ps[0]}).dot(); !strings.Contains(dot, `notify once`) {
		t.Errorf("the graph does not show it:\n%s", dot)
	}
}

// Everything a document says arrives in the playbook, with defaults and places.
func TestParse(t *testing.T) {
	const file = "testdata/good/scale.yaml"
	p := mustParse(t, file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); p.Digest != want || string(p.Doc) != string(data) {
		t.Errorf("digest %s, want %s over the file", p.Digest, want)
	}
	var got []string
	for _, s := range p.States {
		got = append(got, fmt.Sprintf("%s %q %s %s %d:%d", s.Name, s.Title, s.Kind, s.Step, s.Line, s.Column))
	}
	want := []string{
		`queue "Queue long?" check prometheus.query 13:5`, `pods "Pods" check kube.workload 27:5`, `sure "Sure" gate  32:5`,
		`add "Add replicas" lever kube.scale 38:5`, `tell "Tell" notify  59:5`, `bad-nodes "Bad nodes" divert  62:5`,
		`not-confirmed "Not confirmed" end  63:5`, `resolved "Resolved" end  64:5`, `escalated "Escalated" end  65:5`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	add := p.State("add")

	checks := []struct {
		name      string
		got, want any
	}{
		{"name", p.Name, "scale-out"},
		{"title", p.Title, "Scale out"},
		{"autonomy", p.Autonomy, Auto},
		{"match", p.Match(), []string{`{alertname=~"QueueLong|QueueVeryLong", severity!="info"}`}},
		{"source", p.Source, file + ":1"},
		{"attempts", number(t, p.State("queue").Retry.Attempts), 3.0},
		{"backoff", p.State("queue").Retry.Backoff.fixed(), 2 * time.Second},
		{"on_error", p.State("queue").OnError, "escalated"},
		{"label", p.State("queue").Next[1].Text(), "queue is empty"},
		{"shorthand next", p.State("tell").Next, []Edge{{To: "escalated", Line: 61, Column: 13}}},
		{"signal shorthand", add.Next[0], Edge{On: OnVerified, To: "resolved", Line: 57, Column: 11}},
		{"approve", *add.Approve, Approve{By: []string{"service.owners"}, OnExpiry: ExpiryEscalate}},
		{"gate", *p.State("sure").Approve, Approve{By: []string{"service.owners", "group:oncall"}, OnExpiry: ExpiryDeny}},
		{"times of the guards", []time.Duration{add.Guards.Cooldown.fixed(), add.Guards.EvidenceAge.fixed()}, []time.Duration{30 * time.Minute, 5 * time.Minute}},
		{"replicas of the guards", number(t, add.Guards.MinReady), 2.0},
		{"times of approvals", []time.Duration{add.Approve.Within.fixed(), p.State("sure").Approve.Within.fixed()}, []time.Duration{15 * time.Minute, 10 * time.Minute}},
		{"times of the proof", []time.Duration{add.Verify.Within.fixed(), add.Verify.Hold.fixed(), add.Verify.Interval.fixed()}, []time.Duration{15 * time.Minute, 3 * time.Minute, 15 * time.Second}},
		{"least traffic", []float64{number(t, add.Verify.MinRate), number(t, add.Verify.MinTraffic)}, []float64{0.1, 0.5}},
		{"burn", []float64{number(t, add.Verify.Burn.Objective), number(t, add.Verify.Burn.Max)}, []float64{0.99, 1}},
		{"divert", p.State("bad-nodes").Divert, "gpu-fault"},
		{"end", p.State("not-confirmed").End, EndNoAction},
	}
	for _, c := range checks {
		if diff := cmp.Diff(c.want, c.got, cmp.AllowUnexported(Condition{}), cmpopts.IgnoreFields(Approve{}, "Within")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A document keeps its digest and its places wherever it stands in a file.
func TestParseDocuments(t *testing.T) {
	one := document1("one")
	two := document1("two")
	ps, err := Parse("x.yaml", []byte("# comment\n---\n"+one+"--- # next\n"+two+"---\n\n"), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, names(ps)); diff != "" {
		t.Fatalf("playbooks (-want +got):\n%s", diff)
	}
	alone, err := Parse("y.yaml", []byte(two), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	if ps[1].Digest != alone[0].Digest || string(ps[1].Doc) != two {
		t.Errorf("digest %s in company, %s alone", ps[1].Digest, alone[0].Digest)
	}
	if got, want := ps[1].States[0].Line, 2+8+1+8; got != want {
		t.Errorf("the state of the second document is on line %d, want %d", got, want)
	}
}

// Where nothing can be asked for, nobody need be named.
func TestObserveNeedsNoApproval(t *testing.T) {
	data, err := os.ReadFile("testdata/bad/lever-without-approve.yaml")
	if err != nil {
		t.Fatal(err)
	}
	observing := []byte(string(data[:0]) + replaceOnce(t, string(data), "autonomy: suggest", "autonomy: observe"))
	if _, err := Parse("x.yaml", observing, testKinds()); err != nil {
		t.Error(err)
	}
}

// The kinds are the program's own: a mistake in them is said, not guessed around.
func TestBadKinds(t *testing.T) {
	for _, k := range [][]Kind{
		{{Name: "a", Role: "reader"}},
		{{Name: "a", Role: RoleCheck}, {Name: "a", Role: RoleCheck}},
		{{Name: "a", Role: RoleCheck, Out: []Field{{Name: "x", Type: Type{Name: "float"}}}}},
		{{Name: "a", Role: RoleCheck, Out: []Field{{Name: "x", Type: Type{Name: Int}}, {Name: "x", Type: Type{Name: Int}}}}},
	} {
		if _, err := Parse("x.yaml", []byte(document1("x")), k); err == nil {
			t.Errorf("kinds %v were accepted", k)
		}
	}
}

// number is a value that needs no run to be known.
func number(t *testing.T, v *Value) float64 {
	t.Helper()
	f, ok := v.Constant()
	if !ok {
		t.Fatalf("%q is no constant", v.Source())
	}
	return f
}

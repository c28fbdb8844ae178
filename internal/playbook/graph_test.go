package playbook

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

var graphFormats = []GraphFormat{GraphText, GraphMermaid, GraphDot}

func TestGraph(t *testing.T) {
	p := mustParse(t, "testdata/good/scale.yaml")
	for _, format := range graphFormats {
		got, err := Graph(p, []string{"queue", "pods", "sure", "add", "resolved"}, format)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/graph."+string(format), got)
	}
	text, err := Graph(p, nil, GraphText)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text, "═║") {
		t.Error("a path is marked although there is none")
	}
}

// A line of the drawing fits a terminal, however long titles and conditions are.
func TestGraphFits(t *testing.T) {
	p := mustParse(t, "testdata/good/scale.yaml")
	for _, s := range p.States {
		s.Title = strings.Repeat("ä very long title ", 20)
		for i := range s.Next {
			s.Next[i].Label = strings.Repeat("wörter\n", 50)
		}
	}
	text, err := Graph(p, nil, GraphText)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestGraphErrors(t *testing.T) {
	p := mustParse(t, "testdata/good/scale.yaml")
	if _, err := Graph(p, nil, "svg"); err == nil || !strings.Contains(err.Error(), "text, mermaid, dot") {
		t.Errorf("unknown format: %v", err)
	}
	if _, err := Graph(p, []string{"nowhere"}, GraphText); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("unknown state in the path: %v", err)
	}
}

func TestReference(t *testing.T) { golden(t, "testdata/reference.md", string(Reference(testKinds()))) }

// A lever with steps leads back to itself, in every format.
func TestGraphSteps(t *testing.T) {
	p := mustParse(t, "testdata/good/steps.yaml")
	for format, want := range map[GraphFormat]string{
		GraphText:    "╠═ not enough: value -0.5, 9 steps at most ═▶ Limit",
		GraphMermaid: "Limit --> Limit: not enough#58; value -0.5, 9 steps at most",
		GraphDot:     `"limit" -> "limit" [label="not enough: value -0.5, 9 steps at most" color=darkgreen penwidth=2]`,
	} {
		got, err := Graph(p, []string{"look", "limit", "limit"}, format)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %q:\n%s", format, want, got)
		}
	}
	got, err := Graph(p, nil, GraphMermaid)
	if want := "Scale --> Look: not enough#58; a further step, 3 steps at most"; err != nil || !strings.Contains(got, want) {
		t.Errorf("a lever with a state between two steps does not lead there, %v: no %q in\n%s", err, want, got)
	}
}

// The data of a diagram is what the other formats draw: every state once, the start first,
// every edge, and the path.
func TestDiagram(t *testing.T) {
	p := mustParse(t, "testdata/good/scale.yaml")
	d := DiagramOf(p, []string{"queue", "pods", "nowhere"})
	if len(d.Nodes) != len(p.States) || d.Nodes[0].Name != p.Start || !d.Nodes[len(d.Nodes)-1].Last() {
		t.Errorf("%d of %d states: %+v", len(d.Nodes), len(p.States), d.Nodes)
	}
	edges, taken := 0, 0
	for _, s := range p.States {
		edges += len(graph{p: p}.links(s))
	}
	for _, l := range d.Links {
		if l.Taken {
			taken++
			if d.Nodes[l.From].Name != "queue" || d.Nodes[l.To].Name != "pods" {
				t.Errorf("the path goes from %s to %s", d.Nodes[l.From].Name, d.Nodes[l.To].Name)
			}
		}
	}
	if len(d.Links) != edges || taken == 0 {
		t.Errorf("%d of %d edges, %d taken", len(d.Links), edges, taken)
	}
}

package yamldoc

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// read reads a file of one document and gives what was reported.
func read(t *testing.T, text string, look func(*Document)) string {
	t.Helper()
	var problems Problems
	for _, d := range Documents("f.yaml", []byte(text), &problems) {
		look(d)
	}
	if err := problems.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// A mistake is told where it was typed, whatever the quotes, folds and escapes.
func TestReportAt(t *testing.T) {
	for name, test := range map[string]struct {
		text string // the character pointed at is the first Ω
		want string
	}{
		"plain":         {"a: x Ω\n", "f.yaml:1:6"},
		"single quotes": {"a: 'it''s Ω'\n", "f.yaml:1:11"},
		"double quotes": {`a: "\t\u00e4 Ω"` + "\n", "f.yaml:1:14"},
		"literal":       {"a: |\n  one\n  two Ω\n", "f.yaml:3:7"},
		"folded":        {"a: >-\n  one\n  two\n\n  three Ω\n", "f.yaml:5:9"},
		"later":         {"a: 1\n---\n# comment\na: Ω\n", "f.yaml:4:4"},
		"plain folded":  {"a: one\n  two Ω\n", "f.yaml:2:7"},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, test.text, func(d *Document) {
				n := d.Root.Content[1]
				if i := strings.IndexRune(n.Value, 'Ω'); i >= 0 {
					d.ReportAt(n, "a", len([]rune(n.Value[:i])), "here", "")
				}
			})
			if want := test.want + ": a: here"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// Nothing is guessed: every value is of the type that is asked for, or reported.
func TestMappingIsStrict(t *testing.T) {
	var m *Mapping
	got := read(t, "text: 1\nempty: ''\nwhole: 1.5\nfar: 11\nlong: 2d\nunit: 30\nspan: -5m\nyes: on\nnmuber: 3\ntext: again\n", func(d *Document) {
		m = d.Mapping(d.Root, "", "text", "empty", "whole", "far", "long", "unit", "span", "yes", "number", "absent")
		m.Text("text")
		m.Text("empty")
		m.Integer("whole", 0, 10)
		m.Integer("far", 0, 10)
		m.Duration("long", 24*time.Hour)
		m.Duration("unit", 24*time.Hour)
		m.Duration("span", 24*time.Hour)
		m.Boolean("yes")
		m.Constant("absent", "x")
	})
	want := []string{
		`f.yaml:1:1: missing field absent (write absent: x)`,
		`f.yaml:1:7: text: want a text, got the number 1 (quote it)`,
		`f.yaml:2:8: empty: empty (remove the field or set a value)`,
		`f.yaml:3:8: whole: want a whole number, got the number 1.5`,
		`f.yaml:4:6: far: 11 is out of range: want 0 to 10`,
		`f.yaml:5:7: long: the duration is 2d, must be at most 1d`,
		`f.yaml:6:7: unit: duration "30" without a unit (write it like 30s, 5m, 1h30m or 2d)`,
		`f.yaml:7:7: span: negative duration "-5m" (write it like 30s, 5m, 1h30m or 2d)`,
		`f.yaml:8:6: yes: want true or false, got the text "on"`,
		`f.yaml:9:1: unknown field "nmuber" (did you mean "number"? allowed: text, empty, whole, far, long, unit, span, yes, number, absent)`,
		`f.yaml:10:1: duplicate field "text", first on line 1 (keep one)`,
	}
	if diff := cmp.Diff(want, strings.Split(got, "\n")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// FuzzDocuments: every complaint has a place inside the file, and every
// character of every text can be pointed at.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte("a: >-\n  one\n  two\n---\nb: \"\\u00e4\"\n"))
	f.Add([]byte("a: 'it''s'\nb: [1, {c: d}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var problems Problems
		lines := strings.Count(string(data), "\n") + 1
		var visit func(d *Document, n *yaml.Node)
		visit = func(d *Document, n *yaml.Node) {
			if n.Kind == yaml.ScalarNode {
				for i := range min(len([]rune(n.Value)), 50) {
					d.ReportAt(n, "", i, "x", "")
				}
			}
			for _, c := range n.Content {
				visit(d, c)
			}
		}
		for _, d := range Documents("f.yaml", data, &problems) {
			visit(d, d.Root)
		}
		for _, p := range problems {
			if p.Line < 0 || p.Line > lines+1 || p.Line > 0 && p.Column < 1 {
				t.Fatalf("%d lines, and a problem at %d:%d", lines, p.Line, p.Column)
			}
		}
	})
}

package playbook

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/prometheus/promql/parser"
)

// corpus adds every document of testdata.
func corpus(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "../../playbooks/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
}

// FuzzParse feeds anything at all: it is refused with places, or it loads and
// then loads again as itself, draws and matches.
func FuzzParse(f *testing.F) {
	corpus(f)
	c, err := newCompiler(testKinds())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ps, err := c.parse("fuzz.yaml", data)
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("error %T is no Problems", err)
			}
			for _, p := range problems {
				if p.File != "fuzz.yaml" || p.Message == "" || p.Line < 0 || (p.Line > 0) != (p.Column > 0) || !utf8.ValidString(p.String()) {
					t.Fatalf("problem without a place or words: %+v", p)
				}
			}
			return
		}
		for _, p := range ps {
			again, err := c.parse("again.yaml", p.Doc)
			if err != nil || len(again) != 1 || again[0].Digest != p.Digest || again[0].Name != p.Name {
				t.Fatalf("its own document loads as %v, %v", again, err)
			}
			for _, format := range graphFormats {
				if _, err := Graph(p, []string{p.Start}, format); err != nil {
					t.Fatal(err)
				}
			}
		}
		if set, err := NewSet(ps); err == nil {
			set.Explain(Alert{Labels: map[string]string{"alertname": "A"}})
		}
	})
}

// FuzzMatchers: what the index finds is what trying the matchers finds.
func FuzzMatchers(f *testing.F) {
	f.Add(`{alertname=~"A|B", severity!="info"}`, "alertname", "A")
	f.Add(`alertname = "A"`, "alertname", "A")
	f.Add(`{"größe"=~"[a-c]x?"}`, "größe", "bx")
	f.Add(`{a=~"(?i:x)|y{1,3}|"}`, "a", "")
	f.Add(`{a=~"a{1000}{1000}"}`, "a", "a")
	f.Fuzz(func(t *testing.T, text, label, value string) {
		set, err := parseMatchers(text)
		if err != nil {
			return
		}
		p := &Playbook{Name: "p", match: []matcherSet{set}, States: []*State{{Name: "x"}}}
		s, err := NewSet([]*Playbook{p})
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{label: value}
		for _, m := range set.matchers { // make a match likely
			if _, ok := labels[m.Name]; !ok {
				labels[m.Name] = m.Value
			}
		}
		a := Alert{Labels: labels}
		if got, want := names(s.Match(a)), naive(s, a); !slices.Equal(got, want) {
			t.Fatalf("%s on %q: index finds %v, matchers %v", text, labels, got, want)
		}
	})
}

// FuzzValues: no text with ${...} makes compiling or filling in panic, and what
// comes out as a query parses.
func FuzzValues(f *testing.F) {
	f.Add(`sum(rate(x{${service.selector}, a=~"${alert.labels.v}"}[5m]))`, "v", "x\"}", `{"value":1}`)
	f.Add(`a $${b} ${run} ${pods_now.desired + 1}`, "v", "", `{"desired":3}`)
	f.Add(`${look.series.map(s, s.value)[0]}`, "v", "", `{"series":[{"value":1}]}`)
	f.Add(`${[1,2].all(a, [1,2].all(b, a > b))} ${"}"}`, "", "", `[]`)
	f.Add(`x{a='${alert.labels["v"].replace("a","b")}'} # ${run}`, "v", "a", `{}`)
	env, look := bench(f)
	f.Fuzz(func(t *testing.T, source, label, text, evidence string) {
		s := sampleScope()
		s.Alert.Labels = map[string]string{label: text}
		s.Evidence = map[string]json.RawMessage{"look": json.RawMessage(evidence), "pods-now": json.RawMessage(evidence)}
		s.Out = json.RawMessage(evidence)
		for _, name := range []TypeName{String, Query, Int, Duration} {
			v, errs := value(env, source, Field{Name: "f", Type: Type{Name: name}}, true)
			for _, e := range errs {
				if e.Message == "" || e.Offset < 0 {
					t.Fatalf("%q: problem %+v", source, e)
				}
			}
			if len(errs) > 0 {
				continue
			}
			if _, err := v.Eval(s); err != nil || name != Query {
				continue
			}
			s.Since = 1e9
			if got, err := v.Eval(s); err == nil {
				if _, perr := parser.ParseExpr(got.(string)); perr != nil {
					t.Fatalf("%q became %q: %v", source, got, perr)
				}
			}
			s.Since = 0
		}
		if x, errs := env.compile(source, look, false); len(errs) == 0 {
			_, _ = (&Condition{expr: x}).Eval(s) // any answer or error, no panic
		}
	})
}

// FuzzProvesNothing: no query is too odd, and times zero it never proves anything.
func FuzzProvesNothing(f *testing.F) {
	for _, q := range []string{"a", "a * 0", "clamp(a, 0, 0)", "a @ end()", "quantile(2, a)", "vector(1 - 1) * a", "histogram_quantile(scalar(a), b)", "a[5m:] offset 1h", `sum(a{b="1",c="2"}) - sum(a{c="2"})`, "a[4w]", "stddev(a)"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if _, err := parser.ParseExpr("(" + query + "\n) * 0"); err != nil {
			return
		}
		provesNothing(query)
		if expr, err := parser.ParseExpr(query); err != nil || !hasSelector(expr) {
			return
		}
		if why, _ := provesNothing("(" + query + "\n) * 0"); why == "" {
			t.Errorf("%q times 0 is a proof", query)
		}
	})
}

func hasSelector(expr parser.Expr) (has bool) {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		_, is := n.(*parser.VectorSelector)
		has = has || is
		return nil
	})
	return has
}

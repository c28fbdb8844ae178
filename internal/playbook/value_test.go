package playbook

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"pgregory.net/rapid"
)

func replaceOnce(tb testing.TB, s, old, with string) string {
	tb.Helper()
	if strings.Count(s, old) != 1 {
		tb.Fatalf("%q is there %d times", old, strings.Count(s, old))
	}
	return strings.Replace(s, old, with, 1)
}

// bench is a place to compile expressions at: the states look (a query) and
// pods (a workload) have gathered evidence.
func bench(tb testing.TB) (*environments, *evidenceOf) {
	tb.Helper()
	c, err := newCompiler(testKinds())
	if err != nil {
		tb.Fatal(err)
	}
	look := evidenceOf{state: "look", name: "look", kind: c.kinds["prometheus.query"]}
	env, err := c.environments(map[string]evidenceOf{
		"look": look, "pods_now": {state: "pods-now", name: "pods-now", kind: c.kinds["kube.workload"]},
	}, []string{"look", "pods-now"})
	if err != nil {
		tb.Fatal(err)
	}
	return env, &look
}

func sampleScope() Scope {
	return Scope{
		Alert: Alert{
			Status: Firing, Labels: map[string]string{"alertname": "A", "pod": "chat-0"},
			StartsAt: time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC),
		},
		Service: Service{
			Name: "serving/chat", Namespace: "serving", Selector: `service="chat"`, MinReady: 2, Autonomy: Suggest, Owners: []string{"user:ada"},
			SLOs: []SLO{{Name: "ttft", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.5}},
		},
		Run: "r-1", Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
		Evidence: map[string]json.RawMessage{"pods-now": json.RawMessage(`{"desired":4,"waiting":["CrashLoopBackOff"],"ready":null}`)},
		Out:      json.RawMessage(`{"status":"ok","value":3,"min":0.5,"at":"2026-01-01T11:59:30Z","series":[{"labels":{"sli":"ttft"},"value":1e-3},{"labels":{}}]}`),
	}
}

// What conditions mean, and above all that not knowing is an error and never
// false: a branch on false would go on as if something were known.
func TestConditions(t *testing.T) {
	env, look := bench(t)
	tests := []struct {
		source string
		want   string // true, false, or part of the error
	}{
		{`out.value == 3 && out.value > 2.5 && out.min < 1`, "true"},
		{`out.value / 2 == 1.5`, "true"},
		{`1 < out.value`, "true"},
		{`out.max > 1.0`, "no field max"},
		{`has(out.max) && out.max > 1.0`, "false"},
		{`out.status == "ok" || out.max > 1.0`, "true"},
		{`out.max > 1.0 && out.status == "ok"`, "no field max"},
		{`out.series.exists(s, s.labels.sli == "ttft" && s.value < 0.01)`, "true"},
		{`out.series.all(s, s.value < 0.01)`, "no field value"},
		{`out.series[1].labels.sli == "x"`, "no such key"},
		{`out.series[5].value > 1.0`, "index out of bounds"},
		{`now - out.at < duration("1m")`, "true"},
		{`(now - alert.starts_at).getMinutes() == 60`, "true"},
		{`alert.ends_at > now`, "no field ends_at"},
		{`alert.labels.team == "x"`, "no such key: team"},
		{`"team" in alert.labels`, "false"},
		{`pods_now.desired == 4 && pods_now.waiting.exists(w, w.startsWith("Crash"))`, "true"},
		{`pods_now.ready == 4`, "no field ready"},
		{`look.value > 1.0`, "no field value"},
		{`has(look.value) || pods_now.desired >= service.min_ready`, "true"},
		{`service.slos.filter(s, s.name == "ttft")[0].threshold == 0.5 && service.slos[0].window == duration("672h")`, "true"},
		{`service.autonomy == "suggest" && "user:ada" in service.owners`, "true"},
		{`max(duration("2m"), duration("90s")) == duration("2m") && min(duration("2m"), duration("90s")) == duration("90s")`, "true"},
		{`min(pods_now.desired, 2) == 2 && max(out.value, 9.5) == 9.5 && math.ceil(out.min) == 1.0`, "true"},
		{`pods_now.desired / 0 == 1`, "division by zero"},
		{`[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a+b+c+d+e > 0)))))`, "too expensive"},
	}
	for _, test := range tests {
		t.Run(test.source, func(t *testing.T) {
			x, errs := env.compile(test.source, look, false)
			if len(errs) > 0 {
				t.Fatalf("does not compile: %v", errs)
			}
			holds, err := (&Condition{expr: x}).Eval(sampleScope())
			switch {
			case err != nil && (test.want == "true" || test.want == "false"):
				t.Errorf("error %v", err)
			case err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("error %v, want one with %q", err, test.want)
			case err == nil && (test.want == "true") != holds:
				t.Errorf("is %v, want %s", holds, test.want)
			}
		})
	}
}

// Evidence of another shape than declared is an error, not a wrong answer.
func TestEvidenceShapes(t *testing.T) {
	env, look := bench(t)
	x, errs := env.compile(`out.value > 1.0 || out.status == "ok"`, look, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for data, want := range map[string]string{
		``:                      "no evidence of this state",
		`null`:                  "null instead of an object",
		`[]`:                    "want an object, got a list",
		`{"value":"3"}`:         "value: want double, got a string",
		`{"status":3}`:          "status: want string, got a number",
		`{"value":1e999}`:       "number out of range",
		`{"value":1}{}`:         "more than one JSON value",
		`{"value":`:             "not JSON",
		`{"at":"yesterday"}`:    "not a timestamp",
		`{"series":[null]}`:     "null",
		`{"series":[{"v":[]}]}`: "no field",
	} {
		s := sampleScope()
		s.Out = json.RawMessage(data)
		_, err := (&Condition{expr: x}).Eval(s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", data, err, want)
		}
	}
}

func TestTypedEvidence(t *testing.T) {
	fields := []Field{
		{Name: "i", Type: Type{Name: Int}},
		{Name: "d", Type: Type{Name: Double}},
		{Name: "t", Type: Type{Name: Duration}},
		{Name: "any", Type: Type{Name: List}},
		{Name: "m", Type: Type{Name: Map, Elem: &Type{Name: Int}}},
	}
	got, err := decodeEvidence(json.RawMessage(`{"i":3.0,"d":3,"t":"1m30s","any":[1,"x",{"a":2}],"m":{"k":9007199254740993},"more":1}`), fields)
	want := map[string]any{
		"i": int64(3), "d": 3.0, "t": 90 * time.Second, "any": []any{1.0, "x", map[string]any{"a": 2.0}},
		"m": map[string]any{"k": int64(9007199254740993)},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := decodeEvidence(json.RawMessage(`{"i":2.5}`), fields); err == nil {
		t.Error("2.5 was taken for a whole number")
	}
}

// value compiles a value as a parameter of a type.
func value(env *environments, source string, f Field, since bool) (*Value, []exprError) {
	v := &Value{source: source, field: f}
	var errs []exprError
	switch f.Type.Name {
	case String, Query:
		v.parts, errs = compileText(source, f.Type.Name == Query, place{env: env, since: since})
	default:
		v.expr, errs = compileScalar(source, f.Type.Name, place{env: env, since: since})
	}
	return v, errs
}

func TestValues(t *testing.T) {
	env, _ := bench(t)
	low, high := 1.0, 5.0
	tests := []struct {
		source string
		field  Field
		want   any // or part of the error
		fails  bool
	}{
		{"${pods_now.desired - 1}", Field{Type: Type{Name: Int}}, int64(3), false},
		{"${pods_now.desired}", Field{Type: Type{Name: Double}}, 4.0, false},
		{`${duration("90s")}`, Field{Type: Type{Name: Duration}}, "1m30s", false},
		{`${now - alert.starts_at - duration("2h")}`, Field{Type: Type{Name: Duration}}, "must be longer than 0", true},
		{"${pods_now.desired + 2}", Field{Type: Type{Name: Int}, Min: &low, Max: &high}, "is 6, want at most 5", true},
		{"${pods_now.desired == 4}", Field{Type: Type{Name: Bool}}, true, false},
		{"${1.0 / 0.0}", Field{Type: Type{Name: Double}}, "want a finite number", true},
		{"${alert.labels.pod}", Field{Type: Type{Name: String}, Enum: []string{"GET"}}, `is "chat-0"; allowed: GET`, true},
		{"a $${b} ${run}:${pods_now.desired} ${now}", Field{Type: Type{Name: String}}, "a ${b} r-1:4 2026-01-01T12:00:00Z", false},
		{"${alert.labels.nope}", Field{Type: Type{Name: String}}, "no such key: nope", true},
		{"${look.value}", Field{Type: Type{Name: String}}, "no field value", true},
		{"${ {'a': '}'}['a'] }", Field{Type: Type{Name: String}}, "}", false},
		{"rate(x{${service.selector}}[${duration('5m')}]) > ${pods_now.desired}", Field{Type: Type{Name: Query}}, `rate(x{service="chat"}[5m]) > 4`, false},
	}
	for _, test := range tests {
		t.Run(test.source, func(t *testing.T) {
			v, errs := value(env, test.source, test.field, false)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			got, err := v.Eval(sampleScope())
			switch {
			case test.fails && (err == nil || !strings.Contains(err.Error(), test.want.(string))):
				t.Errorf("got %v, %v; want an error with %q", got, err, test.want)
			case !test.fails && (err != nil || got != test.want):
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// ${since} stays until the moment of the fix is known, and only that.
func TestSince(t *testing.T) {
	env, _ := bench(t)
	v, errs := value(env, `rate(x{pod="${alert.labels.pod}"}[${since}])`, Field{Type: Type{Name: Query}}, true)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	s := sampleScope()
	s.Alert.Labels["pod"] = "${since}"
	got, err := v.Text(s)
	if want := `rate(x{pod="\x24{since}"}[${since}])`; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	s.Since = 2 * time.Minute
	got, err = v.Text(s)
	if want := `rate(x{pod="\x24{since}"}[2m])`; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// No label value, whatever it contains, changes what a query asks: it stays the
// value of its matcher, and where the matcher is a pattern it is matched as it is.
func TestLabelsCannotInject(t *testing.T) {
	env, _ := bench(t)
	const source = `sum by (a) (rate(x{${service.selector}, a="${alert.labels.v}", b=~"${alert.labels.v}", c!~'pre-${alert.labels.v}'}[5m])) > 1`
	v, errs := value(env, source, Field{Type: Type{Name: Query}}, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	nasty := rapid.OneOf(
		rapid.String(),
		rapid.StringOf(rapid.SampledFrom([]rune("\"'`\\{}[]()|.*+?$#\n\t\x00,=~xn"))),
		rapid.SampledFrom([]string{`"} or up{a="`, `'} or up{a='`, `\`, `\"`, "${since}", "\xff\xfe", ".*", "(", "\u2028", "a\x00b"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		label := nasty.Draw(t, "label")
		s := sampleScope()
		s.Alert.Labels = map[string]string{"v": label}
		query, err := v.Text(s)
		if err != nil {
			if !utf8.ValidString(label) {
				return // refused, as it should be where it cannot be matched
			}
			t.Fatalf("%q: %v", label, err)
		}
		expr, err := parser.ParseExpr(query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		sels := parser.ExtractSelectors(expr)
		if len(sels) != 1 || len(sels[0]) != 5 {
			t.Fatalf("%s: selects %v", query, sels)
		}
		for _, m := range sels[0] {
			switch m.Name {
			case "a":
				if m.Type != labels.MatchEqual || m.Value != label {
					t.Fatalf("%s: a is matched with %q, want %q", query, m.Value, label)
				}
			case "b":
				if !m.Matches(label) || m.Matches(label+"x") || (label != "" && m.Matches("")) {
					t.Fatalf("%s: b matches other than %q", query, label)
				}
			case "c":
				if m.Matches("pre-"+label) || !m.Matches("pre-"+label+"x") {
					t.Fatalf("%s: c excludes other than %q", query, label)
				}
			}
		}
	})
}

// A selector that is not one, or is empty, must not widen the query.
func TestSelectors(t *testing.T) {
	env, _ := bench(t)
	v, errs := value(env, `sum(x{${service.selector}})`, Field{Type: Type{Name: Query}}, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for selector, want := range map[string]string{
		``:                       "has no selector",
		"  ":                     "has no selector",
		`a="b"} or up{c="d"`:     "not a list of label matchers",
		`a="b"}) + sum(up{c="d"`: "not a list of label matchers",
		`__name__="up"`:          "names a metric",
		`a=b`:                    "not a list of label matchers",
		`} #`:                    "holds no label matcher",
		`a="b", # all of them`:   "not a list of label matchers",
		"a=\"b\"} # x\n":         "not a list of label matchers",
	} {
		s := sampleScope()
		s.Service.Selector = selector
		if got, err := v.Text(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v; want an error with %q", selector, got, err, want)
		}
	}
}

// What a selector has after its matchers neither ends the braces nor comments out the
// rest of the query.
func TestSelectorIsPrintedAgain(t *testing.T) {
	env, _ := bench(t)
	v, errs := value(env, "sum(rate(x{${service.selector}, le=\"1\"}[5m])) > 0", Field{Type: Type{Name: Query}}, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for selector, want := range map[string]string{
		`a="b"} #`:                     `a="b"`,
		` a = 'b' , c=~"d|e", `:        `a="b",c=~"d|e"`,
		`a="#}"`:                       `a="#}"`,
		"a=\"x\\ny\"":                  `a="x\ny"`,
		`"dotted.name"="b"`:            `"dotted.name"="b"`,
		`a="b"}` + "\n#\n" + `#{c="d"`: `a="b"`,
	} {
		s := sampleScope()
		s.Service.Selector = selector
		query := `sum(rate(x{` + want + `, le="1"}[5m])) > 0`
		if got, err := v.Text(s); err != nil || got != query {
			t.Errorf("%q: got %s, %v; want %s", selector, got, err, query)
		}
	}
}

// FuzzCleanSelector wants of any text an error, or matchers that fill the braces of a
// query and nothing else.
func FuzzCleanSelector(f *testing.F) {
	for _, s := range []string{`a="b"`, `a="b"} #`, `a=~"b|c", d!='e'`, `"a.b"="c"`, "a=`b`", `__name__="x"`, "a=\"\xff\"", "", "}#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean, err := CleanSelector(text)
		if err != nil || clean == "" {
			return
		}
		want, err := parser.ParseMetricSelector("{" + text + "}")
		if err != nil {
			t.Fatalf("%q is accepted: %v", text, err)
		}
		expr, err := parser.ParseExpr("sum(x{" + clean + `,last="y"})`)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", text, clean, err)
		}
		sum, ok := expr.(*parser.AggregateExpr)
		if !ok {
			t.Fatalf("%q becomes %q, and the query %s", text, clean, expr)
		}
		selector, ok := sum.Expr.(*parser.VectorSelector)
		if !ok || len(selector.LabelMatchers) != len(want)+2 { // and __name__ and last
			t.Fatalf("%q becomes %q, and the query %s", text, clean, expr)
		}
		for i, m := range want {
			if got := selector.LabelMatchers[i]; got.Name != m.Name || got.Value != m.Value || got.Type != m.Type {
				t.Errorf("%q: matcher %s becomes %s", text, m, got)
			}
		}
		if again, err := CleanSelector(clean); err != nil || again != clean {
			t.Errorf("%q becomes %q, then %q, %v", text, clean, again, err)
		}
	})
}

// Only the author of a playbook breaks the lines of its texts.
func TestValuesInTextsAreOnOneLine(t *testing.T) {
	env, _ := bench(t)
	v, errs := value(env, "scale ${service.name}?\nsecond line", Field{Type: Type{Name: String}}, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, br := range []string{"\n", "\r\n", "\r", "\v", "\f", "\u0085", "\u2028", "\u2029"} {
		s := sampleScope()
		s.Service.Name = "chat" + br + "APPROVED by user:ada"
		got, err := v.Text(s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(got, "\r\v\f\u0085\u2028\u2029") || strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "?\nsecond line") {
			t.Errorf("%q in a value becomes %q", br, got)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "500ms": 500 * time.Millisecond} {
		d, err := ParseDuration(text)
		if d != want || err != nil {
			t.Errorf("%s is %v, %v", text, d, err)
		}
		if back, err := ParseDuration(FormatDuration(d)); back != d || err != nil {
			t.Errorf("%s comes back as %v, %v", text, back, err)
		}
	}
	for _, text := range []string{"", "5", "-5m", "1.5h", "5 m", "m", "99999999999999999d"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, d)
		}
	}
}

func TestMinMaxKeepNaN(t *testing.T) {
	env, look := bench(t)
	for _, f := range []string{"min", "max"} {
		x, errs := env.compile(f+`(out.value, 0.0 / 0.0)`, look, false)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if got, err := x.eval(sampleScope()); err != nil || !math.IsNaN(got.(float64)) {
			t.Errorf("%s with NaN is %v, %v", f, got, err)
		}
	}
}

package expression

import (
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"github.com/google/go-cmp/cmp"
)

// bench is a scope with the object thing.
func bench(tb testing.TB) Scope {
	tb.Helper()
	text, whole := Type{Name: String}, Type{Name: Int}
	fields := []Field{
		{Name: "name", Type: text},
		{Name: "colour", Type: text, Enum: []string{"red", "blue"}},
		{Name: "fault", Type: text, Enum: []string{"", "heat"}},
		{Name: "size", Type: whole},
		{Name: "labels", Type: Type{Name: Map, Elem: &text}},
		{Name: "inner", Type: Type{Name: Object, Fields: []Field{{Name: "depth", Type: whole}}}},
	}
	table, err := NewTypes()
	if err != nil {
		tb.Fatal(err)
	}
	thing, err := table.Declare("thing.type", fields)
	if err != nil {
		tb.Fatal(err)
	}
	env, err := table.Environment(cel.Variable("thing", thing))
	if err != nil {
		tb.Fatal(err)
	}
	return Scope{
		Env: env, Types: table,
		Variable: func(name string) ([]Field, bool) { return fields, name == "thing" },
		Hint:     func(string) string { return "write thing" },
	}
}

// A complaint names the character and the nearest word that does exist.
func TestCompileComplains(t *testing.T) {
	s := bench(t)
	for source, want := range map[string]string{
		`thing.sice > 3`:                     `5 there is no field "sice" (did you mean "size"? allowed: name, colour, fault, size, labels, inner)`,
		`true || thing.inner.dept == 3`:      `19 there is no field "dept" (did you mean "depth"? allowed: depth)`,
		`thng.size > 3`:                      `0 unknown name "thng" (write thing)`,
		`thing.colour == "rde"`:              `16 colour is never "rde" (did you mean "red"? allowed: red, blue)`,
		`thing.fault == "none"`:              `15 fault is never "none" (allowed: "", heat)`,
		`thing.colour in ["red", "green"]`:   `24 colour is never "green" (allowed: red, blue)`,
		`thing.size == "3"`:                  `11 == cannot be applied to (int, string) (compare and combine values of one type; int(), double() and string() convert)`,
		`thing.size >`:                       `12 not a CEL expression: it ends too early`,
		` `:                                  `0 empty expression`,
		strings.Repeat("1+", 4000) + "1 > 0": `0 expression has 8005 characters, at most 4096 allowed`,
	} {
		_, errs := Compile(source, s)
		if len(errs) == 0 {
			t.Errorf("%s compiles", source)
			continue
		}
		got := fmt.Sprintf("%d %s", errs[0].Offset, errs[0].Message)
		if errs[0].Hint != "" {
			got += " (" + errs[0].Hint + ")"
		}
		if at := strings.Index(got, " "); strings.HasPrefix(want, "5 ") || strings.HasPrefix(want, "19 ") {
			got, want = got[at:], want[strings.Index(want, " "):] // CEL points at the dot
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", source, got, want)
		}
	}
}

// An expression that could cost much more than its size says is metered, and
// stops; one that cannot is not slowed down by counting.
func TestCost(t *testing.T) {
	s := bench(t)
	bomb := `thing.name` + strings.Repeat(`.replace("", thing.name)`, 12) + ` == "x"`
	x, errs := Compile(bomb, s)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if bounded(x.tree.NativeRep(), nil) {
		t.Error("a text that multiplies is not metered")
	}
	for source, want := range map[string]bool{
		`thing.size > 3 && thing.name.startsWith("a") || thing.colour in ["red"]`: true,
		`thing.labels.exists(k, k == "a")`:                                        false,
		`thing.name.matches("a+")`:                                                false,
		`[1, 2].map(i, [1, 2].map(j, i * j)).size() > 3`:                          false,
	} {
		x, errs := Compile(source, s)
		if len(errs) > 0 {
			t.Fatal(source, errs)
		}
		if got := bounded(x.tree.NativeRep(), nil); got != want {
			t.Errorf("%s: bounded is %v", source, got)
		}
	}
	loops := "[1,2,3,4,5,6,7,8,9,0]"
	expensive := fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, %[1]s.all(e, a+b+c+d+e >= 0)))))", loops)
	x, errs = Compile(expensive, s)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if v, err := x.Eval(map[string]any{}); err == nil || !strings.Contains(err.Error(), "too expensive") {
		t.Errorf("a hundred thousand rounds: %v, %v", v, err)
	}
}

// Pins are what an expression cannot hold without.
func TestPins(t *testing.T) {
	s := bench(t)
	for source, want := range map[string][]Pin{
		`thing.name == "a"`: {{"thing", "name", []string{"a"}}},
		`"a" == thing.name && thing.size > 3 && thing.colour in ["red", "blue"]`: {{"thing", "name", []string{"a"}}, {"thing", "colour", []string{"red", "blue"}}},
		`thing.name == "a" || thing.size > 3`:                                    nil,
		`!(thing.name == "a")`:                                                   nil,
		`thing.name != "a"`:                                                      nil,
		`thing.name in [thing.colour]`:                                           nil,
		`thing.labels.name == "a"`:                                               nil,
		`thing.inner.depth == 3 && thing.labels["a"] == "b"`:                     nil,
	} {
		x, errs := Compile(source, s)
		if len(errs) > 0 {
			t.Fatal(source, errs)
		}
		if diff := cmp.Diff(want, x.Pins()); diff != "" {
			t.Errorf("%s, -want +got\n%s", source, diff)
		}
	}
}

// What is missing is an error; what is not known yet is neither.
func TestEvalPartly(t *testing.T) {
	s := bench(t)
	thing := map[string]any{"thing": map[string]any{"name": "a", "inner": map[string]any{"depth": int64(3)}}}
	for source, want := range map[string]string{
		`thing.name == "a"`:                           "true known",
		`thing.name == "a" && thing.inner.depth > 2`:  "<nil> open",
		`thing.name == "b" && thing.inner.depth > 2`:  "false known",
		`thing.name == "a" || thing.inner.depth > 99`: "true known",
	} {
		x, errs := Compile(source, s)
		if len(errs) > 0 {
			t.Fatal(source, errs)
		}
		v, known, err := x.EvalPartly(thing, "thing.inner")
		got := fmt.Sprintf("%v %s", v, map[bool]string{true: "known", false: "open"}[known])
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", source, got, err, want)
		}
	}
	x, errs := Compile(`thing.size > 3`, s)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if v, err := x.Eval(thing); err == nil {
		t.Errorf("a size that is not there: %v", v)
	}
	if _, known, err := x.EvalPartly(thing, "thing.inner"); err == nil || known {
		t.Error("a size that is not there is known")
	}
}

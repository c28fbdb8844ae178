package gitops

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/gitops/command"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

const mark = "\x00"

// written in one of the ways people write it: the text has a mark where the
// value stands, so that the expected bytes are known without the editor.
type style struct {
	text string
}

func drawQuote(t *rapid.T, label string) func(string) string {
	return rapid.SampledFrom([]func(string) string{
		func(s string) string { return `"` + s + `"` },
		func(s string) string { return "'" + s + "'" },
		func(s string) string { return s },
	}).Draw(t, label)
}

func draw(t *rapid.T) style {
	indent := strings.Repeat(" ", rapid.IntRange(0, 4).Draw(t, "indent"))
	gap := strings.Repeat(" ", rapid.IntRange(1, 4).Draw(t, "gap"))
	comment := rapid.SampledFrom([]string{"", " # tuned", "   #x: 'y'"}).Draw(t, "comment")
	quote := drawQuote(t, "quote")
	flag := rapid.SampledFrom([]string{"--max-num-seqs", "--max_num_seqs"}).Draw(t, "flag")
	others := func(label string) []string {
		return rapid.SliceOfN(rapid.SampledFrom([]string{"--port=80", "--model=a/b", `"--host"`, `'0.0.0.0'`, "--trust-remote-code", `"--x=é\t"`}), 0, 4).Draw(t, label)
	}
	before, after := others("before"), others("after")
	var items []string
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		items = []string{quote(flag + "=" + mark)}
	case 1:
		q := quote
		if q("x") == "x" {
			q = func(s string) string { return `"` + s + `"` }
		}
		items = []string{quote(flag), q(mark)}
	case 2:
		return style{text: "        args:\n" + indent + "        - sh\n" + indent + "        - -c\n" + scriptText(t, indent+"        -"+gap, flag)}
	default:
		all := append(append(before, quote(flag+"="+mark)), after...)
		sep := rapid.SampledFrom([]string{", ", ",", ",\n          "}).Draw(t, "sep")
		if rapid.Bool().Draw(t, "json") {
			sep = ", "
		}
		return style{text: "        args: [" + strings.Join(all, sep) + "]" + comment + "\n"}
	}
	var b strings.Builder
	b.WriteString("        args:" + comment + "\n")
	for _, i := range slices.Concat(before, items, after) {
		b.WriteString(indent + "        -" + gap + i + comment + "\n")
		if rapid.IntRange(0, 3).Draw(t, "between") == 0 {
			b.WriteString("        # --max-num-seqs=7\n")
		}
	}
	return style{text: b.String()}
}

func scriptText(t *rapid.T, dash, flag string) string {
	pad := strings.Repeat(" ", len(dash)+rapid.IntRange(0, 2).Draw(t, "deeper"))
	sep := rapid.SampledFrom([]string{" ", "="}).Draw(t, "sep")
	value := rapid.SampledFrom([]string{mark, `"` + mark + `"`, "'" + mark + "'"}).Draw(t, "shellquote")
	lines := []string{"exec vllm serve m \\", "  --port 80 \\", "  " + flag + sep + value + " \\", "  --host 'x y' # --max-num-seqs 3"}
	switch rapid.IntRange(0, 2).Draw(t, "script") {
	case 0:
		lines = append([]string{"set -e"}, lines...)
		return dash + "|" + rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, "chomp") + "\n" + pad + strings.Join(lines, "\n"+pad) + "\n"
	case 1:
		return dash + ">-\n" + pad + "vllm serve m\n" + pad + "--port 80 " + flag + sep + value + "\n" + pad + "--host x\n"
	default:
		return dash + `"vllm serve \"m\" ` + flag + sep + strings.ReplaceAll(value, `"`, `\"`) + ` --port 80\n"` + "\n"
	}
}

// around returns a file with the list.
func around(t *rapid.T, args string) string {
	head := rapid.SampledFrom([]string{"", "# top\n---\n", "apiVersion: v1\nkind: Service\nmetadata:\n  name: other\n---\n", "--- # first\n"}).Draw(t, "head")
	tail := rapid.SampledFrom([]string{"", "        image: vllm # last\n", "---\nkind: X\nmetadata: {name: vllm}\n", "\n\n# the end\n"}).Draw(t, "tail")
	text := head + "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: vllm, namespace: a}\nspec:\n  template:\n    spec:\n      containers:\n      - name: vllm\n" + args + tail
	if rapid.IntRange(0, 3).Draw(t, "chopped") == 0 {
		text = strings.TrimRight(text, "\n")
	}
	if rapid.Bool().Draw(t, "crlf") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if rapid.IntRange(0, 4).Draw(t, "bom") == 0 {
		text = "\ufeff" + text
	}
	return text
}

var (
	deployment = Target{Kind: "Deployment", Namespace: "a", Name: "vllm"}
	seqs       = Variable{Flag: "max-num-seqs"}
)

func drawValue(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.StringMatching(`[1-9][0-9]{0,5}`),
		rapid.StringMatching(`0\.[0-9]{1,4}`),
		rapid.StringMatching(`[A-Za-z][A-Za-z0-9_./:-]{0,20}[A-Za-z0-9]`),
	).Filter(func(s string) bool { return !otherType.MatchString(s) }).Draw(t, label)
}

// otherType matches the words that YAML 1.1 takes for no text, so that they get quotes,
// and those that are no number to set.
var otherType = regexp.MustCompile(`^(?i:true|false|y|n|yes|no|on|off|null|nan|inf|infinity)$`)

// TestSetChangesOnlyTheValue: whatever the style, exactly the bytes of the
// value change.
func TestSetChangesOnlyTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := around(t, draw(t).text)
		old, value := drawValue(t, "old"), drawValue(t, "value")
		before := strings.ReplaceAll(text, mark, old)
		if old == value {
			t.Skip("the same")
		}
		if _, err := Locate([]File{{Path: "a.yaml", Data: []byte(before)}}, deployment, seqs); err != nil {
			t.Fatalf("%v in\n%s", err, before)
		}
		e, err := setOne([]File{{Path: "a.yaml", Data: []byte(before)}}, deployment, seqs, value)
		if err != nil {
			t.Fatalf("%v in\n%s", err, before)
		}
		if got, want := string(e.Files[0].Data), strings.ReplaceAll(text, mark, value); got != want || e.From != old || e.To != value {
			t.Fatalf("from %q to %q gave\n%q\nnot\n%q", e.From, e.To, got, want)
		}
		checkPlace(t, e.Place, text)
	})
}

// checkPlace compares the place with where the mark is.
func checkPlace(t *rapid.T, p Place, text string) {
	at := strings.Index(text, mark)
	line := strings.Count(text[:at], "\n") + 1
	column := at - strings.LastIndexByte(text[:at], '\n')
	if strings.HasPrefix(text, "\ufeff") && line == 1 {
		t.Fatalf("the value cannot be on the first line")
	}
	quoted := p.Line == line && (p.Column == column || p.Column == column-1 || p.Column == column-2)
	if !quoted {
		t.Fatalf("the place is %d:%d, the value stands at %d:%d", p.Line, p.Column, line, column)
	}
}

// TestAddAndTakeAway: a flag that was added is the last thing of its list, and
// removing it restores every byte.
func TestAddAndTakeAway(t *testing.T) {
	other := Variable{Flag: "block-size"}
	rapid.Check(t, func(t *rapid.T) {
		before := strings.ReplaceAll(around(t, draw(t).text), mark, "8")
		value := drawValue(t, "value")
		files := []File{{Path: "a.yaml", Data: []byte(before)}}
		added, err := setOne(files, deployment, other, value)
		if err != nil {
			t.Fatalf("%v in\n%s", err, before)
		}
		if !added.Place.Missing || len(added.Files) != 1 {
			t.Fatalf("not added: %+v", added)
		}
		onlyAdds(t, before, string(added.Files[0].Data), value)
		for flag, want := range map[string]string{"block-size": value, "max-num-seqs": "8", "no-such": ""} {
			if got, err := Locate(added.Files, deployment, Variable{Flag: flag}); err != nil || got[0].Value != want || got[0].Missing != (want == "") {
				t.Fatalf("%s is %+v, %v in\n%s", flag, got, err, added.Files[0].Data)
			}
		}
		back, err := Unset(added.Files, deployment, other)
		if err != nil {
			t.Fatalf("%v in\n%s", err, added.Files[0].Data)
		}
		if string(back.Files[0].Data) != before {
			t.Fatalf("not as before:\n%q\n%q", before, back.Files[0].Data)
		}
	})
}

// onlyAdds proves with a parser of its own use that one list or one text grew
// and nothing else is different.
func onlyAdds(t *rapid.T, before, after, value string) {
	was, is := flatten(t, before), flatten(t, after)
	changed := 0
	for path, v := range was {
		if is[path] != v {
			changed++
			if rest := command.Dashes(is[path]); !strings.Contains(rest, " --block-size") {
				t.Fatalf("%s was %q and is %q", path, v, is[path])
			}
		}
	}
	added := 0
	for path, v := range is {
		if _, old := was[path]; !old {
			added++
			if !strings.Contains(command.Dashes(v), "--block-size") && v != value {
				t.Fatalf("%s = %q appeared", path, v)
			}
		}
	}
	if changed+added == 0 || changed > 1 || added > 2 || changed > 0 && added > 0 {
		t.Fatalf("%d values changed, %d were added", changed, added)
	}
}

// flatten returns every scalar of a file by its path.
func flatten(t interface{ Fatalf(string, ...any) }, text string) map[string]string {
	out := map[string]string{}
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode || n.Kind == yaml.AliasNode {
			out[path] = n.Value
		}
		for i, c := range n.Content {
			walk(fmt.Sprintf("%s/%d", path, i), c)
		}
	}
	d := yaml.NewDecoder(strings.NewReader(text))
	for i := 0; ; i++ {
		var n yaml.Node
		if err := d.Decode(&n); err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("%v in\n%s", err, text)
			}
			return out
		}
		walk(fmt.Sprint(i), &n)
	}
}

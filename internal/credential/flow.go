package credential

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// maxFlows is how many texts with objects may hold each other. Those further in are not read.
const maxFlows = 8

// environmentPath is the place of a variable, of its value or of all variables in a JSON patch.
var environmentPath = regexp.MustCompile(`/env(?:/[^/]+(?:/value)?)?$`)

// argumentPath is the place of an argument in a JSON patch.
var argumentPath = regexp.MustCompile(`/(?:args|command)/[^/]+$`)

// plainItem reports whether an item of a command line may be shown as far as it is not a
// flag, whose value is judged by itself.
func plainItem(item string) bool { return strings.HasPrefix(item, "-") || PlainArgument(item) }

// hidesPath reports whether an operation of a JSON patch on a path sets what is hidden: the
// value of a variable, or a field that is called like a credential.
func hidesPath(path string) bool {
	last := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[strings.LastIndexByte(path, '/')+1:])
	return environmentPath.MatchString(path) || Named(last) && !refers(last)
}

// flows hides values in objects of JSON within a text, also where a string holds them, and
// with bare keys in those of YAML on one line: the value next to the name of a variable or
// a credential, the value of a JSON patch on such a one, and all below the name of a
// credential that names no Secret. What is not closed counts as complete. If the text was cut,
// what was cut off may name the value of an object that is not closed, so that it is hidden.
// The time is in proportion to the length.
func flows(s string, bareKeys, isCut bool) string {
	if !strings.Contains(s, "{") {
		return s
	}
	f := flow{text: s, bareKeys: bareKeys, isCut: isCut}
	f.scan(0, len(s), 0)
	slices.SortFunc(f.found, func(a, b part) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	at := 0
	for _, p := range f.found {
		if p.from >= at { // else it is within one that is hidden
			b.WriteString(s[at:p.from] + Redacted)
			at = p.to
		}
	}
	return b.String() + s[at:]
}

// flow is a text whose objects are being read.
type flow struct {
	text     string
	bareKeys bool
	isCut    bool
	found    []part // to be hidden
}

// part is a scalar: its text without quotes.
type part struct{ from, to int }

// opened is an object or a list that is not closed yet.
type opened struct {
	list   bool
	below  bool   // the name of a credential stands before it or around it
	key    string // of the value that comes next
	value  bool   // a value comes next
	fields map[string][]part
	refers bool // has only fields of what names a Secret
	isCut  bool // may go on behind the text
}

// scan reads what stands between two places of the text.
func (f *flow) scan(from, to, depth int) {
	var open []*opened
	for i := from; i < to; {
		var top *opened
		if len(open) > 0 {
			top = open[len(open)-1]
		}
		switch c := f.text[i]; {
		case c == '{', c == '[' && top != nil:
			o := &opened{list: c == '[', value: c == '[', fields: map[string][]part{}}
			if top != nil {
				o.below = top.below || Named(top.key) && !refers(top.key)
				o.key = top.key
			}
			if !o.list {
				o.key, o.refers = "", true
			}
			open = append(open, o)
			i++
		case top == nil:
			i++
		case c == '}', c == ']':
			f.judge(top)
			open = open[:len(open)-1]
			if n := len(open); n > 0 && !open[n-1].list {
				open[n-1].value = false
			}
			i++
		case c == ',':
			top.value = top.list
			i++
		case c == ':':
			top.value = true
			i++
		case c == ' ', c == '\t', c == '\n', c == '\r':
			i++
		default:
			i = f.scalar(top, i, to, depth)
		}
	}
	for _, o := range open {
		o.isCut = f.isCut
		f.judge(o)
	}
}

// scalar reads a key or a value, and returns where it ends.
func (f *flow) scalar(top *opened, at, to, depth int) (end int) {
	p, end, isQuoted := f.word(at, to, top.value)
	text := f.text[p.from:p.to]
	switch {
	case !top.value && (isQuoted || f.bareKeys):
		top.key, top.refers = text, top.refers && slices.Contains(referring, text)
	case !top.value:
		top.key = ""
	default:
		if !top.list || top.below {
			top.fields[top.key] = append(top.fields[top.key], p)
		}
		if isQuoted && depth < maxFlows && strings.Contains(text, "{") {
			f.scan(p.from, p.to, depth+1)
		}
	}
	return end
}

// word returns the scalar that begins at a place, and where what follows it begins.
func (f *flow) word(at, to int, isValue bool) (p part, end int, isQuoted bool) {
	escapes := 0
	for at+escapes < to && f.text[at+escapes] == '\\' {
		escapes++
	}
	if start := at + escapes; start < to && (f.text[start] == '"' || f.text[start] == '\'') {
		from := start + 1
		p.from = from
		p.to, end = f.quoteEnd(from, to, f.text[start], escapes)
		return p, end, true
	}
	end = at + 1
	for end < to && !strings.ContainsRune(",{}[]\n", rune(f.text[end])) && (isValue || f.text[end] != ':') {
		end++
	}
	return part{at, at + len(strings.TrimRight(f.text[at:end], " \t\r"))}, end, false
}

// quoteEnd returns the end of a text in quotes that begins behind its opening quote, and
// where its closing quote ends. A quote with more backslashes than the opening one had is
// part of the text; without a closing quote the text goes to the end.
func (f *flow) quoteEnd(from, to int, quote byte, escapes int) (textEnd, end int) {
	for i, run := from, 0; i < to; i++ {
		switch c := f.text[i]; {
		case c == '\\':
			run++
			continue
		case c == quote && (run <= escapes || escapes == 0 && (quote == '\'' || run%2 == 0)):
			if quote == '\'' && escapes == 0 && i+1 < to && f.text[i+1] == '\'' {
				i++ // a quote within the text, in YAML
				continue
			}
			return max(from, i-min(run, escapes)), i + 1
		}
		run = 0
	}
	return to, to
}

// judge hides in an object or a list that is complete what has to be.
func (f *flow) judge(o *opened) {
	for key, parts := range o.fields {
		if o.below && (!o.refers || o.isCut) || !o.list && Named(key) && !refers(key) || key == "value" && !o.list && (o.isCut || f.hidesValue(o, parts)) {
			f.found = append(f.found, slices.DeleteFunc(parts, func(p part) bool { return nothing(f.text[p.from:p.to]) })...)
		}
	}
}

// hidesValue reports whether the values of an object are hidden because of its name or path.
func (f *flow) hidesValue(o *opened, values []part) bool {
	name := ""
	for _, p := range o.fields["name"] {
		name = stricter(name, f.text[p.from:p.to])
	}
	if Named(name) || variable.MatchString(name) && slices.ContainsFunc(values, func(v part) bool { return !plainLiteral(name, f.text[v.from:v.to]) }) {
		return true
	}
	return len(o.fields["op"]) > 0 && slices.ContainsFunc(o.fields["path"], func(p part) bool {
		path := f.text[p.from:p.to]
		return hidesPath(path) || argumentPath.MatchString(path) && slices.ContainsFunc(values, func(v part) bool { return !plainItem(f.text[v.from:v.to]) })
	})
}

// stricter returns which of two names of one value hides more of it: that of a credential, then
// a variable that is not known. So the values of an object that repeats its name are each
// judged once.
func stricter(a, b string) string {
	rank := func(name string) int {
		switch {
		case name == "":
			return 0
		case Named(name):
			return 4
		case plainName(name):
			return 1
		case !variable.MatchString(name):
			return 2
		default:
			return 3
		}
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// variable is the name of a variable of the environment.
var variable = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// nothing reports whether a value says that there is none, or is a switch.
func nothing(v string) bool {
	v = strings.Trim(strings.TrimRight(strings.TrimLeft(v, `"'\`), `"'\)]},;.`), `"'\`)
	return v == "" || slices.Contains([]string{"none", "null", "nil", "~", "true", "false"}, strings.ToLower(v))
}

package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

type strictSample struct {
	Name  string            `yaml:"name"`
	Wait  time.Duration     `yaml:"wait"`
	Size  ByteSize          `yaml:"size"`
	Level string            `yaml:"level" enum:"low,high"`
	On    bool              `yaml:"on"`
	Items []strictItem      `yaml:"items"`
	Extra map[string]string `yaml:"extra"`
	Raw   strictOwn         `yaml:"raw"`
}

// strictOwn reads its node itself.
type strictOwn struct{ items, line int }

func (o *strictOwn) DecodeYAML(_ *yamldoc.Document, n *yaml.Node, _ string) {
	*o = strictOwn{len(n.Content), n.Line}
}

type strictItem struct {
	Count int `yaml:"count"`
}

func TestStrictDecode(t *testing.T) {
	in := "name: a\nwait: 1h30m\nsize: 2MiB\nlevel: high\non: true\nitems: [{count: 3}]\nextra: {k: v}\nraw: [1]\n"
	var got strictSample
	if _, err := strictDecode("f.yaml", []byte(in), &got); err != nil {
		t.Fatal(err)
	}
	want := strictSample{
		Name: "a", Wait: 90 * time.Minute, Size: 2 << 20, Level: "high", On: true,
		Items: []strictItem{{Count: 3}}, Extra: map[string]string{"k": "v"}, Raw: strictOwn{items: 1, line: 8},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(strictOwn{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Every message names the place and what to do: that is all a person has when
// the service refuses to start.
func TestStrictDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"unknown field", "wiat: a\n", `f.yaml:1:1: unknown field "wiat" (did you mean "wait"? allowed: name, wait, size, level, on, items, extra, raw)`},
		{"unknown nested field", "items:\n  - cuont: 1\n", `f.yaml:2:5: items[0]: unknown field "cuont" (did you mean "count"? allowed: count)`},
		{"duplicate", "name: a\nwait: 1s\nname: b\n", `f.yaml:3:1: name: set twice, first on line 1 (keep one)`},
		{"enum", "level: medium\n", `f.yaml:1:8: level: must be one of low, high, not "medium"`},
		{"type", "items: 3\n", `f.yaml:1:8: items: must be a list, not the number 3 (write [a, b], or one item a line after a dash)`},
		{"number for text", "name: 12\n", `f.yaml:1:7: name: must be a string, not the number 12 (put it in quotes)`},
		{"duration", "wait: 5 minutes\n", `f.yaml:1:7: wait: not a duration: "5 minutes" (write it like 30s, 5m, 1h30m or 28d)`},
		{"negative duration", "wait: -5m\n", `f.yaml:1:7: wait: not a duration: "-5m" (write it like 30s, 5m, 1h30m or 28d)`},
		{"size", "size: 16MB\n", `f.yaml:1:7: size: "16MB": not a size: write 16MiB, 512KiB, 1GiB or a number of bytes`},
		{"alias", "name: &a x\n", `f.yaml:1:7: anchors are not allowed (write the value out where it is used)`},
		{"second document", "name: a\n---\nname: b\n", `f.yaml:2:1: more than one document (this file must be one document: remove the line ---)`},
		{"encoding", "name: \"\xff\"\n", `f.yaml:1:8: not UTF-8 (save the file as UTF-8)`},
		{"syntax", "name: [a\n", `f.yaml:1:1: invalid YAML: did not find expected ',' or ']' (look below this line too: for another indentation, or a bracket or quote that is not closed)`},
		{"two at once", "on: maybe\nwait: x\n", "f.yaml:1:5: on: must be true or false, not \"maybe\"\nf.yaml:2:7: wait: not a duration: \"x\" (write it like 30s, 5m, 1h30m or 28d)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got strictSample
			_, err := strictDecode("f.yaml", []byte(c.in), &got)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestStrictDecodeBombs(t *testing.T) {
	for name, in := range map[string]string{
		"aliases": "extra: &a {k: v}\nraw: [*a, *a]\nname: *a\n",
		"deep":    "raw: " + strings.Repeat("[", 20000),
		"large":   "name: " + strings.Repeat("a", maxConfigBytes),
		"dense":   "raw: [" + strings.Repeat("a,", maxConfigBytes/2-16) + "]",
		"nested":  "raw: [" + strings.Repeat("[],", maxConfigBytes/3-16) + "]",
		"keys":    "extra: {" + strings.Repeat("? ,", maxConfigBytes/3-16) + "}",
		"lines":   "raw:\n" + strings.Repeat("-\n", maxConfigBytes/2-16),
	} {
		var got strictSample
		begun := time.Now()
		if _, err := strictDecode("f.yaml", []byte(in), &got); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("%s: refused after %s only", name, took)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("listen: 127.0.0.1:0\nauth: {insecure: true}\n"))
	f.Add([]byte("auth: {tokens: [{name: a, file: b, scopes: [read]}]}\nservices: []\n"))
	f.Add([]byte("guards: {cooldown: 5m}\nlog: {level: debug}\n"))
	for _, where := range []string{"http://a.example", "http://[::1]:1", "http://%zz"} {
		f.Add([]byte(strings.NewReplacer("WHERE", where, " WORD", ", plaintext: true").Replace(sendingSecrets)))
		f.Add([]byte(strings.NewReplacer("WHERE", where, " WORD", "").Replace(sendingSecrets)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f.yaml", data)
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Error("refused without a word")
		}
		if err == nil && c.Listen == "" {
			t.Error("accepted without an address to listen on")
		}
	})
}

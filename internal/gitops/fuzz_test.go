package gitops

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
)

// seed adds every file and flag of the golden cases.
func seed(f *testing.F, add func(data []byte, flag, value string)) {
	cases, err := filepath.Glob(filepath.Join("testdata", "edit", "*.txt"))
	if err != nil || len(cases) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		head, files := archive(string(raw))
		for _, file := range files {
			if file.Path == "want" {
				continue
			}
			for line := range strings.Lines(head) {
				if words := strings.Fields(line); len(words) > 2 && words[0] == "set" {
					add(file.Data, words[1], words[2])
				}
			}
		}
	}
}

func FuzzLocate(f *testing.F) {
	seed(f, func(data []byte, flag, _ string) { f.Add(data, flag) })
	f.Fuzz(func(t *testing.T, data []byte, flag string) {
		if len(data) > 1<<14 {
			return
		}
		before := bytes.Clone(data)
		places, err := Locate([]File{{Path: "a.yaml", Data: data}}, deployment, variableOf(flag))
		switch {
		case !bytes.Equal(before, data):
			t.Fatal("the input was changed")
		case err != nil && reason(err) == "":
			t.Fatalf("an error without a reason: %v", err)
		case err == nil && (len(places) != 1 || places[0].Line < 1 || places[0].Column < 1 || places[0].File == ""):
			t.Fatalf("no place: %+v", places)
		}
	})
}

func FuzzSet(f *testing.F) {
	seed(f, func(data []byte, flag, value string) { f.Add(data, flag, value) })
	f.Fuzz(func(t *testing.T, data []byte, flag, value string) {
		if len(data) > 1<<14 {
			return
		}
		v := variableOf(flag)
		files := []File{{Path: "a.yaml", Data: data}}
		e, err := setOne(files, deployment, v, value)
		if err != nil {
			if reason(err) == "" {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		after := e.Files[0].Data
		oneChange(t, data, after, e)
		if v.Switch || e.Place.Missing || e.From == "" || !wholeYAML(data) {
			return
		}
		back, err := setOne([]File{{Path: "a.yaml", Data: after}}, deployment, v, e.From)
		if reason(err) == fault.Invalid {
			return // what stood there is nothing that would be set
		}
		if err != nil {
			t.Fatalf("cannot be undone: %v\n%s", err, after)
		}
		was, is := flatten(t, string(data)), flatten(t, string(back.Files[0].Data))
		for path, v := range was {
			if is[path] != v {
				t.Fatalf("%s was %q, after the undo %q", path, v, is[path])
			}
		}
	})
}

// FuzzTree is for what several files make together: overlays, generators,
// value files. The input is an archive as in testdata/edit.
func FuzzTree(f *testing.F) {
	cases, err := filepath.Glob(filepath.Join("testdata", "edit", "*.txt"))
	if err != nil || len(cases) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		text, _, _ := strings.Cut(string(raw), "-- want --\n")
		f.Add(text, "max-num-seqs", "64")
		f.Add(text, "block-size", "16")
		f.Add(text, "replicas", "7")
	}
	f.Fuzz(func(t *testing.T, text, flag, value string) {
		if len(text) > 1<<14 {
			return
		}
		head, files := archive(text)
		var target Target
		for line := range strings.Lines(head) {
			if words := strings.Fields(line); len(words) > 2 && words[0] == "target" {
				target = targetOf(words[1:])
			}
		}
		e, err := setOne(files, target, variableOf(flag), value)
		if err != nil {
			if reason(err) == "" {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		if len(e.Files) != 1 || e.Files[0].Path != e.Place.File {
			t.Fatalf("%d files changed for %s", len(e.Files), e.Place.File)
		}
		for _, f := range files {
			if f.Path == e.Place.File {
				oneChange(t, f.Data, e.Files[0].Data, e)
			}
		}
		again, err := Locate(with(files, e.Files), target, variableOf(flag))
		if err != nil || again[0].Value != value && value != "false" {
			t.Fatalf("afterwards it is %+v, %v", again, err)
		}
	})
}

// oneChange proves that one stretch of bytes changed, and that the documents
// differ in one value, or in what was added at one place: a parent with it.
func oneChange(t *testing.T, before, after []byte, e Edit) {
	t.Helper()
	if !wholeYAML(before) {
		return // another document of the file is none, and is not touched
	}
	was, is := flatten(t, string(before)), flatten(t, string(after))
	changed := 0
	for path, v := range was {
		if now, there := is[path]; there && now != v {
			changed++
		}
	}
	if added := len(is) - len(was); changed > 1 || changed == 1 && added != 0 || added > 6 || added < 0 && !strings.HasPrefix(e.To, "false") {
		t.Fatalf("%d values changed, %d more than before\n%s\n---\n%s", changed, added, before, after)
	}
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	if grew := len(after) - head - tail; grew > len(e.To)*6+200 {
		t.Fatalf("%d bytes changed for a value of %d", grew, len(e.To))
	}
}

// wholeYAML reports whether every document of a file is YAML.
func wholeYAML(data []byte) bool {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		if err := d.Decode(&n); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

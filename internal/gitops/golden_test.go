package gitops

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestEdits runs testdata/edit/*.txt: what is asked for, the files, and then
// the place, the difference or the refusal.
//
//	target Deployment inference/vllm
//	set max-num-seqs 64
//	-- path --
//	...
//	-- want --
//	...
func TestEdits(t *testing.T) {
	cases, err := filepath.Glob(filepath.Join("testdata", "edit", "*.txt"))
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			head, files := archive(string(raw))
			var in []File
			want := ""
			for _, f := range files {
				if f.Path == "want" {
					want = string(f.Data)
				} else {
					in = append(in, f)
				}
			}
			got := perform(t, head, in)
			if *update {
				writeGolden(t, path, head, in, got)
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("not as %s says (-want +got):\n%s", path, diff)
			}
		})
	}
}

func writeGolden(t *testing.T, path, head string, in []File, got string) {
	t.Helper()
	out := head
	for _, f := range append(in, File{Path: "want", Data: []byte(got)}) {
		out += "-- " + f.Path + " --\n" + string(f.Data)
	}
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
}

// archive reads the txtar format.
func archive(s string) (head string, files []File) {
	for line := range strings.Lines(s) {
		name, ok := strings.CutSuffix(strings.TrimSuffix(line, "\n"), " --")
		if name, begins := strings.CutPrefix(name, "-- "); ok && begins {
			files = append(files, File{Path: name})
		} else if len(files) > 0 {
			last := &files[len(files)-1]
			last.Data = append(last.Data, line...)
		} else {
			head += line
		}
	}
	return head, files
}

// perform does what the head of a case asks, one line after the other, each on
// the files as they were given.
func perform(t *testing.T, head string, files []File) string {
	t.Helper()
	var out strings.Builder
	var target Target
	for line := range strings.Lines(head) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if words[0] == "target" {
			target = targetOf(words[1:])
			continue
		}
		out.WriteString("> " + strings.TrimSpace(line) + "\n")
		out.WriteString(performOne(t, target, words, files))
	}
	return out.String()
}

func targetOf(words []string) Target {
	namespace, name, _ := strings.Cut(words[1], "/")
	target := Target{Kind: words[0], Namespace: namespace, Name: name}
	for _, w := range words[2:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "container":
			target.Container = value
		case "workload":
			target.Workload = value
		case "component":
			target.Component = value
		case "path":
			target.Path = value
		case "values":
			target.ValueFiles = strings.Split(value, ",")
		case "release":
			target.Release = value
		case "helmrelease":
			target.HelmRelease = value
		case "listed":
			target.Listed = true
		}
	}
	return target
}

func variableOf(name string) Variable {
	v := Variable{Flag: strings.TrimPrefix(name, "switch:")}
	v.Switch = v.Flag != name
	switch name {
	case "replicas":
		v = Variable{Replicas: true}
	case "replicas:max":
		v = Variable{Replicas: true, Bound: "max"}
	}
	return v
}

func performOne(t *testing.T, target Target, words []string, files []File) string {
	t.Helper()
	var before []string
	for _, f := range files {
		before = append(before, string(f.Data))
	}
	var out strings.Builder
	v := variableOf(words[1])
	places, err := Locate(files, target, v)
	for _, p := range places {
		out.WriteString(placeText(p))
	}
	switch {
	case err != nil:
		out.WriteString(errorText(t, err))
	case words[0] == "unset":
		e, err := Unset(files, target, v)
		out.WriteString(editText(t, e, err))
	case words[0] == "set":
		e, err := setOne(files, target, v, strings.Join(words[2:], " "))
		out.WriteString(editText(t, e, err))
		roundTrip(t, files, e, target, v)
	}
	for i, f := range files {
		if string(f.Data) != before[i] {
			t.Errorf("%s was changed in place", f.Path)
		}
	}
	return out.String()
}

// roundTrip undoes an edit: every byte is again as it was.
func roundTrip(t *testing.T, files []File, e Edit, target Target, v Variable) {
	t.Helper()
	if len(e.Files) == 0 || v.Switch || strings.Contains(e.Place.Why, addedHere) {
		return
	}
	after := with(files, e.Files)
	var back Edit
	var err error
	if e.Place.Missing {
		back, err = Unset(after, target, v)
		if reason(err) == fault.Invalid && !strings.Contains(e.Place.Form, "flag") {
			return // a number cannot always be taken away
		}
	} else {
		back, err = setOne(after, target, v, e.From)
	}
	if err != nil {
		t.Errorf("cannot be undone: %v", err)
		return
	}
	again := with(after, back.Files)
	for i := range files {
		if string(files[i].Data) != string(again[i].Data) {
			t.Errorf("%s is not as before after the undo:\n%s", files[i].Path, cmp.Diff(string(files[i].Data), string(again[i].Data)))
		}
	}
}

func with(files, changed []File) []File {
	out := append([]File(nil), files...)
	for i := range out {
		for _, c := range changed {
			if c.Path == out[i].Path {
				out[i] = c
			}
		}
	}
	return out
}

func placeText(p Place) string {
	var b strings.Builder
	b.WriteString(p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column) + " " + p.Object + " " + p.Path + " (" + p.Form + ")")
	if p.Missing {
		b.WriteString(" missing")
		if p.Unknown != "" {
			b.WriteString(", unknown: " + p.Unknown)
		}
	} else {
		b.WriteString(" = " + p.Value)
	}
	b.WriteString("\n  why: " + p.Why + "\n")
	return b.String()
}

func errorText(t *testing.T, err error) string {
	t.Helper()
	e := new(fault.Error)
	if !errors.As(err, &e) {
		t.Errorf("an error without a reason: %v", err)
		return ""
	}
	return string(e.Reason) + ": " + e.Error() + "\n"
}

func editText(t *testing.T, e Edit, err error) string {
	t.Helper()
	if err != nil {
		return errorText(t, err)
	}
	if e.Unbuilt != "" {
		e.Unbuilt = "not rendered: " + e.Unbuilt + "\n"
	}
	return e.Unbuilt + diffOf(e.Old, e.Files)
}

// setOne changes one variable.
func setOne(files []File, t Target, v Variable, value string) (Edit, error) {
	return SetAll(files, t, []Assignment{{v, value}})
}

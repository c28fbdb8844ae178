package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// The bill of a program has its modules with their checksums, and is the same twice.
func TestBillOfAProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if data, err := os.ReadFile(self); err != nil || os.WriteFile(program, data, 0o700) != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	var first []byte
	for range 2 {
		var out, bad bytes.Buffer
		if code := run([]string{program}, &out, &bad); code != 0 || strings.TrimSpace(out.String()) != program+".cdx.json" {
			t.Fatalf("exit %d: %s%s", code, &out, &bad)
		}
		got, err := os.ReadFile(program + ".cdx.json")
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, got) {
			t.Error("a second bill of the same program differs")
		}
		first = got
	}
	var b bill
	if err := json.Unmarshal(first, &b); err != nil || b.Format != "CycloneDX" || b.Components[0].Name != "std" || b.Depends[0].Ref != b.Metadata.Component.Ref {
		t.Errorf("%v\n%s", err, first)
	}
}

func TestModules(t *testing.T) {
	got := billOf(&debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "example.org/m/cmd/x", Main: debug.Module{Path: "example.org/m"},
		Deps: []*debug.Module{
			{Path: "github.com/BurntSushi/toml", Version: "v1.6.0", Sum: "h1:abc="},
			{Path: "a.example/old", Version: "v1.0.0", Replace: &debug.Module{Path: "b.example/new", Version: "v2.0.0+incompatible", Sum: "h1:new="}},
		},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "f00"}, {Key: "-ldflags", Value: "-X secret"}},
	})
	var purls []string
	for _, c := range got.Components {
		purls = append(purls, c.PURL)
	}
	want := "pkg:golang/std@1.26.8 pkg:golang/github.com/burntsushi/toml@v1.6.0 pkg:golang/b.example/new@v2.0.0%2Bincompatible"
	if strings.Join(purls, " ") != want || got.Components[1].Properties[0].Value != "h1:abc=" {
		t.Errorf("components are %+v", got.Components)
	}
	if p := got.Metadata.Component.Properties; len(p) != 1 || p[0].Value != "f00" {
		t.Errorf("the program's properties are %+v", p)
	}
}

func TestNotAProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {file}, {file + "-none"}} {
		var bad bytes.Buffer
		if code := run(args, io.Discard, &bad); code == 0 || bad.Len() == 0 {
			t.Errorf("%q: exit %d, %q", args, code, &bad)
		}
	}
}

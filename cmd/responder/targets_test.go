package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9]+):`)
	namedTest  = regexp.MustCompile("(?m)(?:`| -(?:run|bench|fuzz) '?\\^?|\\|)((?:Test|Benchmark|Fuzz)[A-Z0-9]\\w*)")
	namedMake  = regexp.MustCompile("(?m)(?:^ *|`)make ([a-z0-9]+)(?:`|$| [A-Z]+=| +#)")
	namedDir   = regexp.MustCompile(`(?m)go test (?:-\S+ )*\./(\S+)`)
)

// TestDocumentedTargets: the targets of make, the tests, benchmarks and packages that pages
// name to whoever changes the program exist.
func TestDocumentedTargets(t *testing.T) {
	root := filepath.Join("..", "..")
	tests, targets := map[string]bool{}, map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(readText(t, filepath.Join(root, "Makefile")), -1) {
		targets[m[1]] = true
	}
	pages := []string{filepath.Join(root, "README.md")}
	for _, dir := range []string{"cmd", "deploy", "docs", "internal", "playbooks", "test"} {
		if err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if dir == "docs" && strings.HasSuffix(path, ".md") {
				pages = append(pages, path)
			}
			if strings.HasSuffix(path, "_test.go") {
				for _, m := range testFunc.FindAllStringSubmatch(readText(t, path), -1) {
					tests[m[1]] = true
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	found := 0
	for _, page := range pages {
		text := readText(t, page)
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			if found++; !tests[m[1]] {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
		for _, m := range namedMake.FindAllStringSubmatch(text, -1) {
			if found++; !targets[m[1]] {
				t.Errorf("%s: make has no target %s", page, m[1])
			}
		}
		for _, m := range namedDir.FindAllStringSubmatch(text, -1) {
			dir, _, _ := strings.Cut(m[1], "...")
			if matches, _ := filepath.Glob(filepath.Join(root, strings.ReplaceAll(dir, "NAME", "*"))); len(matches) == 0 {
				t.Errorf("%s: there is no package %s", page, m[1])
			}
		}
	}
	if found < 80 {
		t.Errorf("%d names were found: the test no longer sees them", found)
	}
}

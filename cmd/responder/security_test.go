package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every claim of the threat model, a list item or a row of a table, names a test that
// exists, unless it stands under a heading of limits.
func TestSecurityClaims(t *testing.T) {
	const page = "../../docs/explanation/security.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]+)`")
	limits := false
	for i, line := range strings.Split(wholeItems(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			limits = strings.HasPrefix(strings.TrimLeft(line, "# "), "Limits")
		}
		claim := strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| who ")
		tests := names.FindAllStringSubmatch(line, -1)
		if claim && len(tests) == 0 && !limits {
			t.Errorf("%s: claim without a test (line %d): %s", page, i+1, line)
		}
		for _, test := range tests {
			if !hasTest(t, test[1], test[2]) {
				t.Errorf("%s names %s.%s, which does not exist", page, test[1], test[2])
			}
		}
	}
}

// wholeItems joins the lines of a list item.
func wholeItems(text string) string {
	return regexp.MustCompile(`\n  +`).ReplaceAllString(text, " ")
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "func "+name+"(") {
			return true
		}
	}
	return false
}

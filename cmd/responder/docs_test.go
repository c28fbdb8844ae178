package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	inline  = regexp.MustCompile("`[^`\n]*`")
	marked  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksOfDocs follows the links between pages: a person at night who follows one
// arrives at the section that it names.
func TestLinksOfDocs(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := []string{filepath.Join(root, "README.md"), filepath.Join(root, "SECURITY.md")}
	if err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text := inline.ReplaceAllString(fence.ReplaceAllString(readText(t, page), ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, anchor, anchored := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s leads to no file", page, m[1])
			} else if anchored && !anchors(readText(t, to))[anchor] {
				t.Errorf("%s: %s leads to no heading", page, m[1])
			}
		}
	}
}

// TestAlertsHaveASection checks that each alert about Responder is explained to the person
// whom it wakes.
func TestAlertsHaveASection(t *testing.T) {
	root := filepath.Join("..", "..")
	there := anchors(readText(t, filepath.Join(root, "docs", "how-to", "when-responder-misbehaves.md")))
	rules := readText(t, filepath.Join(root, "deploy", "prometheus", "responder.rules.yaml"))
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Fatal("no alerts were read")
	}
	for _, m := range alerts {
		if !there[strings.ToLower(m[1])] {
			t.Errorf("docs/how-to/when-responder-misbehaves.md has no section %s", m[1])
		}
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out[strings.ReplaceAll(strings.ToLower(marked.ReplaceAllString(m[1], "")), " ", "-")] = true
	}
	return out
}

func readText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

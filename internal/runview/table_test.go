package runview

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTableFitsEightyColumns(t *testing.T) {
	long := strings.Repeat("inference-", 20)
	tab := Table{Columns: []Column{{Head: "RUN"}, {Head: "PLAYBOOK", Flex: true}, {Head: "WHY", Flex: true}, {Head: "DIGEST", Wide: true}}}
	tab.Add("r-01JDXYZ", long, long, "sha256:abc")
	var narrow, wide bytes.Buffer
	if err := tab.Write(&narrow, false); err != nil {
		t.Fatal(err)
	}
	if err := tab.Write(&wide, true); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(narrow.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > Width {
			t.Errorf("a line has %d columns: %q", n, line)
		}
	}
	if strings.Contains(narrow.String(), "sha256") {
		t.Error("a wide column is shown without -o wide")
	}
	if !strings.Contains(wide.String(), long+"  "+long+"  sha256:abc") {
		t.Errorf("-o wide cut something:\n%s", wide.String())
	}
}

func TestTableShowsNoControlCharacters(t *testing.T) {
	tab := Table{Columns: []Column{{Head: "LABEL"}}}
	tab.Add("a\x1b[31mred\u202e\nb")
	var b bytes.Buffer
	if err := tab.Write(&b, false); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.ContainsAny(got, "\x1b\u202e") || strings.Count(got, "\n") != 2 {
		t.Errorf("a label from outside reached the terminal: %q", got)
	}
}

func TestEntryOfADecisionSaysWhich(t *testing.T) {
	for data, want := range map[string]string{
		`{"state":"rollback","decision":{"gate":"g-1","approve":true,"by":"user:ada","reason":"go"}}`: "rollback approved by user:ada go",
		`{"state":"rollback","decision":{"gate":"g-1","by":"user:ada","reason":"no"}}`:                "rollback denied by user:ada no",
		`{"decision":{"by":"user:ada","reason":"my hands"}}`:                                          "user:ada my hands",
		`{"digest":"sha256:00","source":"policy.yaml","document":"rules: []"}`:                        "policy.yaml",
	} {
		if got := EntrySummary([]byte(data)); got != want {
			t.Errorf("%s is summed up as %q, want %q", data, got, want)
		}
	}
}

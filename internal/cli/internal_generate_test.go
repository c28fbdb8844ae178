package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
)

func testProcess() *command.Process {
	return &command.Process{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }, Temp: &command.Temporary{}}
}

// The committed reference is what this program is.
func TestReferenceIsUpToDate(t *testing.T) {
	for name, want := range referencePages(newRootCommand(testProcess())) {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", name))
		if err != nil {
			t.Errorf("%v; run make generate", err)
			continue
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("docs/reference/%s is out of date; run make generate\n%s", name, diff)
		}
	}
}

// Whoever reads the help of a command finds out how it is used.
func TestEveryCommandHasAnExample(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "responder ") && !strings.HasPrefix(line, "responder "+strings.TrimPrefix(c.CommandPath(), "responder ")) &&
				c.HasParent() && !c.HasSubCommands() && !strings.HasPrefix(line, "responder audit verify") {
				t.Errorf("an example of %s shows another command: %s", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(testProcess()))
}

// The catalog's fields are documented by hand: exactly those it accepts.
func TestCatalogReference(t *testing.T) {
	if c, err := config.Parse("example.yaml", []byte("auth: {insecure: true}\n"+catalogExample)); err != nil {
		t.Error(err)
	} else if entries, err := catalog.ParseNode("example.yaml", &c.Services); err != nil || len(entries) != 1 {
		t.Errorf("the example in the reference is refused: %v", err)
	}
	accepted := func(path string) []string {
		doc := map[string]string{"": "- {zz: 1}", "workload": "- {workload: {zz: 1}}", "gitops": "- {gitops: {zz: 1}}", "gitops.object": "- {gitops: {object: {zz: 1}}}", "slos[]": "- {slos: [{zz: 1}]}"}[path]
		var node yaml.Node
		if err := yaml.Unmarshal([]byte(doc), &node); err != nil {
			t.Fatal(err)
		}
		_, err := catalog.ParseNode("x.yaml", node.Content[0])
		if err == nil {
			t.Fatal("an unknown field is accepted")
		}
		_, allowed, _ := strings.Cut(err.Error(), "allowed: ")
		allowed, _, _ = strings.Cut(allowed, ")")
		return strings.Split(allowed, ", ")
	}
	var want []string
	for _, name := range accepted("") {
		switch name {
		case "workload", "gitops":
			for _, sub := range accepted(name) {
				if sub != "object" {
					want = append(want, name+"."+sub)
					continue
				}
				for _, part := range accepted(name + "." + sub) {
					want = append(want, name+"."+sub+"."+part)
				}
			}
		case "slos":
			for _, sub := range accepted("slos[]") {
				want = append(want, "slos[]."+sub)
			}
		default:
			want = append(want, name)
		}
	}
	var got []string
	for _, f := range catalogFields() {
		got = append(got, f.name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documented fields differ from accepted ones, -accepted +documented:\n%s", diff)
	}
}

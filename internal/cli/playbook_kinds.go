package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/spelling"
	"github.com/inference-responder/responder/internal/step/kinds"
)

func newPlaybookKindsCommand(p *command.Process) *cobra.Command {
	var out command.Output
	cmd := &cobra.Command{
		Use:   "kinds [NAME]",
		Short: "List the checks and levers a playbook can use, or describe one",
		Args:  atMostOne,
		Example: `  responder playbook kinds
  responder playbook kinds kube.scale`,
		RunE: func(_ *cobra.Command, args []string) error {
			kinds := kinds.Declarations()
			if len(args) == 1 {
				return describeKind(p.Stdout, &out, kinds, args[0])
			}
			t := &runview.Table{Columns: []runview.Column{{Head: "NAME"}, {Head: "ROLE"}, {Head: "WHAT", Flex: true}}}
			for _, k := range kinds {
				t.Add(k.Name, string(k.Role), opening(k.Doc))
			}
			return out.PrintTable(p.Stdout, kinds, t)
		},
	}
	out.AddTableFlag(cmd)
	return cmd
}

// opening returns what a text says first: its first sentence up to a colon.
func opening(doc string) string {
	text := strings.Join(strings.Fields(doc), " ")
	if end := sentenceEnd.FindStringIndex(text); end != nil {
		return text[:end[0]]
	}
	return strings.TrimSuffix(text, ".")
}

var sentenceEnd = regexp.MustCompile(`[.:?] `)

func describeKind(w io.Writer, out *command.Output, kinds []playbook.Kind, name string) error {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
		if k.Name == name {
			return out.Print(w, k, func(w io.Writer) error { return writeKind(w, k) })
		}
	}
	hint := ""
	if n := spelling.Nearest(name, names); n != "" {
		hint = fmt.Sprintf("did you mean %q? ", n)
	}
	return fmt.Errorf("no check or lever is named %q; %sthere is %s", name, hint, strings.Join(names, ", "))
}

// writeKind describes a kind in full, as wide as a terminal.
func writeKind(w io.Writer, k playbook.Kind) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", k.Name, k.Role)
	for paragraph := range strings.SplitSeq(strings.TrimSpace(k.Doc), "\n\n") {
		b.WriteString("\n")
		writeWrapped(&b, "", paragraph)
	}
	writeFields(&b, "with", "", k.With)
	writeFields(&b, "out", "", k.Out)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeWrapped(b *strings.Builder, indent, text string) {
	for _, line := range runview.Wrap(strings.Join(strings.Fields(text), " "), runview.Width-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
}

// writeFields describes fields and what is inside of them.
func writeFields(b *strings.Builder, title, prefix string, fields []playbook.Field) {
	if len(fields) > 0 && title != "" {
		fmt.Fprintf(b, "\n%s\n", title)
	}
	for _, f := range fields {
		fmt.Fprintf(b, "  %s%s (%s)\n", prefix, f.Name, strings.Join(fieldWords(f), ", "))
		writeWrapped(b, "      ", f.Doc)
		inner, mark := f.Type, "."
		if inner.Elem != nil {
			inner, mark = *inner.Elem, "[]."
		}
		writeFields(b, "", prefix+f.Name+mark, inner.Fields)
	}
}

// fieldWords is what is to be known of a field beside its meaning.
func fieldWords(f playbook.Field) []string {
	words := []string{typeName(f.Type)}
	if f.Unit != "" {
		words = append(words, f.Unit)
	}
	if len(f.Enum) > 0 {
		words = append(words, "one of "+strings.Join(f.Words(), " "))
	}
	if f.Required {
		words = append(words, "required")
	}
	if f.Default != nil {
		words = append(words, fmt.Sprintf("default %v", f.Default))
	}
	return words
}

func typeName(t playbook.Type) string {
	if t.Elem != nil {
		return string(t.Name) + " of " + typeName(*t.Elem)
	}
	return string(t.Name)
}

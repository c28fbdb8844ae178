package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/runview/review"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// format is how a command prints its data.
type format string

// The formats of -o. Table fits the terminal, or COLUMNS; wide shows every column, whole;
// name has the first column of a table alone, for scripts.
const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatName  format = "name"
	FormatJSON  format = "json"
	FormatYAML  format = "yaml"

	// Of documents, in place of tables.
	formatMarkdown format = "markdown"
	formatHTML     format = "html"
)

func (o *Output) formats() []string {
	if o.document {
		return []string{string(formatMarkdown), string(formatHTML), string(FormatJSON), string(FormatYAML)}
	}
	out := []string{string(formatTable), string(formatWide), string(FormatJSON), string(FormatYAML)}
	if o.table {
		out = append(out, string(formatName))
	}
	return out
}

// Output is the flag -o of every command that prints data.
type Output struct {
	Format   format
	table    bool // the text is one table
	document bool // the text is a document
}

// String is the value of the flag.
func (o *Output) String() string { return string(o.Format) }

// Type names the value in the help text.
func (o *Output) Type() string { return strings.Join(o.formats(), "|") }

// Set refuses a format that does not exist.
func (o *Output) Set(s string) error {
	if !slices.Contains(o.formats(), s) {
		return fmt.Errorf("no such format; there is %s", strings.Join(o.formats(), ", "))
	}
	o.Format = format(s)
	return nil
}

// AddFlag adds -o, with table as its default.
func (o *Output) AddFlag(cmd *cobra.Command) {
	o.Format = formatTable
	cmd.Flags().VarP(o, "output", "o", "how to print")
	// The error is of a flag that does not exist; it was added above.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats(), cobra.ShellCompDirectiveNoFileComp))
}

// AddTableFlag is AddFlag for commands that print with [Output.PrintTable].
func (o *Output) AddTableFlag(cmd *cobra.Command) {
	o.table = true
	o.AddFlag(cmd)
}

// AddDocumentFlag is AddFlag for commands that print with [Output.PrintDocument]. The
// default is Markdown.
func (o *Output) AddDocumentFlag(cmd *cobra.Command) {
	o.document = true
	o.AddFlag(cmd)
	o.Format = formatMarkdown
	cmd.Flags().Lookup("output").DefValue = string(formatMarkdown)
}

// Structured reports whether the answer is for a program.
func (o *Output) Structured() bool { return o.Format == FormatJSON || o.Format == FormatYAML }

// Names reports whether only names are wanted.
func (o *Output) Names() bool { return o.Format == formatName }

// Wide reports whether everything is wanted, however long the lines.
func (o *Output) Wide() bool { return o.Format == formatWide }

// Print writes data as JSON or YAML when that was asked for, and otherwise
// whatever text writes.
func (o *Output) Print(w io.Writer, data any, text func(io.Writer) error) error {
	switch o.Format {
	case FormatJSON:
		return writeJSON(w, data)
	case FormatYAML:
		return WriteYAML(w, data)
	default:
		return text(w)
	}
}

// PrintTable is print for commands whose text is one table.
func (o *Output) PrintTable(w io.Writer, data any, t *runview.Table) error {
	return o.Print(w, data, func(w io.Writer) error {
		if o.Names() {
			return t.WriteNames(w)
		}
		return t.Write(w, o.Wide())
	})
}

// PrintDocument is print for commands whose text is a document.
func (o *Output) PrintDocument(w io.Writer, data any, d review.Document) error {
	return o.Print(w, data, func(w io.Writer) error {
		if o.Format == formatHTML {
			return review.WriteHTML(w, d)
		}
		return review.WriteMarkdown(w, d)
	})
}

func writeJSON(w io.Writer, data any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(data)
}

// WriteYAML writes what writeJSON would write, with the same names in the same
// order: the JSON form is the only one that is declared.
func WriteYAML(w io.Writer, data any) error {
	var buf bytes.Buffer
	if err := writeJSON(&buf, data); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(buf.Bytes(), &doc); err != nil {
		return fmt.Errorf("write yaml: %w", err)
	}
	plainStyle(&doc)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return fmt.Errorf("write yaml: %w", err)
	}
	return e.Close()
}

// plainStyle turns JSON's braces and quotes into blocks and plain scalars. The
// encoder still quotes a string that would read as something else.
func plainStyle(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		switch strings.ToLower(n.Value) {
		case "y", "n", "yes", "no", "on", "off": // booleans to a reader of YAML 1.1
			n.Style = yaml.DoubleQuotedStyle
		}
		if strings.Contains(n.Value, "\n") {
			n.Style = yaml.LiteralStyle
		}
	}
	for _, c := range n.Content {
		plainStyle(c)
	}
}

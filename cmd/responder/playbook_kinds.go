package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

func newPlaybookKindsCommand(p *process) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "kinds [NAME]",
		Short: "List the checks and levers a playbook can use, or describe one",
		Args:  cobra.MaximumNArgs(1),
		Example: `  responder playbook kinds
  responder playbook kinds kube.scale`,
		RunE: func(_ *cobra.Command, args []string) error {
			kinds := step.Kinds()
			if len(args) == 1 {
				return describeKind(p.stdout, &out, kinds, args[0])
			}
			t := &table{columns: []column{{head: "NAME"}, {head: "ROLE"}, {head: "WHAT", flex: true}}}
			for _, k := range kinds {
				first, _, _ := strings.Cut(strings.Join(strings.Fields(k.Doc), " "), ". ")
				t.add(k.Name, string(k.Role), first)
			}
			return out.printTable(p.stdout, kinds, t)
		},
	}
	out.addFlag(cmd)
	return cmd
}

func describeKind(w io.Writer, out *output, kinds []playbook.Kind, name string) error {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
		if k.Name == name {
			return out.print(w, k, func(w io.Writer) error { return writeKind(w, k, out.wide()) })
		}
	}
	hint := ""
	if n := nearest(name, names); n != "" {
		hint = fmt.Sprintf("did you mean %q? ", n)
	}
	return fmt.Errorf("no check or lever is named %q; %sthere is %s", name, hint, strings.Join(names, ", "))
}

func writeKind(w io.Writer, k playbook.Kind, wide bool) error {
	fmt.Fprintf(w, "%s (%s)\n\n%s\n", k.Name, k.Role, strings.TrimSpace(k.Doc))
	for _, part := range []struct {
		title  string
		fields []playbook.Field
	}{{"with", k.With}, {"out", k.Out}} {
		if len(part.fields) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", part.title)
		t := &table{columns: []column{{head: "FIELD"}, {head: "TYPE"}, {head: "DEFAULT"}, {head: "WHAT", flex: true}}}
		addFields(t, "", part.fields)
		if err := t.write(w, wide); err != nil {
			return err
		}
	}
	return nil
}

func addFields(t *table, prefix string, fields []playbook.Field) {
	for _, f := range fields {
		def := ""
		switch {
		case f.Required:
			def = "required"
		case f.Default != nil:
			def = fmt.Sprint(f.Default)
		}
		what := f.Doc
		if f.Unit != "" {
			what += " (" + f.Unit + ")"
		}
		t.add(prefix+f.Name, typeName(f.Type), def, what)
		inner := f.Type
		mark := "."
		if inner.Elem != nil {
			inner, mark = *inner.Elem, "[]."
		}
		addFields(t, prefix+f.Name+mark, inner.Fields)
	}
}

func typeName(t playbook.Type) string {
	if t.Elem != nil {
		return string(t.Name) + " of " + typeName(*t.Elem)
	}
	return string(t.Name)
}

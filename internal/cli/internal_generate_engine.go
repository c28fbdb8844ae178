package cli

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/engine"
)

// engineReference describes the engines' flags from the table that holds values
// to them.
func engineReference() string {
	var b strings.Builder
	b.WriteString(generatedNote + "# Flags of the serving engines\n\n" +
		"`gitops.set_flag` holds a flag of a service to what the service's `engine` takes: its type and range, the flags it goes with, and whether\n" +
		"a run may change it. Dynamo takes the flags of vLLM and SGLang beside its own, KServe those of vLLM. Of a service without an `engine`\n" +
		"nothing is added, and a value has to suit one of them. `responder engine flags` prints the same.\n\n" +
		"A flag that is not here is not known. It is changed where it stands in Git already, and added only with `unknown_flag: add`; its value\n" +
		"is not checked. A flag takes effect when the engine starts again, so that each change is a rollout.\n\n" +
		"A run never changes a flag of which a proof by latency, errors and traffic says nothing. These are listed by the reason, and no\n" +
		"setting lets a playbook change them.\n")
	for _, p := range engine.Unstated().Programs() {
		fmt.Fprintf(&b, "\n## %s\n\nRead from %s.\n\n", p.Title, p.Source)
		writeChangeableFlags(&b, p)
		writeFixedFlags(&b, p)
	}
	return b.String()
}

func writeChangeableFlags(b *strings.Builder, p *engine.Program) {
	var rows []string
	for _, f := range p.Flags {
		if !f.Changeable() {
			continue
		}
		text := f.Trades
		if f.Contract {
			text += ". Clients are served other than before: a high risk"
		}
		if f.Compiles {
			text += ". The engine compiles anew, so that its first start is slower"
		}
		if f.Note != "" {
			text += ". Note: " + f.Note
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", f.Name, tableCell(f.Range()), tableCell(f.Default), tableCell(text), tableCell(f.Source)))
	}
	if len(rows) > 0 {
		b.WriteString("| flag | takes | default | trades | bounds from |\n|---|---|---|---|---|\n" + strings.Join(rows, "") + "\n")
	}
}

func writeFixedFlags(b *strings.Builder, p *engine.Program) {
	names := map[engine.Reason][]string{}
	var reasons []engine.Reason
	var removed []string
	for _, f := range p.Flags {
		if f.Removed != "" {
			removed = append(removed, fmt.Sprintf("* `%s`: %s\n", f.Name, f.Removed))
		}
		if f.Fixed == "" {
			continue
		}
		if names[f.Fixed] == nil {
			reasons = append(reasons, f.Fixed)
		}
		name := "`" + f.Name + "`"
		if len(f.Aliases) > 0 {
			name += " (`" + strings.Join(f.Aliases, "`, `") + "`)"
		}
		names[f.Fixed] = append(names[f.Fixed], name)
	}
	b.WriteString("Never changed by a run:\n\n")
	for _, why := range reasons {
		fmt.Fprintf(b, "* %s: %s\n", why, strings.Join(names[why], ", "))
	}
	if len(removed) > 0 {
		b.WriteString("\nNo longer there, and changed only where they stand:\n\n" + strings.Join(removed, ""))
	}
}

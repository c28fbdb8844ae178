package gitops

import (
	"fmt"
	"slices"
	"strings"
)

// counting gives the hit that counts: the last one of the command. Engines
// take the last of several without a word. One that another command of the
// script has than the engine's is somebody else's.
func counting(hits []hit) (hit, error) {
	last := hits[len(hits)-1]
	at := last.line.args[last.first]
	for _, h := range hits {
		if h.line.args[h.first].command != at.command {
			return hit{}, ambiguous([]Place{h.site().place, last.site().place}, "several commands of one script set it")
		}
	}
	engines := last.line.engines()
	switch {
	case at.script == nil || at.script.form != "shell":
	case len(engines) > 1 && slices.Contains(engines, at.command):
		return hit{}, last.line.container.bad(at.node, fmt.Sprintf("%s has %d commands that start an engine, and one of them sets %s: nothing tells which one counts", at.path, len(engines), cutEq(at.text)))
	case len(engines) > 0 && !slices.Contains(engines, at.command) && !last.line.collects(at):
		return hit{}, last.line.container.bad(at.node, fmt.Sprintf("%s sets %s on another command than the one that starts the engine", at.path, cutEq(at.text)))
	}
	return last, nil
}

// engines gives the commands of a line that start an engine.
func (l *line) engines() []int {
	var out []int
	for i := 0; i < len(l.args); {
		j := i
		for j < len(l.args) && l.args[j].command == l.args[i].command {
			j++
		}
		if startsEngine(l.args[i:j]) {
			out = append(out, l.args[i].command)
		}
		i = j
	}
	return slices.Compact(out)
}

// startsEngine reports whether a command starts a serving engine, rather than
// to speak of one.
func startsEngine(args []argument) bool {
	return runsEngine(args) && slices.ContainsFunc(args, func(a argument) bool { return strings.HasPrefix(a.text, "--") || a.text == "serve" })
}

// collects reports whether the words of a command are collected for another one:
// set -- ..., or the lines of an array.
func (l *line) collects(a argument) bool {
	i := slices.IndexFunc(l.args, func(b argument) bool { return b.command == a.command })
	first := l.args[i]
	if first.text == "set" || strings.HasPrefix(first.text, "-") {
		return true
	}
	return first.word != nil && strings.HasSuffix(strings.TrimRight(first.node.Value[:first.word.begin], " \t\n"), "=(")
}

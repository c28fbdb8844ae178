package gitops

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	shells = regexp.MustCompile(`^(?:ba|da|a|z|k)?sh$`)
	// scriptOption is what a list of arguments begins with whose shell is the
	// image's or the operator's. vLLM has options that look like more: -cc, -sc.
	scriptOption = regexp.MustCompile(`^-[eiluvx]*c[eiluvx]*$`)
	shellOption  = regexp.MustCompile(`^[-+][a-zA-Z]+$`)
)

// scriptIndex finds the item that a shell runs as a script; -1: none. Another
// program may start the shell: tini, env, numactl.
func (c container) scriptIndex(items []argument) int {
	switch {
	case len(items) == 0:
		return -1
	case c.whole && len(items) == 1 && strings.Contains(items[0].text, " "):
		return 0
	case !isList(get(c.node, "command")) && scriptOption.MatchString(items[0].text):
		if i := afterOptions(items, 0); i >= 0 {
			return i
		}
	}
	for i, item := range items {
		if !shells.MatchString(path.Base(item.text)) {
			continue
		}
		if at := afterOptions(items, i+1); at >= 0 {
			return at
		}
	}
	return -1
}

// afterOptions reads a shell's options and gives the item behind them, when one
// of them says that it is a script; -1: none does.
func afterOptions(items []argument, at int) int {
	command := false
	for ; at < len(items); at++ {
		option := items[at].text
		if option == "--" {
			at++
			break
		}
		switch long := strings.HasPrefix(option, "--"); {
		case option == "--rcfile" || option == "--init-file":
			at++
		case long:
		case !shellOption.MatchString(option):
			return scriptAt(command, items, at)
		default:
			command = command || option[0] == '-' && strings.Contains(option, "c")
			if strings.ContainsAny(option, "oO") {
				at++ // -eo pipefail
			}
		}
	}
	return scriptAt(command, items, at)
}

func scriptAt(command bool, items []argument, at int) int {
	if !command || at >= len(items) {
		return -1
	}
	return at
}

var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=`)

// setters are commands that set the variables they name.
var setters = []string{"for", "read", "unset", "mapfile", "readarray", "printf", "getopts"}

// assigned gives the variables that a script sets: what the manifest says of
// them may count no more. NAME=${NAME:-default} keeps what is set.
func (s *shell) assigned() map[string]bool {
	names := map[string]bool{}
	sets, command := false, -1
	for _, w := range s.words {
		if w.command != command {
			sets, command = false, w.command
		}
		if m := assignment.FindStringSubmatch(w.text); m != nil {
			names[m[1]] = names[m[1]] || !keeps(m[1], w.text[len(m[0]):])
			continue
		}
		if sets {
			names[w.text] = true
		}
		sets = sets || slices.Contains(setters, w.text)
	}
	return names
}

// keeps reports whether a variable that is set stays as it is when it gets this
// value.
func keeps(name, value string) bool {
	if value == "$"+name || value == "${"+name+"}" {
		return true
	}
	return (strings.HasPrefix(value, "${"+name+":-") || strings.HasPrefix(value, "${"+name+"-")) && closing(value[1:]) == len(value)-1
}

// reassigned says why the manifest's value of a variable is not followed.
func (l *line) reassigned(name string) string {
	return fmt.Sprintf("the script sets $%s itself, so that what the manifest says of it may not count", name)
}

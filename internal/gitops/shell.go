package gitops

import (
	"fmt"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"path"
	"regexp"
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
	case !edit.IsList(edit.Get(c.node, "command")) && scriptOption.MatchString(items[0].text):
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

// reassigned says why the manifest's value of a variable is not followed.
func (l *line) reassigned(name string) string {
	return fmt.Sprintf("the script sets $%s itself, so that what the manifest says of it may not count", name)
}

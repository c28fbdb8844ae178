package credential

import (
	"regexp"
	"strings"
)

// Manifest returns the lines of a manifest without credentials, and without all of the
// Secrets in it. The lines may have their ends, which are left out. What stands in a line is
// judged as a part of the manifest: by the value of several lines that it belongs to, and by
// its neighbors.
func Manifest(lines []string) []string {
	bare := make([]string, len(lines))
	for i, line := range lines {
		bare[i] = strings.TrimRight(line, "\r\n")
	}
	hidden := shades(bare)
	before, after := beside(bare)
	out := make([]string, len(bare))
	for from := 0; from < len(bare); {
		to := valueEnd(bare, from)
		value := bare[from:to]
		if len(value) > 1 {
			value = scriptLines(value)
		}
		for i, line := range value {
			switch hidden[from+i] {
			case all:
				out[from+i] = hideLine(line)
			case oneValue:
				out[from+i] = hideValue(line)
			default:
				out[from+i] = redactLine(line, before[from+i], after[from+i])
			}
		}
		from = to
	}
	return out
}

// RedactManifest is [Manifest] for a text.
func RedactManifest(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range Manifest(lines) {
		if strings.HasSuffix(lines[i], "\r") {
			line += "\r"
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// begun is a line that begins a value: its indentation and dashes, its key, and the value.
var begun = regexp.MustCompile(`^(\s*(?:-\s+)*)((?:"[^"]*"|'[^']*'|[^\s"'#{}\[\],:-][^:#]*)\s*:(?:\s+|$))?(.*)$`)

// valueEnd returns the place behind the last line of the value that begins in a line, by the
// indentation: also where the manifest cannot be read.
func valueEnd(lines []string, from int) int {
	m := begun.FindStringSubmatch(lines[from])
	if m == nil || comment(m[3]) || documents.MatchString(lines[from]) || strings.HasPrefix(m[3], "{{") {
		return from + 1 // it has children, or is no value
	}
	in := len(m[1])
	if m[2] == "" { // what follows is indented like it, or more than its dash
		in = max(len(indent(lines[from])), strings.LastIndexByte(m[1], '-')+1) - 1
	}
	to := from + 1
	for to < len(lines) && (strings.TrimSpace(lines[to]) == "" || len(indent(lines[to])) > in) && !documents.MatchString(lines[to]) {
		to++
	}
	return to
}

// lineEnd stands for the end of a line where several are judged as one: it is white space.
const lineEnd = "\f"

// scriptLines redacts lines of a shell, or of one value, as one line: a backslash at the end
// of a line is left out meanwhile. The result has as many lines.
func scriptLines(lines []string) []string {
	joined := make([]string, len(lines))
	for i, line := range lines {
		joined[i] = strings.ReplaceAll(strings.TrimSuffix(strings.TrimRight(line, " \t\r"), `\`), lineEnd, " ")
	}
	out := strings.Split(script(lists(strings.Join(joined, lineEnd))), lineEnd)
	for i, line := range out {
		if line == joined[i] {
			out[i] = lines[i]
		} else if strings.HasSuffix(strings.TrimRight(lines[i], " \t\r"), `\`) {
			out[i] = strings.TrimRight(line, " ") + ` \`
		}
	}
	return out
}

// lists replaces the values of flags in lists on one line that are not known to hold no
// credential.
func lists(line string) string {
	return judged(listed, line, func(string) bool { return true }, func(flag, v string) bool { return plainWord(flag, bare(v)) })
}

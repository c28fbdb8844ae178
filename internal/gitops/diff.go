package gitops

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/utils/diff"
	"github.com/sergi/go-diff/diffmatchpatch"

	"github.com/inference-responder/responder/internal/credential"
)

// contextLines is how many unchanged lines a hunk shows on each side.
const contextLines = 3

// diffTime bounds the search for the smallest difference. After it a larger one
// is returned.
const diffTime = 2 * time.Second

// Hunk is one difference of two texts: lines From up to To (exclusive) of the old
// text are NewFrom up to NewTo of the new one, counted from 0.
type Hunk struct{ From, To, NewFrom, NewTo int }

// Diff returns what the proposal changes as a unified diff that git applies. What
// looks like a credential is redacted, and left out of the lines around a hunk. Where a
// hunk changes one, or stands right before one, Git would not apply it: a line before
// the file says so. It is empty when the proposal reverts commits.
func (p Proposal) Diff() string { return diffOf(p.Old, p.Files) }

func diffOf(before, after []File) string {
	var b strings.Builder
	for i := range before {
		b.WriteString(unified(before[i].Path, string(before[i].Data), string(after[i].Data)))
	}
	return b.String()
}

// unified returns the unified diff of two texts, empty when they are equal.
func unified(path, before, after string) string {
	if before == after {
		return ""
	}
	if strings.Contains(path, " ") {
		path += "\t" // ends the name, as in the output of git diff
	}
	a, b := newSide(before), newSide(after)
	var w strings.Builder
	hunks := Hunks(before, after)
	exact := true
	for i := 0; i < len(hunks); {
		j := i
		for j+1 < len(hunks) && hunks[j+1].From-hunks[j].To <= 2*contextLines && a.shown(hunks[j].To, hunks[j+1].From) {
			j++
		}
		exact = group(&w, a, b, hunks[i:j+1]) && exact
		i = j + 1
	}
	head := fmt.Sprintf("--- a/%s\n+++ b/%s\n", path, path)
	if !exact {
		head = readingOnly + "\n" + head
	}
	return head + w.String()
}

// readingOnly precedes a file of a diff that hides a credential in a hunk.
const readingOnly = "# A value that may be a credential is redacted in the next file's diff: it is for reading only, git apply refuses it."

func split(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if n := len(lines) - 1; lines[n] == "" {
		lines = lines[:n]
	}
	return lines
}

// Hunks returns the differences of two texts, in order.
func Hunks(before, after string) []Hunk {
	var out []Hunk
	i, j := 0, 0
	changing := false
	for _, d := range diff.DoWithTimeout(before, after, diffTime) {
		n := len(split(d.Text))
		if d.Type == diffmatchpatch.DiffEqual {
			i, j, changing = i+n, j+n, false
			continue
		}
		if !changing {
			out, changing = append(out, Hunk{i, i, j, j}), true
		}
		if d.Type == diffmatchpatch.DiffDelete {
			i += n
		} else {
			j += n
		}
		h := &out[len(out)-1]
		h.To, h.NewTo = i, j
	}
	return out
}

// side is one of the two texts.
type side struct {
	lines    []string // with their ends
	redacted []string // the lines as they are shown, without their ends
}

func newSide(text string) side {
	lines := split(text)
	return side{lines, credential.Manifest(lines)}
}

// line returns a line as it is shown, with its end.
func (s side) line(i int) string {
	end := s.lines[i][len(strings.TrimRight(s.lines[i], "\r\n")):]
	if !strings.HasSuffix(end, "\n") {
		end += "\n\\ No newline at end of file\n"
	}
	return s.redacted[i] + end
}

// shown reports whether lines are shown as they are.
func (s side) shown(from, to int) bool {
	for i := from; i < to; i++ {
		if text, _, _ := strings.Cut(s.line(i), "\n\\ No newline"); strings.TrimRight(text, "\n") != strings.TrimRight(s.lines[i], "\n") {
			return false
		}
	}
	return true
}

// group writes hunks that are close together, and the lines around them. It reports
// whether no line is redacted, so that Git applies them.
func group(w *strings.Builder, a, b side, hunks []Hunk) (exact bool) {
	first, last := hunks[0], hunks[len(hunks)-1]
	from, to := max(0, first.From-contextLines), min(len(a.lines), last.To+contextLines)
	// Git finds no line that is redacted. After a hunk it takes at least one.
	for i := first.From - 1; i >= from; i-- {
		if !a.shown(i, i+1) {
			from = i + 1
			break
		}
	}
	for i := last.To; i < to; i++ {
		if !a.shown(i, i+1) {
			to = max(i, last.To+1)
		}
	}
	shift := first.NewFrom - first.From
	newFrom, newTo := from+shift, last.NewTo+to-last.To
	fmt.Fprintf(w, "@@ -%s +%s @@\n", ranged(from, to), ranged(newFrom, newTo))
	exact = true
	put := func(sign string, s side, from, to int) {
		exact = exact && s.shown(from, to)
		for i := from; i < to; i++ {
			w.WriteString(sign + s.line(i))
		}
	}
	for _, h := range hunks {
		put(" ", a, from, h.From)
		put("-", a, h.From, h.To)
		put("+", b, h.NewFrom, h.NewTo)
		from = h.To
	}
	put(" ", a, from, to)
	return exact
}

func ranged(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

package repository

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/outbound"
)

// Message is the content of a commit message. Texts may come from alerts, so they
// must not become lines or trailers of their own.
type Message struct {
	What  string // one line: the subject
	Why   string // the playbook's reason
	Alert string // which alert, in words

	// Trailers. The effect is required: it is the idempotency key.
	Run, State, Plan, Effect string

	Drift string // a trailer too; empty: none
}

const (
	maxSubject = 150
	maxText    = 2000
	width      = 72
)

// trailerLine matches what git accepts as a trailer.
var trailerLine = regexp.MustCompile(`^([A-Za-z0-9-]+): *(.*)$`)

// format returns the message; extra lines come after the subject.
func (m Message) format(extra ...string) (string, error) {
	subject := outbound.OneLine(m.What, maxSubject)
	if subject == "" {
		return "", invalid("commit message: the subject (what) is empty")
	}
	paragraphs := []string{subject}
	if len(extra) > 0 {
		paragraphs = append(paragraphs, strings.Join(extra, "\n"))
	}
	for _, text := range []string{m.Why, prefixed("Alert: ", m.Alert)} {
		if text = wrap(outbound.OneLine(text, maxText)); text != "" {
			paragraphs = append(paragraphs, text)
		}
	}
	var last []string
	for _, t := range []struct{ key, value string }{
		{gitops.TrailerRun, m.Run},
		{gitops.TrailerState, m.State},
		{gitops.TrailerPlan, m.Plan},
		{gitops.TrailerDrift, m.Drift},
		{gitops.TrailerEffect, m.Effect},
	} {
		switch {
		case t.value == "" && t.key == gitops.TrailerEffect:
			return "", invalid("commit message: %s is empty", t.key)
		case t.value == "":
			continue
		case len(t.value) > 300 || strings.ContainsFunc(t.value, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
			return "", invalid("commit message: %s %q: want one word of printable characters", t.key, outbound.Cut(t.value, 80))
		}
		last = append(last, fmt.Sprintf("%s: %s", t.key, t.value))
	}
	paragraphs = append(paragraphs, strings.Join(last, "\n"))
	return strings.Join(paragraphs, "\n\n") + "\n", nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// wrap breaks a text at words. It indents lines that would read as a trailer, a
// comment or the first word of a revert.
func wrap(s string) string {
	var lines []string
	var line string
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	lines = append(lines, line)
	for i, l := range lines {
		if strings.HasPrefix(l, "#") || strings.HasPrefix(strings.ToLower(l), "responder-") || revertLine.MatchString(l) {
			lines[i] = " " + l
		}
	}
	return strings.Join(lines, "\n")
}

// revertsLine returns the line that names a reverted commit.
func revertsLine(h plumbing.Hash) string { return fmt.Sprintf("This reverts commit %s.", h) }

// revertLine matches the line that git, and we, write into the message of a
// revert.
var revertLine = regexp.MustCompile(`(?m)^This reverts commit ([0-9a-f]{40})[.,]`)

// reverts returns the commits that a message names as reverted.
func reverts(message string) []string {
	var found []string
	for _, m := range revertLine.FindAllStringSubmatch(message, -1) {
		found = append(found, m[1])
	}
	return found
}

// trailers returns the trailers of a message: its last paragraph, if that is not
// the first and every line of it is a trailer.
func trailers(message string) map[string]string {
	message = strings.TrimRight(strings.ReplaceAll(message, "\r\n", "\n"), "\n ")
	i := strings.LastIndex(message, "\n\n")
	if i < 0 {
		return nil
	}
	found := map[string]string{}
	for line := range strings.SplitSeq(message[i+2:], "\n") {
		switch m := trailerLine.FindStringSubmatch(line); {
		case m != nil:
			found[m[1]] = strings.TrimSpace(m[2])
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "(cherry picked from commit "):
		default:
			return nil
		}
	}
	return found
}

package repository

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/gitops"
)

// splitLines keeps line ends, so that joining restores the bytes.
func splitLines(b []byte) [][]byte {
	lines := bytes.SplitAfter(b, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}

// merge applies both changes to one text: base to ours, and base to theirs. If
// they touch the same or neighbouring lines, it returns the places, in ours, and
// no text. The same change on both sides is not a conflict.
func merge(base, ours, theirs []byte) (merged []byte, clashes []gitops.Hunk) {
	type edit struct {
		gitops.Hunk
		text [][]byte
		ours bool
	}
	var edits []edit
	for _, side := range []struct {
		text []byte
		ours bool
	}{{ours, true}, {theirs, false}} {
		lines := splitLines(side.text)
		for _, h := range gitops.Hunks(string(base), string(side.text)) {
			edits = append(edits, edit{h, lines[h.NewFrom:h.NewTo], side.ours})
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	var kept []edit
	for _, e := range edits {
		if n := len(kept) - 1; n >= 0 && kept[n].ours != e.ours && e.From <= kept[n].To {
			if e.From == kept[n].From && e.To == kept[n].To && slices.EqualFunc(e.text, kept[n].text, bytes.Equal) {
				continue
			}
			if e.ours {
				clashes = append(clashes, e.Hunk)
			} else {
				clashes = append(clashes, kept[n].Hunk)
			}
		}
		kept = append(kept, e)
	}
	if len(clashes) > 0 {
		return nil, clashes
	}
	lines, at := splitLines(base), 0
	for _, e := range kept {
		merged = append(merged, bytes.Join(lines[at:e.From], nil)...)
		merged = append(merged, bytes.Join(e.text, nil)...)
		at = e.To
	}
	return append(merged, bytes.Join(lines[at:], nil)...), nil
}

// spans formats the lines of the second text, counted from 1. A difference that
// only removed lines names the line that follows.
func spans(hs []gitops.Hunk) string {
	var parts []string
	for _, h := range hs {
		part := fmt.Sprint(h.NewFrom + 1)
		if h.NewTo > h.NewFrom+1 {
			part = fmt.Sprintf("%d-%d", h.NewFrom+1, h.NewTo)
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if len(parts) > 10 {
		parts = append(parts[:10], "...")
	}
	return strings.Join(parts, ", ")
}

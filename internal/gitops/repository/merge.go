package repository

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/utils/diff"
	"github.com/sergi/go-diff/diffmatchpatch"
)

// diffTime limits the search for a small difference. After it, a larger but
// equally correct one is used.
const diffTime = 2 * time.Second

// hunk is one difference: lines [from,to) of one text are [at,end) of another,
// counted from 0.
type hunk struct {
	from, to int
	at, end  int
}

// hunks returns the differences of two texts, in order.
func hunks(a, b []byte) []hunk {
	var out []hunk
	var h hunk
	open := false
	for _, d := range diff.DoWithTimeout(string(a), string(b), diffTime) {
		n := len(splitLines([]byte(d.Text)))
		switch d.Type {
		case diffmatchpatch.DiffEqual:
			if open {
				out, open = append(out, h), false
			}
			h = hunk{h.to + n, h.to + n, h.end + n, h.end + n}
		case diffmatchpatch.DiffDelete:
			h.to, open = h.to+n, true
		case diffmatchpatch.DiffInsert:
			h.end, open = h.end+n, true
		}
	}
	if open {
		out = append(out, h)
	}
	return out
}

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
func merge(base, ours, theirs []byte) (merged []byte, clashes []hunk) {
	type edit struct {
		hunk
		text [][]byte
		ours bool
	}
	var edits []edit
	for _, side := range []struct {
		text []byte
		ours bool
	}{{ours, true}, {theirs, false}} {
		lines := splitLines(side.text)
		for _, h := range hunks(base, side.text) {
			edits = append(edits, edit{h, lines[h.at:h.end], side.ours})
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var kept []edit
	for _, e := range edits {
		if n := len(kept) - 1; n >= 0 && kept[n].ours != e.ours && e.from <= kept[n].to {
			if e.from == kept[n].from && e.to == kept[n].to && slices.EqualFunc(e.text, kept[n].text, bytes.Equal) {
				continue
			}
			if e.ours {
				clashes = append(clashes, e.hunk)
			} else {
				clashes = append(clashes, kept[n].hunk)
			}
		}
		kept = append(kept, e)
	}
	if len(clashes) > 0 {
		return nil, clashes
	}
	lines, at := splitLines(base), 0
	for _, e := range kept {
		merged = append(merged, bytes.Join(lines[at:e.from], nil)...)
		merged = append(merged, bytes.Join(e.text, nil)...)
		at = e.to
	}
	return append(merged, bytes.Join(lines[at:], nil)...), nil
}

// spans formats the lines of the second text, counted from 1. A difference that
// only removed lines names the line that follows.
func spans(hs []hunk) string {
	var parts []string
	for _, h := range hs {
		part := fmt.Sprint(h.at + 1)
		if h.end > h.at+1 {
			part = fmt.Sprintf("%d-%d", h.at+1, h.end)
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

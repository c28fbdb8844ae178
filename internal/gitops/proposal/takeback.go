package proposal

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// This file takes a release back: the fields of one target that its commits
// moved, in one edit. Git reverts lines of whatever they are; here each changed
// line is judged by the fields that it moves, and the result is read again.

// TakeBack fills in the proposal that takes commits back, newest first.
func (r Reading) TakeBack(p *gitops.Proposal, w gitops.Want, commits []Version) error {
	w.Target = r.Own(w.Target)
	back := takingBack{target: w.Target, now: byPath(r.Files), want: map[string]string{}}
	was := maps.Clone(back.now)
	for _, v := range commits {
		old, left := byPath(v.Before), byPath(v.After)
		for _, path := range v.Commit.Files {
			if !r.Concerns(path) {
				continue
			}
			if err := back.file(v.Commit, path, old[path], left[path]); err != nil {
				return err
			}
		}
	}
	p.TakesBack, p.Stays = w.TakeBack, back.stays
	for _, path := range slices.Sorted(maps.Keys(union(was, back.now))) {
		now, there := back.now[path]
		switch {
		case bytes.Equal(was[path], now):
		case !there:
			p.Deleted = append(p.Deleted, path)
		default:
			p.Old = append(p.Old, gitops.File{Path: path, Data: was[path]})
			p.Files = append(p.Files, gitops.File{Path: path, Data: now})
		}
	}
	return r.onlyOf(p, was, back, w)
}

// onlyOf fills in what a proposal changes, and refuses it unless that is exactly
// the target's fields as the oldest of the commits found them.
func (r Reading) onlyOf(p *gitops.Proposal, was map[string][]byte, back takingBack, w gitops.Want) error {
	var before []gitops.File
	for _, path := range slices.Sorted(maps.Keys(union(was, back.now))) {
		if data, there := was[path]; there && !bytes.Equal(data, back.now[path]) {
			before = append(before, gitops.File{Path: path, Data: data})
		}
	}
	p.Touches = touches(before, p.Files, w.Target)
	if len(p.Touches) == 0 {
		return &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("taking back %s changes nothing of %s", shortAll(w.TakeBack), w.Target.Name)}
	}
	if all := touches(before, p.Files, gitops.Target{}); len(all) > len(p.Touches) {
		return inseparable(w.TakeBack, otherThan(all, p.Touches))
	}
	for at, value := range back.want {
		path, field, _ := strings.Cut(at, "\x00")
		if now := flatten(path, back.now[path], w.Target)[field].value; now != value {
			return inseparable(w.TakeBack, path+" "+field)
		}
	}
	after := r.after(p.Files, p.Deleted)
	p.Manifests, p.Plain = gitops.Plain(r.Files, after, r.Target(w.Target))
	p.Plain = p.Plain && len(p.Deleted) == 0
	if err := r.keeps(w.Target, after); err != nil {
		return err
	}
	return r.alone(w.Target, after, w.TakeBack)
}

func inseparable(shas []string, what string) error {
	return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
		"taking back %s would also change %s, which stands on the same lines: revert it by hand", shortAll(shas), what)}
}

func union(a, b map[string][]byte) map[string][]byte {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// takingBack is a release that is being taken back, commit by commit, newest
// first.
type takingBack struct {
	target gitops.Target
	now    map[string][]byte // the files so far
	want   map[string]string // value of each field that goes back, by file and path
	stays  []gitops.Touch
}

// maxPieces bounds the places of one file that a commit changed.
const maxPieces = 500

// file takes back what a commit changed in a file; nil stands for no file.
func (b *takingBack) file(c gitops.Commit, path string, before, after []byte) error {
	ps := pieces(string(after), string(before))
	entire := []piece{{to: len(lines(string(after))), text: lines(string(before))}}
	if before == nil || after == nil {
		ps = entire
	}
	if len(ps) > maxPieces {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("commit %.9s changed %s in more than %d places: revert it by hand", c.SHA, path, maxPieces)}
	}
	if !b.opaque(after) && !b.opaque(before) && slices.ContainsFunc(ps, func(p piece) bool {
		return b.opaque([]byte(joined(lines(string(after)), []piece{p})))
	}) {
		ps = entire // its lines depend on each other
	}
	var taken []piece
	for _, p := range ps {
		takes, err := b.takes(c, path, after, p)
		if err != nil {
			return err
		}
		if takes {
			taken = append(taken, p)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	if before == nil && bytes.Equal(b.now[path], after) {
		delete(b.now, path)
		return nil
	}
	moved, ok := carried(taken, gitops.Hunks(string(after), string(b.now[path])))
	if !ok {
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: lines that commit %.9s changed were changed again: revert it by hand", path, c.SHA)}
	}
	b.now[path] = []byte(joined(lines(string(b.now[path])), moved))
	return nil
}

// opaque reports whether a file cannot be read field by field.
func (b *takingBack) opaque(data []byte) bool {
	_, is := flatten("", data, b.target)[wholeFile]
	return is
}

// takes reports whether one piece of a commit's change goes back: it moved fields
// of the target, which still have the values that it gave them.
func (b *takingBack) takes(c gitops.Commit, path string, after []byte, p piece) (bool, error) {
	left := []gitops.File{{Path: path, Data: after}}
	back := []gitops.File{{Path: path, Data: []byte(joined(lines(string(after)), []piece{p}))}}
	all, ours := touches(back, left, gitops.Target{}), touches(back, left, b.target)
	stay := slices.DeleteFunc(slices.Clone(all), func(t gitops.Touch) bool { return slices.Contains(ours, t) && !lasts(t) })
	if IsKustomization(path) && len(stay) == 0 {
		switch own, others := b.images(ours); {
		case own && others:
			return false, inseparable([]string{c.SHA}, "another workload of the same image ("+ours[0].Path+")")
		case others:
			stay = all
		}
	}
	fields, was, now := flatten(path, after, b.target), flatten(path, back[0].Data, b.target), flatten(path, b.now[path], b.target)
	same := func(of map[string]field, at string) bool {
		is, there := now[at]
		f, set := of[at]
		return there == set && is.value == f.value
	}
	if len(all) == len(ours) && !slices.ContainsFunc(ours, func(t gitops.Touch) bool { return !same(was, t.Path) }) {
		return false, nil // no field of the target, or somebody took it back already
	}
	for _, t := range ours {
		switch {
		case lasts(t), same(fields, t.Path):
		case t.Variable == (gitops.Variable{Replicas: true}).String():
			stay = append(stay, t) // scaled since, by whomever
		default:
			return false, changedAgain(c, t, now[t.Path])
		}
	}
	switch {
	case len(stay) > 0 && len(stay) < len(all):
		return false, inseparable([]string{c.SHA}, fmt.Sprintf("%s:%d %s", path, stay[0].Line, stay[0].Path))
	case len(stay) > 0:
		b.stays = append(b.stays, stay...)
		return false, nil
	}
	for _, t := range ours {
		b.want[path+"\x00"+t.Path] = was[t.Path].value
	}
	return len(ours) > 0, nil
}

var ofImage = regexp.MustCompile(`^images\[([^\]]+)\]`)

// images reports whether the target, and whether other workloads, have the images
// that fields of a kustomization are about.
func (b *takingBack) images(of []gitops.Touch) (own, others bool) {
	for _, t := range of {
		m := ofImage.FindStringSubmatch(t.Path)
		if m == nil {
			continue
		}
		uses := func(f field) bool {
			rest, is := strings.CutPrefix(f.value, m[1])
			return is && f.variable == "image" && (rest == "" || rest[0] == ':' || rest[0] == '@')
		}
		for path, data := range b.now {
			if IsKustomization(path) {
				continue
			}
			ours := flatten(path, data, b.target)
			for at, f := range flatten(path, data, gitops.Target{}) {
				_, is := ours[at]
				own, others = own || is && uses(f), others || !is && uses(f)
			}
		}
	}
	return own, others
}

// changedAgain is the error for a field that a commit moved and that has another
// value now.
func changedAgain(c gitops.Commit, t gitops.Touch, now field) error {
	is := shown(now.value)
	if t.From == credential.Redacted || t.To == credential.Redacted {
		is = redacted(is)
	}
	if is == "" {
		is = "not set"
	}
	return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf(
		"%s:%d: commit %.9s set %s to %q, and it was changed again since: it is %s now; revert it by hand", t.File, t.Line, c.SHA, t.Variable, t.To, is)}
}

var inDocument = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*) \S+: `)

// lasting are kinds that a release never takes back: an older credential may be
// revoked, a finished migration is not undone by its manifest, and data stays.
var lasting = []string{"Secret", "SealedSecret", "ExternalSecret", "Job", "CronJob", "PersistentVolumeClaim", "CustomResourceDefinition"}

// lasts reports whether a field is of something that is never taken back.
func lasts(t gitops.Touch) bool {
	m := inDocument.FindStringSubmatch(t.Path)
	return m != nil && slices.Contains(lasting, m[1]) || strings.HasPrefix(t.Path, "secretGenerator[")
}

// piece replaces the lines from up to to (exclusive) of a text.
type piece struct {
	from, to int
	text     []string
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	all := strings.SplitAfter(s, "\n")
	if n := len(all) - 1; all[n] == "" {
		all = all[:n]
	}
	return all
}

// pieces returns the smallest parts of the change from one text to another: single
// lines where as many come as go.
func pieces(from, to string) []piece {
	text := lines(to)
	var out []piece
	for _, h := range gitops.Hunks(from, to) {
		if h.To-h.From != h.NewTo-h.NewFrom {
			out = append(out, piece{h.From, h.To, text[h.NewFrom:h.NewTo]})
			continue
		}
		for i := range h.To - h.From {
			out = append(out, piece{h.From + i, h.From + i + 1, text[h.NewFrom+i : h.NewFrom+i+1]})
		}
	}
	return out
}

// joined returns a text with pieces of it replaced. Pieces are in order.
func joined(text []string, ps []piece) string {
	var b strings.Builder
	at := 0
	for _, p := range ps {
		b.WriteString(strings.Join(text[at:p.from], ""))
		b.WriteString(strings.Join(p.text, ""))
		at = p.to
	}
	b.WriteString(strings.Join(text[at:], ""))
	return b.String()
}

// carried returns pieces of a text as pieces of what became of it; false: their
// lines were changed.
func carried(ps []piece, since []gitops.Hunk) ([]piece, bool) {
	var out []piece
	for _, p := range ps {
		shift := 0
		for _, h := range since {
			inside := h.From < p.to && p.from < h.To || p.from < h.From && h.From < p.to || h.From < p.from && p.to < h.To
			if inside {
				return nil, false
			}
			if h.To <= p.from && (p.from < p.to || h.From < p.from) {
				shift = h.NewTo - h.To
			}
		}
		out = append(out, piece{p.from + shift, p.to + shift, p.text})
	}
	return out, true
}

package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Limits of one page of the log.
const (
	pageEntries = 50   // shown
	readEntries = 2000 // looked at, with a filter
	entryChunk  = 200  // read at once
)

// auditData is one page of the log, newest entry first.
type auditData struct {
	auditQuery
	Wrong        string // what is wrong with the query; empty: nothing
	Entries      []Entry
	Size         uint64
	Looked       int    // entries that were looked at for those
	Archived     int    // of those, entries of which only the segment tells whether they are looked for
	Older, Newer string // addresses of the adjacent pages; empty: none
	Newest       string // address of the first page; empty: this is it
	Checkpoint   string
	Unreadable   bool // the log, or the checkpoint
}

func (s *Site) audit(w http.ResponseWriter, r *http.Request, v Visitor) error {
	values := r.URL.Query()
	if values.Has("entry") {
		return s.oneEntry(w, r, v, values.Get("entry"))
	}
	d := auditData{Size: s.o.Log.Size()}
	status := http.StatusOK
	var err error
	if d.auditQuery, err = s.auditQueryOf(values); err != nil {
		status, d.Wrong = http.StatusBadRequest, strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": ")
	}
	p := s.frame(r, v, "Audit log", "audit")
	if r.Method != http.MethodHead {
		if d.Wrong == "" {
			s.fillAudit(&d)
		}
		d.Checkpoint = s.checkpoint(&d.Unreadable)
		p.Main = auditView(p, &d)
	}
	return s.write(w, r, status, p)
}

// checkpoint returns the newest signed checkpoint.
func (s *Site) checkpoint(unreadable *bool) string {
	note, err := s.o.Log.Checkpoint()
	if err != nil {
		s.o.Logger.Error("audit page cannot read the checkpoint", "err", err)
		*unreadable = true
	}
	return string(note)
}

// places are the entries that a query is about, ascending: all of the log, or those of
// one run.
type places struct {
	stream string   // of the run; empty: all of the log
	of     []uint64 // its entries
	size   uint64   // of the log
}

func (p places) len() int {
	if p.stream != "" {
		return len(p.of)
	}
	return int(p.size) //nolint:gosec // entries on a disk
}

func (p places) at(i int) uint64 {
	if p.stream != "" {
		return p.of[i]
	}
	return uint64(i) //nolint:gosec // it counts entries
}

func (s *Site) fillAudit(d *auditData) {
	all := places{size: d.Size}
	if d.runID != "" {
		var err error
		all.stream = "run/" + d.runID
		if all.of, err = s.o.Log.Positions(all.stream); err != nil {
			s.unreadable(d, err)
			return
		}
	}
	end := all.len()
	if d.hasBefore {
		end = sort.Search(end, func(i int) bool { return all.at(i) >= d.before })
	}
	end = s.lastUntil(d, all, end)
	most := readEntries
	if !d.narrow() {
		most = pageEntries
	}
	lowest, done := end, false
	for !done && lowest > 0 && d.Looked < most && len(d.Entries) < pageEntries && !d.Unreadable {
		first := max(0, lowest-min(entryChunk, most-d.Looked))
		lowest, done = s.chunkOf(d, all, first, lowest)
	}
	if lowest > 0 && !done {
		d.Older = d.address(strconv.FormatUint(all.at(lowest), 10))
	}
	switch {
	case !d.hasBefore || d.before >= d.Size:
	case d.narrow():
		d.Newest = d.address("")
	default:
		d.Newer = d.address(strconv.FormatUint(min(d.before+pageEntries, d.Size), 10))
	}
}

// chunkOf takes the entries that are looked for out of a stretch of places, newest first.
// It returns the first place that it looked at; done: everything before is too old.
func (s *Site) chunkOf(d *auditData, all places, first, end int) (lowest int, done bool) {
	entries, err := s.entriesAt(all, first, end)
	if err != nil {
		s.unreadable(d, err)
	}
	for _, e := range slices.Backward(entries) {
		if len(d.Entries) == pageEntries {
			return end, false
		}
		end--
		d.Looked++
		switch {
		case e.archived() && d.narrow():
			d.Archived++
		case !d.since.IsZero() && e.Time.Before(d.since):
			return end, true
		case d.passes(e):
			d.Entries = append(d.Entries, e)
		}
	}
	return first, false
}

func (s *Site) unreadable(d *auditData, err error) {
	s.o.Logger.Error("audit page cannot read the log", "err", err)
	d.Unreadable = true
}

// entriesAt reads the entries of a stretch of places, ascending.
func (s *Site) entriesAt(all places, i, end int) (out []Entry, err error) {
	read := s.o.Log.Entries(all.at(i))
	if all.stream != "" {
		read = s.o.Log.Stream(all.stream, uint64(i)) //nolint:gosec // it counts entries
	}
	for e, err := range read {
		if err != nil {
			return out, err
		}
		if out = append(out, e); len(out) == end-i {
			return out, nil
		}
	}
	return out, fmt.Errorf("the log ends before entry %d", all.at(end-1))
}

// lastUntil returns the end of the entries that are not later than the query wants. Times
// are taken to be in the order of the entries; archived ones are the oldest.
func (s *Site) lastUntil(d *auditData, all places, end int) int {
	if d.until.IsZero() {
		return end
	}
	return sort.Search(end, func(i int) bool {
		one, err := s.entriesAt(all, i, i+1)
		if err != nil {
			s.unreadable(d, err)
			return true
		}
		return one[0].Time.After(d.until)
	})
}

// entryData is one entry with what proves it.
type entryData struct {
	Entry
	Size       uint64
	Leaf       string // its hash in the Merkle tree
	Checkpoint string
	Covers     uint64 // entries that the checkpoint covers
	Unreadable bool
}

func (s *Site) oneEntry(w http.ResponseWriter, r *http.Request, v Visitor, text string) error {
	seq, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return fmt.Errorf("%w: entry: %.64q is not the number of an entry: Audit lists them", ErrInvalid, text)
	}
	d := &entryData{Size: s.o.Log.Size()}
	if seq >= d.Size {
		return fmt.Errorf("%w: the log has no entry %d: it has %d, counted from 0", ErrNotFound, seq, d.Size)
	}
	p := s.frame(r, v, "Entry "+strconv.FormatUint(seq, 10), "audit")
	p.Here = entryAddress(p, seq)
	if r.Method != http.MethodHead {
		all, err := s.entriesAt(places{size: d.Size}, int(seq), int(seq)+1) //nolint:gosec // below the size
		if err == nil {
			d.Entry = all[0]
			d.Leaf, err = s.o.Log.Leaf(seq)
		}
		if err != nil {
			s.o.Logger.Error("audit page cannot read an entry", "entry", seq, "err", err)
			d.Seq, d.Unreadable = seq, true
		}
		d.Checkpoint = s.checkpoint(&d.Unreadable)
		d.Covers, err = coverage(d.Checkpoint)
		d.Unreadable = d.Unreadable || err != nil
		p.Main = entryPageView(p, d)
	}
	return s.write(w, r, http.StatusOK, p)
}

// coverage returns how many entries a checkpoint covers: its second line.
func coverage(note string) (uint64, error) {
	lines := strings.SplitN(note, "\n", 3)
	if len(lines) < 3 {
		return 0, errors.New("a checkpoint of less than three lines")
	}
	return strconv.ParseUint(lines[1], 10, 63)
}

func entryAddress(p page, seq uint64) string {
	return p.Root + "audit?" + url.Values{"entry": {strconv.FormatUint(seq, 10)}}.Encode()
}

// table serves a page that is one table.
func (s *Site) table(w http.ResponseWriter, r *http.Request, v Visitor, t TablePage) error {
	p := s.frame(r, v, t.Title, t.Path)
	if r.Method != http.MethodHead {
		d, err := t.Table()
		if err != nil {
			return err
		}
		p.Main = tableView(p, t.Title, d)
	}
	return s.write(w, r, http.StatusOK, p)
}

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Limits of one page of the log.
const (
	pageEntries = 50   // shown
	readEntries = 2000 // looked at, with a filter
	entryChunk  = 200  // read at once

	readBytes  = 8 << 20 // of the entries that are looked at
	chunkBytes = 1 << 20 // of those that are read at once, but for a single one

	pagesAtOnce = 2               // that read the log
	pageWait    = 5 * time.Second // for one of them to end
)

// auditData is one page of the log, newest entry first.
type auditData struct {
	auditQuery
	Wrong        string // what is wrong with the query; empty: nothing
	Entries      []Entry
	Size         uint64
	Looked       int    // entries that were looked at for those
	bytes        int    // that were read for them
	Archived     int    // of those, entries of which only the segment tells whether they are looked for
	Older, Newer string // addresses of the adjacent pages; empty: none
	Newest       string // address of the first page; empty: this is it
	Checkpoint   string
	Unreadable   bool // the log, or the checkpoint
	Verifying    verifyingState
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
			if !s.inTurn(w, r, "the audit log", func() { s.fillAudit(r.Context(), &d) }) {
				return nil
			}
		}
		d.Checkpoint, d.Verifying = s.checkpoint(&d.Unreadable), s.verifying.now()
		p.Main = auditView(p, &d)
	}
	return s.write(w, r, status, p)
}

// inTurn reads much of the log, for few pages at the same time. Where it takes too long until
// the others have ended, it answers that and returns false.
func (s *Site) inTurn(w http.ResponseWriter, r *http.Request, what string, read func()) bool {
	done := s.turn(r.Context())
	if done == nil {
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Refresh", "5") // a page that is open loads itself again
		s.Problem(w, r, Problem{Status: http.StatusServiceUnavailable, Message: "Too many people look through " + what + " at the moment.", Hint: "Try again in a few seconds."})
		return false
	}
	defer done()
	read()
	return true
}

// turn waits until few other pages read the log. It returns what ends the turn; nil: it
// took too long, or the reader left.
func (s *Site) turn(ctx context.Context) (done func()) {
	ctx, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }
	case <-ctx.Done():
		return nil
	}
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

func (s *Site) fillAudit(ctx context.Context, d *auditData) {
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
	lowest, done, chunk := end, false, entryChunk
	for !done && lowest > 0 && d.Looked < most && (d.Looked == 0 || d.bytes < readBytes) && len(d.Entries) < pageEntries && !d.Unreadable && ctx.Err() == nil {
		first := max(0, lowest-min(chunk, most-d.Looked))
		before := d.bytes
		lowest, done = s.chunkOf(d, all, first, lowest)
		switch read := d.bytes - before; {
		case lowest > first: // its entries are large
			chunk = 1
		case read < chunkBytes/4:
			chunk = min(2*chunk, entryChunk)
		}
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
// It returns the first place that it looked at, end if the entries are too large to be read
// at once; done: everything before is too old.
func (s *Site) chunkOf(d *auditData, all places, first, end int) (lowest int, done bool) {
	entries, read, err := s.entriesAt(all, first, end, d.readsKind)
	d.bytes += read
	if errors.Is(err, errLarge) {
		return end, false
	}
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

// errLarge reports that entries are too large to be read at once.
var errLarge = errors.New("the entries are large")

// entriesAt reads the entries of a stretch of places, ascending, and returns how many bytes
// it read for them. Of kinds that are not read it returns what needs no reading.
func (s *Site) entriesAt(all places, i, end int, kinds func(kind string) bool) (out []Entry, bytes int, err error) {
	read := s.o.Log.Entries(all.at(i), kinds)
	if all.stream != "" {
		read = s.o.Log.Stream(all.stream, uint64(i), kinds) //nolint:gosec // it counts entries
	}
	for e, err := range read {
		if err != nil {
			return out, bytes, err
		}
		bytes += e.Bytes
		if end-i > 1 && bytes > chunkBytes {
			return nil, bytes, errLarge
		}
		if out = append(out, e); len(out) == end-i {
			return out, bytes, nil
		}
	}
	return out, bytes, fmt.Errorf("the log ends before entry %d", all.at(end-1))
}

// lastUntil returns the end of the entries that are not later than the query wants. Times
// are taken to be in the order of the entries; archived ones are the oldest.
func (s *Site) lastUntil(d *auditData, all places, end int) int {
	if d.until.IsZero() {
		return end
	}
	return sort.Search(end, func(i int) bool {
		one, _, err := s.entriesAt(all, i, i+1, func(string) bool { return false })
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
		all, _, err := s.entriesAt(places{size: d.Size}, int(seq), int(seq)+1, func(string) bool { return true }) //nolint:gosec // below the size
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

package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// pageEntries is the number of entries on one page of the log.
const pageEntries = 50

// auditData is one page of the log, newest entry first.
type auditData struct {
	Entries      []Entry
	Size         uint64
	Older, Newer string // before= of the adjacent pages; empty: none
	Checkpoint   string
	Unreadable   bool // the log, or the checkpoint
}

func (s *Site) audit(w http.ResponseWriter, r *http.Request, v Visitor) error {
	d := auditData{Size: s.o.Log.Size()}
	before := d.Size
	if n, err := strconv.ParseUint(r.URL.Query().Get("before"), 10, 63); err == nil {
		before = min(n, d.Size)
	}
	p := s.frame(r, v, "Audit log", "audit")
	if r.Method != http.MethodHead {
		s.fillAudit(&d, before)
		p.Main = auditView(p, &d)
	}
	return s.write(w, r, http.StatusOK, p)
}

func (s *Site) fillAudit(d *auditData, before uint64) {
	from := before - min(before, pageEntries)
	for e, err := range s.o.Log.Entries(from) {
		if err != nil {
			s.o.Logger.Error("audit page cannot read the log", "err", err)
			d.Unreadable = true
			break
		}
		if e.Seq >= before {
			break
		}
		d.Entries = append(d.Entries, e)
	}
	slices.Reverse(d.Entries)
	if from > 0 {
		d.Older = fmt.Sprint(from)
	}
	if before < d.Size {
		d.Newer = fmt.Sprint(min(before+pageEntries, d.Size))
	}
	note, err := s.o.Log.Checkpoint()
	if err != nil {
		s.o.Logger.Error("audit page cannot read the checkpoint", "err", err)
		d.Unreadable = true
	}
	d.Checkpoint = string(note)
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

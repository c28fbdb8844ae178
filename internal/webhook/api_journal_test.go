package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

func TestJournal(t *testing.T) {
	o := options(t, newHouse())
	s := mustNew(t, o)
	if got := get[api.JournalStatus](t, s, "/api/v1/journal"); got.Entries != 7 {
		t.Errorf("%+v", got)
	}
	archive := func(body string) api.JournalArchive {
		return decoded[api.JournalArchive](t, ask(s, http.MethodPost, "/api/v1/journal/archive", adminToken, strings.NewReader(body)))
	}
	for body, want := range map[string]string{"": "false 0", "{}": "false 0", `{"dryRun": true, "from": 5}`: "true 5"} {
		if got := archive(body); got.Waits != want {
			t.Errorf("%s: %+v", body, got)
		}
	}
	// Whoever may archive must know why it failed.
	o = options(t, newHouse())
	o.Journal = fakeJournal{errors.New("no space left")}
	w := ask(mustNew(t, o), http.MethodPost, "/api/v1/journal/archive", adminToken, strings.NewReader("{}"))
	if p := problemIn(t, w); w.Code != http.StatusServiceUnavailable || p.Code != "archive_failed" || p.Message != "no space left" {
		t.Errorf("%d %+v", w.Code, p)
	}
}

// archivedViews has runs in the archive alone.
type archivedViews struct{ *fakeHouse }

func (archivedViews) Run(string) (machine.State, bool) { return machine.State{}, false }

func (archivedViews) Events(id string, _ uint64) ([]machine.Event, error) {
	return nil, fmt.Errorf("run %s is %w in segment s", id, ErrArchived)
}

// An archived run is gone from here, and the answer says where it is.
func TestArchivedRun(t *testing.T) {
	o := options(t, newHouse())
	o.Views = archivedViews{newHouse()}
	s := mustNew(t, o)
	for _, path := range []string{"/api/v1/runs/r-1", "/api/v1/runs/r-1/events"} {
		w := ask(s, http.MethodGet, path, readToken, nil)
		if p := problemIn(t, w); w.Code != http.StatusGone || p.Code != "archived" || !strings.Contains(p.Message, "in segment s") {
			t.Errorf("%s: %d %+v", path, w.Code, p)
		}
	}
}

// TestAuditLooksAtFewBytes: a filter that finds nothing does not read the whole log at once.
func TestAuditLooksAtFewBytes(t *testing.T) {
	h := newHouse()
	for i := range 30 {
		h.entries = append(h.entries, api.Entry{Seq: uint64(i), Kind: "a", Data: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)})
	}
	h.entries = append(h.entries, api.Entry{Seq: 30, Kind: "b"})
	s := mustNew(t, options(t, h))
	page, pages := get[api.AuditPage](t, s, "/api/v1/audit?kind=b"), 1
	if !page.More || page.Next != 8 {
		t.Errorf("the first page looks at %d entries of a mebibyte", page.Next)
	}
	for ; page.More; pages++ {
		page = get[api.AuditPage](t, s, fmt.Sprintf("/api/v1/audit?kind=b&from=%d", page.Next))
	}
	if len(page.Entries) != 1 || pages != 4 {
		t.Errorf("%d entries on the last of %d pages", len(page.Entries), pages)
	}
}

// Whether an archived entry is of a stream or kind is not known here: it is counted.
func TestArchivedEntries(t *testing.T) {
	h := newHouse()
	h.entries = []api.Entry{{Seq: 0, Archived: "s"}, {Seq: 1, Stream: "control", Kind: "a"}, {Seq: 2, Archived: "s"}}
	s := mustNew(t, options(t, h))
	if page := get[api.AuditPage](t, s, "/api/v1/audit"); len(page.Entries) != 3 || page.Archived != 0 {
		t.Errorf("%+v", page)
	}
	if page := get[api.AuditPage](t, s, "/api/v1/audit?stream=control"); len(page.Entries) != 1 || page.Archived != 2 || page.Next != 3 {
		t.Errorf("%+v", page)
	}
}

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

const (
	chatRun  = "r-00VHNCZB00N00H1NY9WZ9Q4QAJ"
	otherRun = "r-00VHNCZB01N00H1NY9WZ9Q4QAK"
)

// logged is a log of n entries, one a minute, the last a minute ago. Every tenth is of
// chatRun, every hundredth a decision of ada's; the first ten are archived.
func logged(n int) *house {
	h := &house{note: "responder/1\n" + fmt.Sprint(n) + "\nroot=\n\n— sig\n"}
	for i := range n {
		e := Entry{Seq: uint64(i), Time: now.Add(-time.Duration(n-i) * time.Minute), Stream: "run/" + otherRun, Kind: "sampled", What: fmt.Sprint("sample ", i)}
		if i%10 == 0 {
			e.Stream, e.Kind = "run/"+chatRun, "check.completed"
		}
		if i%100 == 50 {
			e.Kind, e.By = "gate.decided", "user:ada"
		}
		if i < 10 {
			e = Entry{Seq: uint64(i), What: "archived in segment s-1"}
		}
		h.entries = append(h.entries, e)
	}
	for _, id := range []string{otherRun, chatRun} {
		h.add(machine.State{Start: machine.Start{Run: id}, Phase: machine.PhaseEnded, Ending: &machine.Ending{Outcome: machine.OutcomeResolved}})
	}
	return h
}

func TestAuditPage(t *testing.T) {
	h := logged(30)
	h.entries[20].What, h.entries[20].Kind = "<script>alert(1)</script>", `"><i>`
	s := site(t, h)
	golden(t, "audit", look(t, s, reader, http.MethodGet, "/audit?run="+chatRun[:16]+"J").Body.String())
	golden(t, "audit_search", look(t, s, reader, http.MethodGet, "/audit?run="+chatRun+"&since=2h").Body.String())
	golden(t, "audit_wrong", look(t, s, reader, http.MethodGet, `/audit?person=%22%3E%3Ci%3E&since=soon&kind=gate`).Body.String())
	golden(t, "audit_entry", look(t, s, reader, http.MethodGet, "/audit?entry=20").Body.String())
}

// allOf follows Older to the end, and returns the entries of all pages.
func allOf(t *testing.T, s *Site, path string) (found []string, pages int) {
	t.Helper()
	for path != "" && pages < 250 {
		pages++
		w := look(t, s, ada, http.MethodGet, path)
		body := w.Body.String()
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
		for _, part := range strings.Split(body, `audit?entry=`)[1:] {
			seq, _, _ := strings.Cut(part, `"`)
			found = append(found, seq)
		}
		path = ""
		if before, _, ok := strings.Cut(body, `">Older<`); ok {
			path = "/audit" + strings.ReplaceAll(before[strings.LastIndex(before, `"`)+1:], "&amp;", "&")
		}
	}
	return found, pages
}

// Every filter finds all that it is for, newest first, each once, over all pages.
func TestAuditFilters(t *testing.T) {
	s := site(t, logged(10_000))
	for query, want := range map[string]struct {
		n           int
		first, last string
	}{
		"":                                {10_000, "9999", "0"},
		"run=" + chatRun:                  {999, "9990", "10"},
		"run=" + strings.ToLower(chatRun): {999, "9990", "10"},
		"run=r-00VHNCZB00":                {999, "9990", "10"},
		"person=ADA":                      {100, "9950", "50"},
		"kind=gate.":                      {100, "9950", "50"},
		"kind=gate&run=" + otherRun:       {0, "", ""},
		"person=eve":                      {0, "", ""},
		"since=60m":                       {60, "9999", "9940"},
		"since=2h&until=40m&person=user:": {1, "9950", "9950"},
	} {
		found, pages := allOf(t, s, "/audit?"+query)
		first, last := "", ""
		if len(found) > 0 {
			first, last = found[0], found[len(found)-1]
		}
		if len(found) != want.n || first != want.first || last != want.last {
			t.Errorf("%s: %d entries from %s to %s on %d pages, want %+v", query, len(found), first, last, pages, want)
		}
		seen := map[string]bool{}
		for _, seq := range found {
			if seen[seq] {
				t.Errorf("%s: entry %s is shown twice", query, seq)
			}
			seen[seq] = true
		}
	}
}

func TestAuditTimes(t *testing.T) {
	s := site(t, logged(10_000)) // from 2026-11-15 01:30 on
	for query, first := range map[string]string{
		"until=2026-11-15":                  "1349", // 23:59
		"until=2026-11-15 12:00":            "630",
		"until=2026-11-15T12:00:00Z":        "630",
		"until=2026-11-15T13:00:00%2B01:00": "630",
		"until=2020-01-01":                  "",
	} {
		body := look(t, s, ada, http.MethodGet, "/audit?"+strings.ReplaceAll(query, " ", "+")).Body.String()
		got := ""
		if _, rest, ok := strings.Cut(body, "audit?entry="); ok {
			got, _, _ = strings.Cut(rest, `"`)
		}
		if got != first {
			t.Errorf("%s begins with entry %q, want %q", query, got, first)
		}
	}
}

// One page reads a bounded part of a long log, whatever it looks for.
func TestAuditReadsLittle(t *testing.T) {
	h := logged(10_000)
	s := site(t, h)
	for _, query := range []string{"", "person=nobody", "kind=gate", "run=" + chatRun, "run=" + chatRun + "&kind=none", "since=2026-01-01&person=nobody", "until=2026-11-18&person=nobody"} {
		h.read = 0
		look(t, s, ada, http.MethodGet, "/audit?"+query)
		if h.read > readEntries+100 {
			t.Errorf("%s: %d entries are read", query, h.read)
		}
	}
	body := look(t, s, ada, http.MethodGet, "/audit?person=nobody").Body.String()
	if !strings.Contains(body, "0 of 2000 entries that were looked at. Older looks further back.") {
		t.Error("the page does not say how far it looked")
	}
	if body := look(t, s, ada, http.MethodGet, "/audit?person=nobody&before=1000").Body.String(); !strings.Contains(body, "10 entries of those are archived") || !strings.Contains(body, "0 of 1000 entries") {
		t.Error("the page does not say that archived entries are not searched")
	}
}

// A page reads a bounded part of a log of large entries, and goes on where it stopped.
func TestAuditReadsFewBytes(t *testing.T) {
	h := logged(100)
	for i := range h.entries {
		h.entries[i].Bytes = 3 << 20
	}
	s := site(t, h)
	for query, want := range map[string]int{"kind=zzz": 0, "person=ada": 1, "since=2020-01-01&kind=sampled": 81, "": 100} {
		path := "/audit?" + query
		found, pages := allOf(t, s, path)
		if len(found) != want || pages < 20 {
			t.Errorf("%q finds %d entries on %d pages, want %d", query, len(found), pages, want)
		}
		h.bytes = 0
		if look(t, s, ada, http.MethodGet, path); h.bytes > readBytes+4*chunkBytes+2*(3<<20) {
			t.Errorf("%q reads %d MiB", query, h.bytes>>20)
		}
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	h.bytes = 0
	r := httptest.NewRequestWithContext(left, http.MethodGet, "/audit?kind=zzz", nil)
	if _ = s.Page(httptest.NewRecorder(), r, ada); h.bytes > 0 {
		t.Errorf("%d MiB are read for somebody who left", h.bytes>>20)
	}
}

// Few pages read the log at once. The others wait, and then say so.
func TestAuditTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := logged(100)
		h.hold = make(chan struct{})
		s := site(t, h)
		answers := make(chan *httptest.ResponseRecorder, pagesAtOnce)
		for range pagesAtOnce {
			go func() { answers <- look(t, s, ada, http.MethodGet, "/audit") }()
		}
		synctest.Wait()
		w := look(t, s, ada, http.MethodGet, "/audit")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "Too many people look through the audit log") {
			t.Errorf("one page too many is answered %d", w.Code)
		}
		close(h.hold)
		for range pagesAtOnce {
			if w := <-answers; w.Code != http.StatusOK {
				t.Errorf("answered %d", w.Code)
			}
		}
		if w := look(t, s, ada, http.MethodGet, "/audit"); w.Code != http.StatusOK {
			t.Errorf("afterwards answered %d", w.Code)
		}
	})
}

// Wrong input is a message beside what was typed, and reads nothing.
func TestAuditWrongInput(t *testing.T) {
	h := logged(100)
	s := site(t, h)
	for query, want := range map[string]string{
		"since=soon&person=ada":                            "since: &#34;soon&#34; is no time",
		"until=2026-13-01&person=ada":                      "until: &#34;2026-13-01&#34; is no time",
		"since=1h&until=2h&person=ada":                     "is before since",
		"run=chat&person=ada":                              "is not the beginning of a run&#39;s name",
		"run=r-00&person=ada":                              "begins the names of several runs, such as " + otherRun,
		"run=r-ZZ&person=ada":                              "no run&#39;s name begins with",
		"before=x&person=ada":                              "before: &#34;x&#34; is not the number of an entry",
		"kind=" + strings.Repeat("x", 301) + "&person=ada": "kind: 301 characters are too many",
	} {
		h.read = 0
		w := look(t, s, ada, http.MethodGet, "/audit?"+query)
		if body := w.Body.String(); w.Code != http.StatusBadRequest || !strings.Contains(body, want) || !strings.Contains(body, `name="person" value="ada"`) || h.read > 0 {
			t.Errorf("%.60s: %d, read %d", query, w.Code, h.read)
		}
	}
}

// An entry's page shows what proves it, and nothing that is not known.
func TestAuditEntry(t *testing.T) {
	h := logged(100)
	s := site(t, h)
	body := look(t, s, ada, http.MethodGet, "/audit?entry=50").Body.String()
	for _, want := range []string{"user:ada", "leaf-50=", "over entries 0 to 99", "responder audit show 50 --file", "?entry=49", "?entry=51", "— sig", "run/" + chatRun} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if body := look(t, s, ada, http.MethodGet, "/audit?entry=3").Body.String(); !strings.Contains(body, "archived in segment s-1") || !strings.Contains(body, "leaf-3=") || strings.Contains(body, "as JSON") {
		t.Error("an archived entry lacks its segment or its hash")
	}
	h.note = "responder/1\n50\nroot=\n\n— sig\n"
	if body := look(t, s, ada, http.MethodGet, "/audit?entry=50").Body.String(); !strings.Contains(body, "not covered") {
		t.Error("an entry after the checkpoint looks covered")
	}
	for _, note := range []string{"", "nonsense", "responder/1\nmany\nroot=\n"} {
		h.note = note
		if body := look(t, s, ada, http.MethodGet, "/audit?entry=0").Body.String(); !strings.Contains(body, "not covered") || !strings.Contains(body, "cannot be read") {
			t.Errorf("with the checkpoint %q the entry looks covered", note)
		}
	}
	for text, want := range map[string]error{"100": ErrNotFound, "x": ErrInvalid, "-1": ErrInvalid, "": ErrInvalid, "99999999999999999999": ErrInvalid} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/audit?"+url.Values{"entry": {text}}.Encode(), http.NoBody)
		if err := s.Page(w, r, ada); !errors.Is(err, want) || w.Body.Len() > 0 {
			t.Errorf("entry %q: %v", text, err)
		}
	}
}

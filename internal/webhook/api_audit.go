package webhook

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
)

// Bounds on one page of the audit log: a filter that matches little must not
// read the whole log in one request, nor a page of large entries fill memory.
const (
	maxScan  = 50_000  // entries looked at
	maxBytes = 8 << 20 // of them
)

// auditEntries lists entries from from= on: at most limit=, of stream= (or of
// every stream below it when it ends in /) and of kind=. A page can be empty
// although more follow.
func (s *Server) auditEntries(c echo.Context, _ Identity) error {
	if s.o.Log == nil {
		return ErrNotFound
	}
	limit, err := limit(c)
	if err != nil {
		return err
	}
	from, err := number(c, "from", 0)
	if err != nil {
		return err
	}
	streamName, kind := c.QueryParam("stream"), c.QueryParam("kind")
	page := api.AuditPage{Entries: []api.Entry{}, Next: from}
	seen, size := 0, 0
	for e, err := range s.o.Log.Entries(from) {
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		if len(page.Entries) == limit || seen == maxScan || size > maxBytes {
			page.More = true
			break
		}
		if err := c.Request().Context().Err(); err != nil {
			return err
		}
		page.Next = e.Seq + 1
		seen, size = seen+1, size+len(e.Data)
		if e.Archived != "" && (streamName != "" || kind != "") {
			page.Archived++
			continue
		}
		if inStream(e.Stream, streamName) && (kind == "" || kind == e.Kind) {
			page.Entries = append(page.Entries, e)
		}
	}
	return reply(c, page)
}

func inStream(stream, want string) bool {
	return want == "" || stream == want || strings.HasSuffix(want, "/") && strings.HasPrefix(stream, want)
}

// auditCheckpoint answers with the latest signed checkpoint, as a signed note.
func (s *Server) auditCheckpoint(c echo.Context, _ Identity) error {
	if s.o.Log == nil {
		return ErrNotFound
	}
	note, err := s.o.Log.Checkpoint()
	if err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	if len(note) == 0 {
		return problem(http.StatusNotFound, "not_found", "no checkpoint has been signed yet", "checkpoints are signed every minute while entries come in")
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", note)
}

// auditExport streams a consistent copy of the whole journal.
func (s *Server) auditExport(c echo.Context, _ Identity) error {
	if s.o.Log == nil {
		return ErrNotFound
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="journal.db"`)
	out, err := s.stream(c, echo.MIMEOctetStream)
	if err != nil {
		return err
	}
	defer out.close()
	if err := s.o.Log.Snapshot(out); err != nil {
		return out.abort(err)
	}
	return nil
}

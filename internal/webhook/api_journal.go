package webhook

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
)

// Journal is the journal's file and its archive.
type Journal interface {
	// Status returns what is where.
	Status() (api.JournalStatus, error)
	// Archive moves the next stretch into the archive. What fails leaves it where it is,
	// and the error says why, for whoever runs the service.
	Archive(ctx context.Context, q api.JournalArchiveRequest) (api.JournalArchive, error)
}

func (s *Server) journalStatus(c echo.Context, _ Identity) error {
	if s.o.Journal == nil {
		return ErrNotFound
	}
	status, err := s.o.Journal.Status()
	if err != nil {
		return err
	}
	return reply(c, status)
}

// archiveJournal archives one stretch, which has a bounded size.
func (s *Server) archiveJournal(c echo.Context, _ Identity) error {
	if s.o.Journal == nil {
		return ErrNotFound
	}
	var q api.JournalArchiveRequest
	if err := decodeRequest(c, &q, new(string)); err != nil {
		return err
	}
	// A slow disk may need longer than an answer's time limit.
	if err := unlimit(c); err != nil {
		return err
	}
	done, err := s.o.Journal.Archive(c.Request().Context(), q)
	if err != nil {
		return problem(http.StatusServiceUnavailable, "archive_failed", err.Error(), "what was not archived is still in the journal, and it is tried again every hour")
	}
	return reply(c, done)
}

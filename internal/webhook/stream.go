package webhook

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// stream is an answer that may take longer than an answer's time limit. The limit
// holds for each write instead.
type stream struct {
	server  *Server
	c       echo.Context
	control *http.ResponseController
}

// stream begins an answer of the given media type. The number of
// streams is bounded; more are refused with 503.
func (s *Server) stream(c echo.Context, mediaType string) (*stream, error) {
	select {
	case s.streams <- struct{}{}:
	default:
		return nil, ErrBusy
	}
	st := &stream{server: s, c: c, control: http.NewResponseController(c.Response())}
	// Without a limit on reading, or the connection's background read would
	// end the request's context when it passes.
	if err := st.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		st.close()
		return nil, err
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.Response().WriteHeader(http.StatusOK)
	return st, nil
}

// Write writes b. The peer has the time limit of one answer to read it.
func (st *stream) Write(b []byte) (int, error) {
	if err := st.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return st.c.Response().Write(b)
}

func (st *stream) flush() error { return st.control.Flush() }

// abort ends the connection, so that the peer does not take what it has for
// everything there is.
func (st *stream) abort(err error) error {
	st.server.log.Debug("stream ended early", "route", st.c.Path(), "err", err)
	panic(http.ErrAbortHandler)
}

func (st *stream) close() { <-st.server.streams }

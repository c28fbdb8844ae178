package webhook

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/playbook"
)

// intake takes one notification in: bound, read, decode, check, admit.
func (s *Server) intake(c echo.Context, id Identity) error {
	r := c.Request()
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return problem(http.StatusUnsupportedMediaType, "content_encoding", "compressed bodies are not accepted", "send the body as it is")
	}
	if s.o.Room != nil { // before anything is read
		if err := s.o.Room(); err != nil {
			return s.admitProblem(err)
		}
	}
	if s.quotas.spent(id.Name, r.ContentLength, time.Now()) {
		return s.overQuota(id.Name)
	}
	if err := s.withinShare(c, id.Name, 1, max(0, r.ContentLength)); err != nil {
		return err
	}
	b, err := s.bodies.read(r, id.Name)
	defer b.release()
	if err != nil {
		return s.readProblem(err, id.Name)
	}
	// From here on the sender may close, but is not slow any more.
	_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Time{}) // unsupported in tests without a connection
	n, err := Decode(b.buf, s.o.DropLabels)
	if err != nil {
		return err
	}
	if err := s.withinShare(c, id.Name, int64(len(n.Alerts)), int64(len(b.buf))); err != nil {
		return err
	}
	if !s.quotas.take(id.Name, len(n.Alerts), len(b.buf), time.Now()) {
		return s.overQuota(id.Name)
	}
	s.withinQuota(id.Name)
	b.drop()
	n.Sender, n.ReceivedAt = id.Name, s.o.Now().UTC()
	stored, err := s.o.Intake.Admit(r.Context(), n)
	if err != nil {
		return s.admitProblem(err)
	}
	s.stores(id.Name, len(n.Alerts), stored)
	s.accepted(n)
	return c.NoContent(http.StatusOK)
}

// readProblem returns the answer for a body that could not be read completely. A slow
// sender gets 503: Alertmanager then tries again at once.
func (s *Server) readProblem(err error, sender string) error {
	switch {
	case errors.Is(err, errTooLarge):
		return problem(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than "+strconv.FormatInt(s.o.MaxBody, 10)+" bytes",
			"group alerts by more labels, or raise receiver.max_body")
	case errors.Is(err, errShed):
		s.crowded(sender)
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem(http.StatusServiceUnavailable, "slow", "the body did not arrive within "+s.o.SlowTimeout.String(), "try again")
	default:
		return problem(http.StatusBadRequest, "incomplete", "the body ended early", "")
	}
}

// crowded tells the log whose notification was refused, and which sender holds most of what
// is being read. It is told of one that holds most once in ten minutes.
func (s *Server) crowded(refused string) {
	name, bytes, reading := s.bodies.flying.largest()
	if s.quotas.crowds(name, time.Now()) {
		s.log.Warn("notifications are refused: too many are being read or admitted; one sender gets half of receiver.max_in_flight and of the connections at most; "+
			"see whether the one that holds most has a storm of alerts, sends slowly, or has lost its credential; else raise receiver.max_in_flight",
			"sender", refused, "holds_most", name, "bytes", bytes, "reading", reading)
	}
}

// admitProblem makes every refusal of the journal one that is tried again. The
// log is told when refusing begins and why, not about each of thousands.
func (s *Server) admitProblem(err error) error {
	p := problemOf(err)
	if p.status != http.StatusServiceUnavailable {
		p = problemOf(ErrUnavailable)
	}
	if p.Code == "interrupted" || p.Code == codeIssuer {
		return p // the sender's doing
	}
	if was := s.refusing.Swap(p); was == nil || was.Code != p.Code {
		s.log.Warn("notifications are refused", "reason", p.Code, "err", err)
	}
	return p
}

// accepted counts what was admitted.
func (s *Server) accepted(n playbook.Notification) {
	if s.refusing.Load() != nil && s.refusing.Swap(nil) != nil {
		s.log.Info("notifications are accepted again")
	}
	firing := 0
	for i := range n.Alerts {
		if n.Alerts[i].Status == playbook.Firing {
			firing++
		}
	}
	s.metrics.notifications.WithLabelValues("accepted").Inc()
	s.metrics.alerts.WithLabelValues(string(playbook.Firing)).Add(float64(firing))
	s.metrics.alerts.WithLabelValues(string(playbook.Resolved)).Add(float64(len(n.Alerts) - firing))
	s.metrics.truncated.Add(float64(n.TruncatedAlerts))
	s.metrics.lastSuccess.SetToCurrentTime()
}

// resultOf is the metric label of a refused notification.
func resultOf(p *Problem) string {
	switch p.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return "unauthorized"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return "invalid"
	case http.StatusServiceUnavailable:
		if p.Code == "interrupted" || p.Code == codeIssuer {
			return "unavailable"
		}
		return p.Code // busy, quota, memory, disk, paused, unavailable, slow
	default:
		return "failed"
	}
}

package slacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// conn is one Socket Mode connection.
type conn struct {
	ws    *websocket.Conn
	write sync.Mutex // the library wants one writer at a time
}

func (c *conn) send(v any) error {
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	return c.ws.WriteJSON(v)
}

// envelope is one delivery over Socket Mode.
type envelope struct {
	id       string
	payload  json.RawMessage
	attempts int
	acks     int
	answer   json.RawMessage // of the first acknowledgement
	acked    chan struct{}
}

// serveLink serves the WebSocket that apps.connections.open names. Its ticket
// is valid once.
func (s *Server) serveLink(w http.ResponseWriter, r *http.Request) {
	ticket := r.URL.Query().Get("ticket")
	s.mu.Lock()
	good := s.tickets[ticket] && !s.outage
	delete(s.tickets, ticket)
	s.mu.Unlock()
	if !good {
		http.Error(w, "bad ticket", http.StatusForbidden)
		return
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &conn{ws: ws}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.opened++
	n := len(s.conns)
	hello := map[string]any{
		"type": "hello", "num_connections": n, "connection_info": map[string]any{"app_id": s.o.AppID},
		"debug_info": map[string]any{"host": "applink-test", "build_number": 1, "approximate_connection_time": 18060},
	}
	s.tell()
	s.mu.Unlock()
	defer s.closed(c)
	if c.send(hello) != nil {
		return
	}
	done := make(chan struct{})
	defer close(done)
	go s.ping(c, done)
	for {
		var ack struct {
			EnvelopeID string          `json:"envelope_id"`
			Payload    json.RawMessage `json:"payload"`
		}
		if err := ws.ReadJSON(&ack); err != nil {
			return
		}
		s.ack(ack.EnvelopeID, ack.Payload)
	}
}

// ping keeps the client from treating the connection as dead.
func (s *Server) ping(c *conn, done chan struct{}) {
	for {
		c.write.Lock()
		err := c.ws.WriteControl(websocket.PingMessage, []byte("Ping from applink-test"), time.Now().Add(time.Second))
		c.write.Unlock()
		if err != nil {
			return
		}
		select {
		case <-done:
			return
		case <-time.After(s.o.PingEvery):
		}
	}
}

func (s *Server) closed(c *conn) {
	_ = c.ws.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(x *conn) bool { return x == c })
	s.tell()
}

func (s *Server) ack(id string, answer json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.envelopes {
		if e.id != id {
			continue
		}
		if e.acks++; e.acks == 1 {
			e.answer = answer
			close(e.acked)
		}
		s.tell()
		return
	}
	s.violate("acknowledged envelope %q, which there is not", id)
}

// Connections returns the number of Socket Mode connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Opened returns how many Socket Mode connections were ever opened.
func (s *Server) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Drop ends every connection without a close message.
func (s *Server) Drop() {
	s.mu.Lock()
	conns := slices.Clone(s.conns)
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.ws.Close()
	}
}

// Disconnect asks every client to reconnect, as Slack does every few hours:
// reason is refresh_requested, warning or link_disabled. The connections stay
// until the client ends them.
func (s *Server) Disconnect(reason string) {
	s.mu.Lock()
	conns := slices.Clone(s.conns)
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.send(map[string]any{"type": "disconnect", "reason": reason, "debug_info": map[string]any{"host": "applink-test"}})
	}
}

// Redeliver sends every unacknowledged envelope again over any connection, as
// Slack does minutes later. It returns their number.
func (s *Server) Redeliver() int {
	s.mu.Lock()
	var again []*envelope
	for _, e := range s.envelopes {
		if e.acks == 0 {
			again = append(again, e)
		}
	}
	s.mu.Unlock()
	for _, e := range again {
		s.transmit(e)
	}
	return len(again)
}

// Repeat sends an envelope again although it was acknowledged, as if the
// acknowledgement was lost.
func (s *Server) Repeat(id string) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.envelopes, func(e *envelope) bool { return e.id == id })
	var e *envelope
	if i >= 0 {
		e = s.envelopes[i]
	}
	s.mu.Unlock()
	if e == nil {
		return fmt.Errorf("no envelope %q", id)
	}
	s.transmit(e)
	return nil
}

// Acknowledged returns how often an envelope was acknowledged.
func (s *Server) Acknowledged(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.envelopes {
		if e.id == id {
			return e.acks
		}
	}
	return 0
}

// transmit sends an envelope over one connection, a different one each time.
func (s *Server) transmit(e *envelope) bool {
	s.mu.Lock()
	e.attempts++
	message := map[string]any{
		"type": "interactive", "envelope_id": e.id, "payload": e.payload, "accepts_response_payload": true,
	}
	if e.attempts > 1 {
		message["retry_attempt"], message["retry_reason"] = e.attempts-1, "timeout"
	}
	var c *conn
	if n := len(s.conns); n > 0 {
		c = s.conns[e.attempts%n]
	}
	s.mu.Unlock()
	return c != nil && c.send(message) == nil
}

// deliver sends an envelope and waits for the acknowledgement, no longer than
// Slack does.
func (s *Server) deliver(payload []byte) Delivery {
	e := &envelope{id: random(16), payload: payload, acked: make(chan struct{})}
	s.mu.Lock()
	s.envelopes = append(s.envelopes, e)
	s.mu.Unlock()
	start := time.Now()
	sent := s.transmit(e)
	d := Delivery{Envelope: e.id}
	timer := time.NewTimer(s.o.AckWithin)
	defer timer.Stop()
	select {
	case <-e.acked:
		d.Acknowledged, d.After = true, time.Since(start)
		d.answer(e.answer)
	case <-timer.C:
		s.mu.Lock()
		if sent {
			s.violate("envelope %s was not acknowledged within %s", e.id, s.o.AckWithin)
		}
		s.mu.Unlock()
		if s.o.RedeliverAfter > 0 {
			time.AfterFunc(s.o.RedeliverAfter, func() { s.Redeliver() })
		}
	}
	return d
}

package webhook

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Whoever does not authenticate keeps no connection, so that connections that are idle
// do not keep out those who do.
func TestOnlyWhoAuthenticatesKeepsAConnection(t *testing.T) {
	o := options(t, newHouse())
	o.Slack = http.NotFoundHandler()
	url := serve(t, mustNew(t, o))
	for path, token := range map[string]string{
		"/healthz": "", "/readyz": "", "/metrics": "", "/nowhere": "", "/api/v1/runs": "", "/api/v1/version": "wrong-token-0123456789",
		"/api/v1/playbooks": readToken, "/api/v1/slack/interactivity": readToken,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if keeps := path == "/api/v1/playbooks"; resp.Close == keeps {
			t.Errorf("%s with %q is answered %d, and keeps the connection: %v", path, token, resp.StatusCode, !resp.Close)
		}
	}
}

// Connections of one address, as many as there may be, keep no other address out: those
// on which nobody authenticates, and idle ones on which somebody did. Nothing but being
// cut ends the latter before the test does.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	const silent, get = "", "GET /api/v1/playbooks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + readToken + "\r\n\r\n"
	for name, c := range map[string]struct {
		sends     string
		opens     int
		addresses int
		stay      int // connections that are open in the end, at least
	}{
		"silent":                       {silent, 512, 1, 16}, // one address has a quarter
		"silent, of several addresses": {silent, 512, 8, 48},
		"idle":                         {get, 64, 1, 63},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, newHouse())
			o.MaxConns = 64
			s := mustNew(t, o)
			url := serve(t, s)
			var idle []*idleConn
			for i := range c.opens {
				idle = append(idle, dialIdle(t, fmt.Sprintf("127.0.0.%d", 2+i%c.addresses), strings.TrimPrefix(url, "http://"), c.sends))
			}
			client := http.Client{Timeout: 3 * time.Second} // Slack's, which is less than a connection may be silent
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(notice(``, ``)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+intakeToken)
			resp, err := client.Do(r)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("Alertmanager: %v, %v", resp, err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			open := 0
			for _, c := range idle {
				if c.open(t) {
					open++
				}
			}
			if open < c.stay || open > o.MaxConns-1 && c.sends != silent {
				t.Errorf("%d of %d connections are open while another address is served", open, len(idle))
			}
			if n := figure(t, s.metrics.cut); c.sends != silent && n != 1 {
				t.Errorf("%v connections were cut", n)
			}
		})
	}
}

// idleConn is a connection that somebody holds.
type idleConn struct {
	net.Conn
	read *bufio.Reader
}

// dialIdle connects from an address, and has what it sends answered.
func dialIdle(t *testing.T, from, to, sends string) *idleConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &idleConn{conn, bufio.NewReader(conn)}
	if sends == "" {
		return c
	}
	if _, err := io.WriteString(conn, sends); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(c.read, nil)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Close {
		t.Fatalf("%v, %v", resp, err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil { // which leaves the connection open
		t.Fatal(err)
	}
	return c
}

// open reports whether the server has not closed a connection.
func (c *idleConn) open(t *testing.T) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := c.read.ReadByte()
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// Requests with two credentials whose bodies do not come, as many as there may be
// connections, do not keep the next one out.
func TestSlowBodiesKeepNobodyOut(t *testing.T) {
	o := options(t, newHouse())
	o.MaxConns = 16
	tokens := []string{intakeToken, "second-token-0123456789", "alertmanager-0123456789"}
	for _, token := range tokens[1:] {
		o.Auth.Tokens = append(o.Auth.Tokens, Token{Grant: Grant{Name: token[:6], Scopes: []Scope{ScopeIntake}}, File: write(t, t.TempDir(), "token", token)})
	}
	url := serve(t, mustNew(t, o))
	for i := range o.MaxConns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+tokens[i%2]+"\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("the body is not waited for: %q, %v", line, err)
		}
	}
	client := http.Client{Timeout: 2 * headTimeout}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(notice(``, ``)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+tokens[2])
	resp, err := client.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("Alertmanager: %v, %v", resp, err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

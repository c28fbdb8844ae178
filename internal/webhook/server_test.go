package webhook

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Slow senders must not hold connections: the bound on them would be reached,
// and notifications would wait.
func TestSlowSendersAreCutOff(t *testing.T) {
	const senders = 1000
	o := options(t, newHouse())
	o.SlowTimeout = 500 * time.Millisecond
	s := mustNew(t, o)
	url := serve(t, s)
	addr := strings.TrimPrefix(url, "http://")
	head := "POST / HTTP/1.1\r\nHost: x\r\n"
	starts := []string{
		head,              // headers that never end
		head + "A: b\r\n", // and dribble
		head + "Authorization: Bearer " + intakeToken + "\r\nContent-Length: 12000\r\n\r\n{",           // a body that never ends
		head + "Authorization: Bearer " + intakeToken + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{", // of no declared length
		head + "Authorization: Bearer wrong\r\nContent-Length: 12000\r\n\r\n",                          // and of someone unknown
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 2 * senders {
		wg.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, starts[i%len(starts)]); err != nil {
				return
			}
			if err := conn.SetReadDeadline(began.Add(time.Minute)); err != nil {
				t.Error(err)
			}
			answer, err := io.ReadAll(conn)
			if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // straight from the connection
				t.Errorf("%q: still open", starts[i%len(starts)])
			}
			if i%len(starts) == 2 && err == nil && len(answer) > 0 && !strings.Contains(string(answer), " 503 ") {
				t.Errorf("a slow body is answered %.60q: Alertmanager would wait a group interval", answer)
			}
		})
	}
	wg.Wait()
	if used := s.bodies.flying.held(); used != 0 {
		t.Errorf("%d bytes stay in flight", used)
	}
	resp, err := http.Get(url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

// A body that arrives bit by bit but in time is fine, and a journal that takes
// longer than a sender may is not the sender's fault.
func TestSlowButInTime(t *testing.T) {
	h := newHouse()
	h.admit = func(ctx context.Context, _ playbook.Notification) error {
		timer := time.NewTimer(4 * time.Second) // twice the senders' limit
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	o := options(t, h)
	o.SlowTimeout = 2 * time.Second
	url := serve(t, mustNew(t, o))
	pieces, feed := io.Pipe()
	go func() {
		for _, c := range notice(``, ``) {
			if _, err := feed.Write([]byte(string(c))); err != nil {
				return
			}
		}
		shut(t, feed)
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, pieces)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+intakeToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}

func TestStoppingFinishesWhatIsUnderWay(t *testing.T) {
	h := newHouse()
	arrived, release := make(chan struct{}), make(chan struct{})
	h.admit = func(ctx context.Context, _ playbook.Notification) error {
		close(arrived)
		<-release
		return ctx.Err()
	}
	s := mustNew(t, options(t, h))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", strings.NewReader(notice(``, ``)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+intakeToken)
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	<-arrived
	stop()
	<-s.stopping
	close(release)
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%d: a notification that was being admitted was cut off", resp.StatusCode)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// The kubelet asks on a listener of its own, which answers nothing else and keeps no
// connection.
func TestProbes(t *testing.T) {
	o := options(t, newHouse())
	o.Ready = func() []string { return []string{"journal: full"} }
	s := mustNew(t, o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeProbes(ctx, ln) }()
	for range 4 * maxProbes { // senders that say nothing
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	client := http.Client{Timeout: time.Second}
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 503, "/metrics": 404, "/": 404, "/api/v1/version": 404, "/api/v1/slack/interactivity": 404,
	} {
		resp, err := client.Get("http://" + ln.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("%s: %d, want %d; closes: %v", path, resp.StatusCode, want, resp.Close)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Senders of Slack's requests who are slow hold nothing that a click needs.
func TestSlowSendersOfClicks(t *testing.T) {
	o := options(t, newHouse())
	o.Slack = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
	})
	url := serve(t, mustNew(t, o))
	const slow = "POST /api/v1/slack/interactivity HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx"
	for range 70 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, slow); err != nil {
			t.Fatal(err)
		}
	}
	client := http.Client{Timeout: 2 * headTimeout} // as long as Slack waits
	resp, err := client.Post(url+"/api/v1/slack/interactivity", "application/x-www-form-urlencoded", strings.NewReader("payload=x"))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("a click beside 70 slow ones: %v, %v", resp, err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	h := newHouse()
	arrived, release := make(chan struct{}), make(chan struct{})
	h.admit = func(context.Context, playbook.Notification) error {
		arrived <- struct{}{}
		<-release
		return nil
	}
	o := options(t, h)
	o.MaxConns = 1
	url := serve(t, mustNew(t, o))
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		body := notice(``, ``)
		if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", intakeToken, len(body), body); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := dial()
	<-arrived // it has authenticated, and is not idle
	second := dial()
	if err := second.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := second.Read(make([]byte, 1)); err == nil {
		t.Errorf("a second connection was served %d bytes beside the only one allowed", n)
	}
	release <- struct{}{}
	if _, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil { //nolint:bodyclose // the connection is closed whole
		t.Fatal(err)
	}
	<-arrived // the first is idle, and makes room
	release <- struct{}{}
	if err := second.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(second), nil); err != nil { //nolint:bodyclose // the connection is closed whole
		t.Errorf("not served when the first was idle: %v", err)
	}
}

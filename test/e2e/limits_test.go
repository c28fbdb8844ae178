//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// A responder with nothing to do costs next to nothing.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := loadService(t, 1)
	const settled, window = 5 * time.Second, 15 * time.Second // seconds after its start it frees what that left
	start := time.Now()
	rig.Await(t, 2*window, "the end of its start", func(context.Context) (bool, string) {
		return time.Since(start) >= settled, ""
	})
	before := s.CPU(t)
	start = time.Now()
	rig.Await(t, 2*window, "an idle quarter of a minute", func(context.Context) (bool, string) {
		return time.Since(start) >= window, ""
	})
	share := float64(s.CPU(t)-before) / float64(time.Since(start))
	memory := s.Memory(t)
	t.Logf("idle: %.2f %% of a core, %d MiB of its own, %d MiB resident", 100*share, memory.Own/mib, memory.Resident/mib)
	if share > 0.01 {
		t.Errorf("idle takes %.2f %% of a core, want at most 1 %%", 100*share)
	}
	// Pages of the program's file are the system's to take back.
	if memory.Own > 40*mib {
		t.Errorf("%d MiB of its own when idle, want at most 40", memory.Own/mib)
	}
}

// Templates look methods up by name. A program that runs one keeps every
// exported method of every type: 36 MB of binary, and 20 MiB resident.
func TestNoTemplates(t *testing.T) {
	t.Parallel()
	binary, err := os.ReadFile(rig.BuildResponder(t, false))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(binary, []byte("net/http.(*conn).serve")) {
		t.Fatal("the binary does not name its functions: this test sees nothing")
	}
	if bytes.Contains(binary, []byte("text/template.(*state).walk")) {
		t.Error("the responder can run templates: find who reaches text/template's Execute, with go build -ldflags=-dumpdep")
	}
}

// A thousand senders who never finish their headers are gone within 15 s, and
// nobody else notices them.
func TestSlowSendersAreCutOff(t *testing.T) {
	t.Parallel()
	s := loadService(t, 1)
	const senders = 1000
	addr := strings.TrimPrefix(s.URL, "http://")
	var open atomic.Int32
	start := time.Now()
	for range senders {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "POST /api/v1/alertmanager HTTP/1.1\r\nHost: responder\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		open.Add(1)
		go func() {
			_, _ = io.Copy(io.Discard, conn) // until it is closed, by whichever side
			open.Add(-1)
		}()
	}
	began := time.Now()
	if status, err := deliver(t.Context(), s, largeBody(t, 1)); err != nil || status != http.StatusOK {
		t.Errorf("an honest sender got %d, %v next to %d slow ones", status, err, open.Load())
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("an honest sender waited %v next to the slow ones", took)
	}
	rig.Await(t, 20*time.Second, "the slow senders cut off", func(context.Context) (bool, string) {
		return open.Load() == 0, fmt.Sprintf("%d connections open", open.Load())
	})
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the last slow sender was cut off after %v, want at most 15s", took)
	}
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestMain keeps the journals of tests in memory where the system has a place
// for that: what is tested is not the disk.
func TestMain(m *testing.M) {
	const shm = "/dev/shm"
	dir, err := os.MkdirTemp(shm, "executor-test-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	code := m.Run()
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "journals of tests lie in the usual place:", err)
	}
	os.Exit(code)
}

// rig is an executor over a journal and a world, which can crash and start
// again. It lives in a synctest bubble: its time is virtual.
type rig struct {
	t       testing.TB
	journal *audit.Journal
	world   *world
	set     *playbook.Set
	options func(*Options)
	made    func(*Executor) // called with each executor before it runs

	e     *Executor
	end   context.CancelFunc
	ended chan error
}

var errCrash = errors.New("crash")

func newRig(t testing.TB) *rig {
	t.Helper()
	j, err := audit.OpenTemp("")
	if err != nil {
		t.Fatal(err)
	}
	h := &rig{t: t, journal: j, world: newWorld(time.Now), set: loadSet(t, nil)}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// start starts an executor and waits until it has nothing to do at once.
func (h *rig) start() {
	h.t.Helper()
	o := Options{
		Journal: h.journal, Playbooks: func() *playbook.Set { return h.set }, Kinds: testKinds(),
		Services: testServices(), Steps: h.world, Autonomy: playbook.Auto,
		Guards: guard.Config{EvidenceAge: 10 * time.Minute},
		Log:    slog.New(slog.DiscardHandler),
	}
	if testing.Verbose() && os.Getenv("EXECUTOR_LOG") != "" {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if h.options != nil {
		h.options(&o)
	}
	e, err := New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.made != nil {
		h.made(e)
	}
	ctx, end := context.WithCancel(context.Background())
	h.e, h.end, h.ended = e, end, make(chan error, 1)
	go func() { h.ended <- e.Run(ctx) }()
	synctest.Wait()
}

// inLoop has the loop do something, and waits for it.
func (h *rig) inLoop(decide func(b *batch) error) {
	h.t.Helper()
	if err := h.e.do(context.Background(), &task{decide: decide}); err != nil {
		h.t.Fatal(err)
	}
}

// stop stops it in order.
func (h *rig) stop() error {
	if h.end == nil {
		return nil
	}
	h.end()
	err := <-h.ended
	h.end = nil
	return err
}

// stopper stops an executor at the n-th failpoint it passes.
type stopper struct {
	mu   sync.Mutex
	left int
	name string // where it stopped
}

func (s *stopper) failpoint(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		s.name = name
		return errCrash
	}
	return nil
}

func (s *stopper) at() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// stopAt lets the next executor stop at its n-th failpoint.
func (h *rig) stopAt(n int) *stopper {
	s := &stopper{left: n}
	h.options = func(o *Options) { o.Failpoint = s.failpoint }
	return s
}

// crashed waits for the end of an executor that was stopped at a failpoint.
func (h *rig) crashed() {
	h.t.Helper()
	if err := <-h.ended; !errors.Is(err, errCrash) {
		h.t.Errorf("a crashed executor ends with %v", err)
	}
	h.end = nil
}

// passUntil lets time pass until something is so, at most an hour.
func (h *rig) passUntil(so func() bool) {
	for range 720 {
		if so() {
			return
		}
		h.pass(5 * time.Second)
	}
}

// pass lets virtual time pass.
func (h *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func alertOf(name, service string) playbook.Alert {
	return playbook.Alert{
		Fingerprint: "f-" + name + "-" + service, Status: playbook.Firing, StartsAt: time.Now().Add(-time.Minute).UTC().Round(0),
		Labels: map[string]string{"alertname": name, "service": service},
	}
}

func resolvedOf(a playbook.Alert) playbook.Alert {
	a.Status, a.EndsAt = playbook.Resolved, time.Now().UTC().Round(0)
	return a
}

// post puts a notification into the journal, as the receiver does.
func (h *rig) post(alerts ...playbook.Alert) { h.postTruncated(0, alerts...) }

func (h *rig) postTruncated(truncated int, alerts ...playbook.Alert) {
	h.t.Helper()
	n := playbook.Notification{
		Receiver: "responder", Version: "4", Status: playbook.Firing, GroupKey: "{}", Alerts: alerts,
		TruncatedAlerts: truncated, ReceivedAt: time.Now().UTC(),
	}
	h.postRaw(n.AppendJSON(nil))
}

func (h *rig) postRaw(data []byte) {
	h.t.Helper()
	_, err := h.journal.Append(context.Background(), audit.Append{
		Stream: dispatch.StreamIntake, After: audit.Any, Records: []audit.Record{{Kind: "notification", Data: data}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

// runs returns all runs, oldest first.
func (h *rig) runs() []machine.State {
	all := h.e.Runs(Filter{Limit: 1000})
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// only returns the one run there is.
func (h *rig) only() machine.State {
	h.t.Helper()
	all := h.runs()
	if len(all) != 1 {
		h.t.Fatalf("%d runs, want 1: %v", len(all), h.fates())
	}
	return all[0]
}

// fates returns what became of alerts, from the stream dispatch.
func (h *rig) fates() []string {
	h.t.Helper()
	var out []string
	for rec, err := range h.journal.Stream(dispatch.Stream, 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		d, err := dispatch.DecodeRecord(rec)
		if err != nil {
			h.t.Fatal(err)
		}
		line := strings.TrimPrefix(rec.Kind, "alert.")
		if d.Reason != "" {
			line += " (" + d.Reason + ")"
		}
		out = append(out, line)
	}
	return out
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, fn func(t *testing.T, h *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newRig(t)) })
}

// failing replaces the journal by one whose commits fail with that error while the
// flag is set.
func (h *rig) failing(t *testing.T, with error) *atomic.Bool {
	var flag atomic.Bool
	j, err := audit.Open(filepath.Join(t.TempDir(), "journal.db"), audit.Options{NoSync: true, Failpoint: func(name string) error {
		if flag.Load() && name == "before-commit" {
			return with
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.journal.Close(); err != nil {
		t.Error(err)
	}
	h.journal = j
	t.Cleanup(func() {
		if h.end != nil {
			flag.Store(false)
			if err := h.stop(); err != nil {
				t.Error(err)
			}
		}
		if err := j.Close(); err != nil && !errors.Is(err, with) {
			t.Error(err)
		}
	})
	return &flag
}

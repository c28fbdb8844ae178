package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
)

// saidOfNodes are GPUs of which a test says what was learnt.
type saidOfNodes map[string]func(*gpu.Answer)

// Snapshots implements step.GPUs.
func (s saidOfNodes) Snapshots(_ context.Context, nodes []string, _ time.Duration) []gpu.Answer {
	out := make([]gpu.Answer, len(nodes))
	for i, n := range nodes {
		now := time.Now().UTC()
		g := gpu.GPU{UUID: "GPU-1", TakenAt: now, EventsWatched: gpu.Known(true)}
		g.Clocks.Reasons, g.Temperature.GPUC = gpu.Known(gpu.Reasons(0)), gpu.Known[int64](50)
		g.ECC.Enabled, g.ECC.VolatileUncorrectable = gpu.Known(true), gpu.Known[uint64](0)
		g.Rows.Pending, g.Rows.Failed = gpu.Known(false), gpu.Known(false)
		for m := range 5 {
			g.Minutes = append(g.Minutes, gpu.Minute{Start: now.Add(time.Duration(m-5) * time.Minute), Samples: 60})
		}
		out[i] = gpu.Answer{Node: n, Snapshot: gpu.Snapshot{Format: gpu.Format, Node: n, Source: "nvml", TakenAt: now, PeriodMS: 1000, GPUs: []gpu.GPU{g}}}
		s[n](&out[i])
	}
	return out
}

// What cannot be believed of GPUs is unknown to a run, and its journal has why:
// bits, XIDs and temperatures that cannot be judged, clocks that jumped, GPUs
// that share a UUID, and an agent that lies about its node.
func TestWhatIsNotBelievedIsJournaled(t *testing.T) {
	absent := func(reason fault.Reason, text string) func(*gpu.Answer) {
		return func(a *gpu.Answer) { a.Err = &fault.Error{Reason: reason, Message: text} }
	}
	said := saidOfNodes{
		"bits": func(a *gpu.Answer) { a.Snapshot.GPUs[0].Clocks.Reasons = gpu.Known(gpu.Reasons(0x8000)) },
		"xid": func(a *gpu.Answer) {
			a.Snapshot.GPUs[0].Events = []gpu.Event{{At: time.Now(), Type: gpu.EventXID, Data: 4711}}
		},
		"heat":      func(a *gpu.Answer) { a.Snapshot.GPUs[0].Temperature.GPUC = gpu.Known[int64](900) },
		"past":      func(a *gpu.Answer) { a.Snapshot.GPUs[0].TakenAt = time.Now().Add(-time.Hour) },
		"future":    func(a *gpu.Answer) { a.Snapshot.GPUs[0].TakenAt = time.Now().Add(time.Hour) },
		"twins":     absent(fault.Refused, "its agent answers 500: gpus[1].uuid: GPU-1 stands at gpus[0] already; two GPUs never share one"),
		"liar":      absent(fault.Impostor, `its agent says that it is on node "honest": it is refused`),
		"elsewhere": func(a *gpu.Answer) { a.Snapshot.Node = "honest" },
		"well":      func(*gpu.Answer) {},
	}
	words := map[string]string{
		"bits": "0x0000000000008000", "xid": "unknown XID", "heat": "900", "past": "more than 30s", "future": "ahead of the clock here",
		"twins": "two GPUs never share one", "liar": `says that it is on node \"honest\"`, "elsewhere": `the answer is about node \"honest\"`,
	}
	_, w, err := OpenSandbox(DefaultScenario, time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	w.Deps.GPUs = said
	c := SandboxConfig()
	c.Playbooks.Shipped = false
	c.Playbooks.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(c.Playbooks.Dir, "look.yaml"), []byte(lookAt(said)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Config: c, World: w, Log: slog.New(slog.DiscardHandler), Temporary: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	evidence := journaled(t, s)
	for node, want := range words {
		if got := evidence[node]; !strings.Contains(got, want) || !strings.Contains(got, `"verdict":"unknown"`) {
			t.Errorf("%s: the journal has %s, want verdict unknown and %q", node, got, want)
		}
	}
	if got := evidence["well"]; !strings.Contains(got, `"verdict":"healthy"`) {
		t.Errorf("well: %s", got)
	}
}

// lookAt is a playbook that looks at one node after the other.
func lookAt(nodes saidOfNodes) string {
	var states strings.Builder
	next := "done"
	for node := range nodes {
		fmt.Fprintf(&states, "    %s: {title: Look, check: gpu.health, with: {node: %s}, next: [{to: %s}]}\n", node, node, next)
		next = node
	}
	return "apiVersion: responder/v1alpha1\nkind: Playbook\nmetadata: {name: look, title: Look, runbook: none}\nspec:\n" +
		"  match: ['{alertname=\"None\"}']\n  autonomy: observe\n  start: " + next + "\n  states:\n" + states.String() + "    done: {end: resolved}\n"
}

// journaled runs the playbook by hand, and gives what the run's records have as
// evidence of each state.
func journaled(t *testing.T, s *Service) map[string]string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.executor.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	until(t, "ready", func() bool { return s.executor.Ready() == nil })
	id, _, err := s.executor.StartRun(t.Context(), executor.StartRequest{Key: "k", Playbook: "look", Service: s.world.Services()[0].Name, By: "user:ada", Person: true, Reason: "test"})
	if err != nil {
		t.Fatal(err)
	}
	evidence := map[string]string{}
	until(t, "the end of the run", func() bool {
		over := false
		for rec, err := range s.journal.Stream("run/"+id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			var e machine.Event
			if err := json.Unmarshal(rec.Data, &e); err != nil {
				t.Fatal(err)
			}
			switch machine.EventKind(rec.Kind) {
			case machine.CheckCompleted:
				evidence[e.State] = string(e.Data)
			case machine.RunEnded:
				over = true
			default:
			}
		}
		return over
	})
	return evidence
}

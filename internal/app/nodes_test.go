package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// hall is a cluster's nodes. It counts how often it is asked.
type hall struct {
	nodes         []kube.NodeState
	pods          map[string][]kube.NodePod
	unread, blind error // of the nodes, of the pods
	slow          time.Duration
	lists, asked  int // lists of nodes; nodes whose GPUs were asked for
}

func (h *hall) AllNodes(ctx context.Context) ([]kube.NodeState, error) {
	h.lists++
	select {
	case <-time.After(h.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return h.nodes, h.unread
}

func (h *hall) PodsByNode(_ context.Context, namespace string) (map[string][]kube.NodePod, error) {
	if h.blind != nil {
		return nil, h.blind
	}
	out := map[string][]kube.NodePod{}
	for node, pods := range h.pods {
		for _, p := range pods {
			if p.Namespace == namespace {
				out[node] = append(out[node], p)
			}
		}
	}
	return out, nil
}

func (h *hall) Snapshots(_ context.Context, nodes []string, _ time.Duration) []gpu.Answer {
	h.asked = len(nodes)
	var out []gpu.Answer
	for _, n := range nodes {
		out = append(out, gpu.Answer{Node: n, Err: gpu.ErrNoAgent})
	}
	return out
}

func (h *hall) world() World {
	chat := playbook.Service{Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"}}
	return World{
		Inventory: h, Deps: step.Deps{GPUs: h}, Now: time.Now,
		Known: func() ([]playbook.Service, error) { return []playbook.Service{chat}, nil },
	}
}

func chatPod(name string, ready bool) kube.NodePod {
	return kube.NodePod{Namespace: "serving", Name: name, Group: name, Ready: ready, Owner: kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}}
}

func newHall() *hall {
	gone := map[string]string{kube.MarkDrain: kube.Mark("r-1/drain#1/apply#1", time.Now().Add(-time.Hour)), kube.GPUsWhenOut: time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + " boot=b reset=GPU-1"}
	return &hall{
		nodes: []kube.NodeState{
			{Name: "a", Ready: true, HasGPUs: true},
			{Name: "b", Ready: true, HasGPUs: true, Unschedulable: true, CordonedBy: "kubectl", Claims: []kube.Claim{{By: "a cordon by kubectl", Why: kube.ClaimCordon}}},
			{Name: "cpu", Ready: true},
			{Name: "idle", Ready: true, HasGPUs: true},
			{Name: "out", Ready: true, HasGPUs: true, BootID: "b", Unschedulable: true, CordonedBy: kube.FieldManager, Annotations: gone},
		},
		pods: map[string][]kube.NodePod{
			"a":   {chatPod("chat-1", true), chatPod("chat-2", false), {Namespace: "serving", Name: "job", Owner: kube.Ref{Kind: "Job", Namespace: "serving", Name: "chat"}}},
			"b":   {chatPod("chat-3", true)},
			"cpu": {chatPod("chat-4", true)},
		},
	}
}

// listOf is what pages and API show, without runs.
func listOf(seen seenNodes) map[string]api.Node {
	out := map[string]api.Node{}
	for _, x := range seen.nodes {
		out[x.name] = x.shown()
	}
	return out
}

func TestNodesOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall()
		n := newNodes(h.world(), slog.New(slog.DiscardHandler))
		seen := n.seen(t.Context())
		got := listOf(seen)
		if len(got) != 4 || len(seen.unknown) != 0 || h.asked != 3 {
			t.Fatalf("%d nodes, %q not known, GPUs of %d asked for", len(got), seen.unknown, h.asked)
		}
		if seen.nodes[0].name != "out" || !got["out"].Taken || got["out"].Run != "r-1" || seen.nodes[0].out.Unmended == "" {
			t.Errorf("the node that was taken out is not first, or not explained: %+v", got["out"])
		}
		if s := got["a"].Services; len(s) != 1 || s[0] != (api.NodeService{Service: "serving/chat", Replicas: 2, Ready: 1}) {
			t.Errorf("services on a: %+v", s)
		}
		if b := got["b"]; b.Taken || !b.Cordoned || b.CordonedBy != "kubectl" || len(b.Claims) != 0 {
			t.Errorf("a cordon by somebody else: %+v", b)
		}
		for name, want := range map[string]string{"a": "unknown", "out": "unknown", "cpu": noGPUs} {
			if g := got[name].GPUs; g.Verdict != want || want == "unknown" && !strings.Contains(strings.Join(g.Why, ""), "no agent runs there") {
				t.Errorf("GPUs of %s: %+v", name, g)
			}
		}
		// Many viewers cost one look.
		for range 50 {
			n.seen(t.Context())
		}
		if h.lists != 1 {
			t.Errorf("the cluster was asked %d times", h.lists)
		}
		time.Sleep(nodesFresh)
		if n.seen(t.Context()); h.lists != 2 {
			t.Errorf("the cluster was asked %d times after %s", h.lists, nodesFresh)
		}
	})
}

// What cannot be read is unknown, with the reason.
func TestNodesUnknown(t *testing.T) {
	forbidden := errors.New("list nodes: the service account may not")
	for name, c := range map[string]struct {
		change  func(*hall, *World)
		unknown string
		rows    int
	}{
		"no right to list nodes": {func(h *hall, _ *World) { h.nodes, h.unread = nil, forbidden }, forbidden.Error(), 3},
		"no right to list pods":  {func(h *hall, _ *World) { h.blind = errors.New("list pods: may not") }, "the pods of namespace serving: list pods: may not", 1},
		"a node that is gone":    {func(h *hall, _ *World) { h.nodes = nil }, "", 3},
		"no cluster":             {func(_ *hall, w *World) { w.Inventory = nil }, "no cluster is configured", 0},
		"half a catalog": {func(_ *hall, w *World) {
			known := w.Known
			w.Known = func() ([]playbook.Service, error) { s, _ := known(); return s, errors.New("not discovered yet") }
		}, "services may be missing: not discovered yet", 4},
		"a slow cluster": {func(h *hall, _ *World) { h.slow = 5 * time.Second }, "has not answered within 2s", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHall()
				w := h.world()
				c.change(h, &w)
				n := newNodes(w, slog.New(slog.DiscardHandler))
				seen := n.seen(t.Context())
				if got := strings.Join(seen.unknown, "\n"); !strings.Contains(got, c.unknown) || (c.unknown == "") != (got == "") || len(seen.nodes) != c.rows {
					t.Errorf("%d nodes, not known: %q", len(seen.nodes), got)
				}
				for name, x := range listOf(seen) {
					if len(h.nodes) == 0 && (x.Ready != "unknown" || x.Cause == "" || x.GPUs.Verdict != "unknown") {
						t.Errorf("%s, which nobody could read: %+v", name, x)
					}
				}
				time.Sleep(h.slow) // the answer comes, for the next viewer
				if h.slow > 0 {
					if seen := n.seen(t.Context()); len(seen.nodes) != 4 || h.lists != 1 {
						t.Errorf("%d nodes after %d lists, %q", len(seen.nodes), h.lists, seen.unknown)
					}
				}
			})
		})
	}
}

// A node that had GPUs when it went out is not one without GPUs.
func TestNodeThatLostItsGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall()
		h.nodes[4].HasGPUs = false
		n := newNodes(h.world(), slog.New(slog.DiscardHandler))
		if g := listOf(n.seen(t.Context()))["out"].GPUs; g.Verdict != "unknown" || !strings.Contains(strings.Join(g.Why, "\n"), "but it had some when it went out") {
			t.Errorf("%+v", g)
		}
	})
}

func TestNodesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hall{pods: map[string][]kube.NodePod{}}
		for i := range 1000 {
			name := fmt.Sprintf("n-%04d", i)
			h.nodes = append(h.nodes, kube.NodeState{Name: name, Ready: i != 999, HasGPUs: true})
			h.pods[name] = []kube.NodePod{chatPod("chat-"+name, true)}
		}
		n := newNodes(h.world(), slog.New(slog.DiscardHandler))
		seen := n.seen(t.Context())
		if len(seen.nodes) != mostNodes || seen.more != 800 || h.asked != mostNodes || seen.nodes[0].name != "n-0999" {
			t.Errorf("%d nodes, %d more, GPUs of %d asked for, first %s", len(seen.nodes), seen.more, h.asked, seen.nodes[0].name)
		}
	})
}

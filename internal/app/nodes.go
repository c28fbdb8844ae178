package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	stepgpu "github.com/inference-responder/responder/internal/step/gpu"
	"github.com/inference-responder/responder/internal/step/node"
)

// Inventory lists the nodes of a cluster, and the pods of a namespace by their nodes: a
// cluster, or the sandbox. Answers may be some seconds old.
type Inventory interface {
	AllNodes(ctx context.Context) ([]kube.NodeState, error)
	PodsByNode(ctx context.Context, namespace string) (map[string][]kube.NodePod, error)
}

// Limits of what pages ask of the cluster about nodes.
const (
	nodesFresh     = 30 * time.Second
	nodesWithin    = 15 * time.Second
	mostNodes      = 200 // that are shown, and whose GPUs are asked for
	mostNamespaces = 100 // whose pods are read
	mostPodReads   = 4   // at a time
)

// nodes reads for pages the nodes that matter to services.
type nodes struct {
	inventory Inventory // nil: there is no cluster
	gpus      step.GPUs // nil: nothing is known of GPUs
	services  func() ([]playbook.Service, error)
	now       func() time.Time
	log       *slog.Logger
	kept      *answers[seenNodes]
}

// seenNodes is what was read of the nodes at one time.
type seenNodes struct {
	at      time.Time
	nodes   []seenNode
	more    int
	unknown []string // what could not be read
}

// seenNode is one node. Its state is known if cause is empty.
type seenNode struct {
	name     string
	state    kube.NodeState
	cause    string
	out      node.Outage
	services map[string]*lodging // by name
	gpus     judge.NodeJudgement
	noGPUs   bool
}

// lodging is what a service has on a node, by its replicas: a replica is ready if all its
// pods there are.
type lodging struct{ ready map[string]bool }

func newNodes(w World, log *slog.Logger) *nodes {
	n := &nodes{inventory: w.Inventory, gpus: w.Deps.GPUs, services: w.Known, now: w.Now, log: log, kept: newAnswers[seenNodes](w.Now, nodesFresh)}
	n.kept.within = nodesWithin
	return n
}

// seen returns what is known, read within the last seconds. A viewer waits two seconds
// for it at most.
func (n *nodes) seen(ctx context.Context) seenNodes {
	if n.inventory == nil {
		return seenNodes{unknown: []string{"no cluster is configured: kubernetes in the configuration names one"}}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	out, err := n.kept.get(ctx, "", n.read)
	if err != nil {
		return seenNodes{unknown: []string{fmt.Sprintf("the cluster has not answered within %s; it is still being asked: load this again", answerTimeout)}}
	}
	return out
}

// read asks the cluster and the sources of readings. What fails is part of the answer.
func (n *nodes) read(ctx context.Context) (seenNodes, error) {
	out := seenNodes{at: n.now()}
	fail := func(format string, args ...any) { out.unknown = append(out.unknown, fmt.Sprintf(format, args...)) }
	all, unread := n.inventory.AllNodes(ctx)
	if unread != nil {
		n.log.Warn("nodes cannot be listed", "err", unread)
		fail("the nodes: %v", unread)
	}
	states := make(map[string]kube.NodeState, len(all))
	for _, s := range all {
		states[s.Name] = s
	}
	services, err := n.services()
	if err != nil {
		fail("the catalog: services may be missing: %v", err)
	}
	found := map[string]*seenNode{}
	for name, lodgings := range n.lodgings(ctx, services, fail) {
		found[name] = &seenNode{name: name, services: lodgings}
	}
	for _, s := range all {
		o := node.OutageOf(s)
		x := found[s.Name]
		if x == nil && (o.Ours || o.Reset != "") {
			x = &seenNode{name: s.Name}
			found[s.Name] = x
		}
		if x != nil {
			x.out = o
		}
	}
	for _, x := range found {
		var ok bool
		if x.state, ok = states[x.name]; !ok {
			x.cause = "the cluster has no node of that name"
			if unread != nil {
				x.cause = unread.Error()
			}
		}
		out.nodes = append(out.nodes, *x)
	}
	slices.SortFunc(out.nodes, func(a, b seenNode) int { return cmp.Or(b.urgency()-a.urgency(), cmp.Compare(a.name, b.name)) })
	out.more = max(0, len(out.nodes)-mostNodes)
	out.nodes = out.nodes[:min(len(out.nodes), mostNodes)]
	n.judge(ctx, out.nodes, states, unread)
	slices.SortStableFunc(out.nodes, func(a, b seenNode) int { return cmp.Or(b.urgency()-a.urgency(), cmp.Compare(a.name, b.name)) })
	return out, nil
}

// lodgings returns what services have on each node, by the nodes' names.
func (n *nodes) lodgings(ctx context.Context, services []playbook.Service, fail func(string, ...any)) map[string]map[string]*lodging {
	of := step.ByWorkload(services)
	spaces := map[string]bool{}
	for _, s := range services {
		spaces[s.Namespace] = true
	}
	names := slices.Sorted(maps.Keys(spaces))
	if len(names) > mostNamespaces {
		fail("the pods of %d of %d namespaces: only the first %d are read", len(names)-mostNamespaces, len(names), mostNamespaces)
		names = names[:mostNamespaces]
	}
	out := map[string]map[string]*lodging{}
	var mu sync.Mutex // guards out, and calls of fail
	var reads errgroup.Group
	reads.SetLimit(mostPodReads)
	for _, space := range names {
		reads.Go(func() error {
			byNode, err := n.inventory.PodsByNode(ctx, space)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fail("the pods of namespace %s: %v", space, err)
			}
			for name, pods := range byNode {
				for _, p := range pods {
					if s, cataloged := of[p.Owner.Leaders()]; cataloged && !p.Done {
						lodge(out, name, s.Name, p)
					}
				}
			}
			return nil
		})
	}
	_ = reads.Wait() // they return no error
	return out
}

// lodge adds a pod of a service to its node.
func lodge(out map[string]map[string]*lodging, name, service string, p kube.NodePod) {
	if out[name] == nil {
		out[name] = map[string]*lodging{}
	}
	l := out[name][service]
	if l == nil {
		l = &lodging{map[string]bool{}}
		out[name][service] = l
	}
	ready, seen := l.ready[p.Group]
	l.ready[p.Group] = p.Ready && !p.Leaving && (ready || !seen)
}

// judge reads the GPUs of the nodes that have some, or may have.
func (n *nodes) judge(ctx context.Context, list []seenNode, states map[string]kube.NodeState, unread error) {
	var names []string
	for i := range list {
		x := &list[i]
		x.noGPUs = x.cause == "" && !x.state.HasGPUs && !x.out.HadGPUs
		if !x.noGPUs {
			names = append(names, x.name)
		}
	}
	answers := make([]gpu.Answer, 0, len(names))
	if n.gpus == nil {
		for _, name := range names {
			answers = append(answers, gpu.Answer{Node: name, Err: step.ErrNoGPUSource})
		}
	} else {
		answers = n.gpus.Snapshots(ctx, names, 0)
	}
	verdicts := map[string]judge.NodeJudgement{}
	for _, j := range stepgpu.JudgeNodes(n.now(), answers, states, unread) {
		verdicts[j.Node] = j
	}
	for i := range list {
		x := &list[i]
		j, judged := verdicts[x.name]
		if !judged {
			j = judge.Unseen(x.name, "nothing answered for it")
		}
		x.gpus = j
		if x.cause == "" && x.out.HadGPUs && !x.state.HasGPUs {
			x.gpus.Reasons = append(slices.Clone(j.Reasons), judge.Reason{Verdict: judge.Uncertain, Text: "the cluster shows no GPUs on it now, but it had some when it went out"})
			if judge.Uncertain.WorseThan(j.Verdict) {
				x.gpus.Verdict = judge.Uncertain
			}
		}
	}
}

// urgency orders nodes: what is wrong, or may be, comes first.
func (x *seenNode) urgency() int {
	switch {
	case x.out.Ours || x.out.Reset != "":
		return 4
	case x.cause != "" || x.state.Out():
		return 3
	case !x.noGPUs && x.gpus.Verdict.WorseThan(judge.Uncertain):
		return 2
	case !x.noGPUs && x.gpus.Verdict.WorseThan(judge.Busy):
		return 1
	default:
		return 0
	}
}

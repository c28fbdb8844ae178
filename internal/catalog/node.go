package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/kube"
)

// Tenants lists the pods that are bound to a node: a cluster, or the sandbox.
type Tenants interface {
	NodePods(ctx context.Context, node string) ([]kube.NodePod, error)
}

// Alerts are decided one after the other, so a slow cluster must not delay
// them. An answer is awaited for tenantsWithin at most and cached; after a
// failure, the next question is delayed.
const (
	tenantsWithin = 2 * time.Second
	tenantsKept   = 15 * time.Second
	tenantsRest   = 10 * time.Second
	tenantsMost   = 1000 // cached nodes
)

// lodger is a workload with pods on a node.
type lodger struct {
	ref        kube.Ref
	gpus, pods int
}

// tenants caches the workloads on each node.
type tenants struct {
	source Tenants // nil: there is no cluster

	mu    sync.Mutex // serializes questions
	known map[string]answered
	rest  time.Time // earliest time of the next question
	err   error     // of the last question, until rest
}

type answered struct {
	at      time.Time
	lodgers []lodger
}

// on returns the workloads with pods on a node.
func (t *tenants) on(node string) ([]lodger, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if a, ok := t.known[node]; ok && now.Sub(a.at) < tenantsKept {
		return a.lodgers, nil
	}
	if now.Before(t.rest) {
		return nil, t.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tenantsWithin)
	defer cancel()
	pods, err := t.source.NodePods(ctx, node)
	if err != nil {
		t.rest, t.err = time.Now().Add(tenantsRest), fmt.Errorf("ask for the pods on node %s: %w", node, err)
		return nil, t.err
	}
	a := answered{at: time.Now()}
	for _, p := range pods {
		if p.Done || p.Owner == (kube.Ref{}) {
			continue
		}
		i := slices.IndexFunc(a.lodgers, func(l lodger) bool { return l.ref == p.Owner })
		if i < 0 {
			i, a.lodgers = len(a.lodgers), append(a.lodgers, lodger{ref: p.Owner})
		}
		a.lodgers[i].gpus += p.GPUs
		a.lodgers[i].pods++
	}
	if t.known == nil || len(t.known) >= tenantsMost {
		t.known = map[string]answered{}
	}
	t.known[node] = a
	return a.lodgers, nil
}

// byNode returns the service with the most GPUs on a node, for an alert that
// names only a node. An action on a node affects all its services, so one run
// is enough, and one of them must be its service.
func (c *Catalog) byNode(entries []*Entry, node string) (hit *Entry, why string, err error) {
	lodgers, err := c.tenants.on(node)
	if err != nil {
		return nil, "", err
	}
	slices.SortStableFunc(lodgers, func(a, b lodger) int { return cmp.Or(cmp.Compare(b.gpus, a.gpus), cmp.Compare(b.pods, a.pods)) })
	var there []*Entry
	for _, l := range lodgers {
		for _, e := range entries {
			w := e.Service.Workload
			if l.ref.Leaders() == (kube.Ref{Kind: w.Kind, Namespace: e.Service.Namespace, Name: w.Name}) {
				there = append(there, e)
			}
		}
	}
	switch len(there) {
	case 0:
		return nil, fmt.Sprintf("the alert names only node %s, where no service of the catalog has a pod", node), nil
	case 1:
		return there[0], fmt.Sprintf("it has pods on node %s", node), nil
	default:
		return there[0], fmt.Sprintf("it has the most GPUs of %s on node %s", names(there), node), nil
	}
}

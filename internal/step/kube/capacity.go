package kube

import (
	"context"
	"fmt"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// CapacityKind declares kube.capacity.
func CapacityKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.capacity",
		Role: playbook.RoleCheck,
		Doc: `Looks for room for one more replica of the service's workload, as the scheduler would: node selector and affinity, taints, cordons, what the pods of
each node request, quotas of the namespace, and the rule that no two replicas share a node. Nothing is evicted for it and no node is added: where
a cluster autoscaler adds nodes, more may fit than ` + "`fits`" + ` says. It lists the nodes and pods of the whole cluster, so ask for it before replicas are
added, not in every state. A workload whose replicas are groups of pods, or claim devices, is an error.`,
		Out: step.Fields[capacityOut](),
	}
}

type kubeCapacity struct{ c step.Capacities }

// NewCapacity returns the check kube.capacity.
func NewCapacity(d step.Deps) step.Check { return kubeCapacity{d.Capacity} }

type capacityOut struct {
	Fits     int       `json:"fits" unit:"replicas" doc:"More replicas that find room now, after those that wait for a node already; at most 100."`
	Needs    string    `json:"needs" doc:"What one replica requests, e.g. 1 nvidia.com/gpu, 8 cpu."`
	GPUs     int       `json:"gpus" doc:"GPUs that one replica requests."`
	FreeGPUs int       `json:"free_gpus" doc:"GPUs that nobody has requested, on nodes that take such a pod."`
	Waiting  int       `json:"waiting" unit:"pods" doc:"Pods of the workload that no node runs yet."`
	Evicts   int       `json:"evicts" unit:"pods" doc:"Pods with GPUs and a lower priority on full nodes: the scheduler may evict them for a new replica."`
	Nodes    []roomOut `json:"nodes" doc:"Nodes with room, most first, at most 20."`
	Refused  []whyOut  `json:"refused" doc:"Why other nodes have none, most nodes first, at most 20."`
	Quota    string    `json:"quota" doc:"The quota that lets the fewest replicas in; empty: none bounds them."`
	Ignored  []string  `json:"ignored" doc:"Rules of the pods that were not taken into account, so that fewer may fit."`
}

type roomOut struct {
	Name string `json:"name" doc:"Node."`
	Fits int    `json:"fits" unit:"replicas" doc:"Replicas that it takes."`
}

type whyOut struct {
	Why   string `json:"why" doc:"Reason."`
	Nodes int    `json:"nodes" unit:"nodes" doc:"Nodes that it holds for."`
}

const maxRooms = 20 // nodes, and reasons, that evidence keeps

// Run implements [step.Check].
func (c kubeCapacity) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	if _, err := step.Decode[struct{}](CapacityKind(), in.With); err != nil {
		return step.Finding{}, err
	}
	if c.c == nil {
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	got, err := c.c.Capacity(ctx, step.RefOf(in.Service))
	if err != nil {
		return step.Finding{}, err
	}
	return step.Finding{Out: capacityEvidence(got), Facts: []string{capacityFact(got)}}, nil
}

func capacityEvidence(c kube.Capacity) capacityOut {
	out := capacityOut{
		Fits: c.Fits, Needs: c.Needs, GPUs: c.GPUs, FreeGPUs: c.Free, Waiting: c.Waiting, Evicts: c.Below,
		Nodes: []roomOut{}, Refused: []whyOut{}, Ignored: append([]string{}, c.Ignored...),
	}
	for _, r := range c.Room[:min(len(c.Room), maxRooms)] {
		out.Nodes = append(out.Nodes, roomOut{r.Node, r.Fits})
	}
	for _, r := range c.Refusals[:min(len(c.Refusals), maxRooms)] {
		out.Refused = append(out.Refused, whyOut{r.Why, r.Nodes})
	}
	if len(c.Quotas) > 0 {
		out.Quota = c.Quotas[0].Quota
	}
	return out
}

func capacityFact(c kube.Capacity) string {
	switch c.Fits {
	case 0:
		return "no room for one more replica: " + step.Lacking(c)
	case kube.MaxFits:
		return fmt.Sprintf("room for %d more replicas and more (each needs %s)", c.Fits, c.Needs)
	}
	return fmt.Sprintf("room for %d more: %s", c.Fits, step.Lacking(c))
}

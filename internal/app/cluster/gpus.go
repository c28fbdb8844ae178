package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/inference-responder/responder/internal/config"
	agents "github.com/inference-responder/responder/internal/gpu/client"
	"github.com/inference-responder/responder/internal/gpu/repair"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/gpu"
)

// openGPUs puts into deps what the state of GPUs is read from: nothing, where
// nothing is configured. api may be nil.
func openGPUs(c config.Config, api *kube.Client, deps *step.Deps, log *slog.Logger) error {
	agents, err := openAgents(c, api, log)
	if err != nil {
		return err
	}
	if agents != nil {
		deps.GPUs = agents
	}
	if c.GPU.DCGM.Enabled {
		dcgm := dcgmOf(c, deps.Querier, time.Now)
		deps.GPUs, deps.XIDs = gpu.GPUSources(deps.GPUs, dcgm), dcgm
	}
	return nil
}

// dcgmOf returns the GPUs that dcgm-exporter's series in a Prometheus show at a time.
func dcgmOf(c config.Config, q step.Querier, now func() time.Time) gpu.DCGM {
	return gpu.DCGM{Querier: q, NodeLabel: c.GPU.DCGM.NodeLabel, Selector: c.GPU.DCGM.Selector, Now: now}
}

// RecordedGPUs returns what makes GPUs of dcgm-exporter's series in a Prometheus; nil:
// the configuration has none.
func RecordedGPUs(c config.Config) func(q step.Querier, now func() time.Time) step.GPUs {
	if !c.GPU.DCGM.Enabled {
		return nil
	}
	return func(q step.Querier, now func() time.Time) step.GPUs { return dcgmOf(c, q, now) }
}

// openAgents makes the client of the node agents; nil: they are not configured.
func openAgents(c config.Config, api *kube.Client, log *slog.Logger) (*agents.Client, error) {
	a := c.GPU.Agents
	if !a.Enabled || api == nil {
		return nil, nil
	}
	o := agents.Options{
		Pods: agentPods{api, a.Namespace, a.Selector}, Port: a.Port, CAFile: a.CAFile, ServerName: a.ServerName,
		CertFile: a.CertFile, KeyFile: a.KeyFile, TokenFile: a.TokenFile, Timeout: a.Timeout, Concurrent: a.Concurrent, Log: log,
	}
	if a.Audience != "" {
		o.Reviewer = agentReview{api, a.Audience}
	}
	return agents.New(o)
}

// agentPods lists the agents through the API server.
type agentPods struct {
	api                 *kube.Client
	namespace, selector string
}

// AgentPods is for agents.Pods.
func (p agentPods) AgentPods(ctx context.Context) ([]agents.Pod, error) {
	pods, err := p.api.AgentPods(ctx, p.namespace, p.selector)
	if err != nil {
		return nil, err
	}
	out := make([]agents.Pod, 0, len(pods))
	for _, a := range pods {
		if net.ParseIP(a.Address) == nil {
			continue // the API server checks it; what it did not is no address
		}
		out = append(out, agents.Pod{UID: a.UID, Node: a.Node, Address: a.Address, Account: "system:serviceaccount:" + p.namespace + ":" + a.Account, Started: a.Started})
	}
	return out, nil
}

// agentReview asks the API server whose token an agent has shown.
type agentReview struct {
	api      *kube.Client
	audience string
}

// ReviewAgent is for client.Reviewer.
func (r agentReview) ReviewAgent(ctx context.Context, token string) (agents.Owner, bool, error) {
	o, good, err := r.api.ReviewToken(ctx, token, r.audience)
	return agents.Owner{User: o.User, PodUID: o.PodUID, Node: o.Node}, good, err
}

// openRepairs makes the client; nil: none is configured.
func openRepairs(c config.Config) (step.Repairs, error) {
	r := c.GPU.Repairs
	if r.URL == "" {
		return nil, nil
	}
	client, err := repair.New(r)
	if err != nil {
		return nil, fmt.Errorf("gpu.%w", err)
	}
	return repairs{client, r.Idempotent}, nil
}

// repairs speaks to the client in the words of steps.
type repairs struct {
	client *repair.Client
	once   bool
}

// Where implements [step.Repairs].
func (r repairs) Where() string { return r.client.Where() }

// Once implements [step.Repairs].
func (r repairs) Once() bool { return r.once }

// Ask implements [step.Repairs].
func (r repairs) Ask(ctx context.Context, ask step.RepairRequest) (string, error) {
	body := repair.Request{
		Action: "request", Key: ask.Key, Of: ask.Withdraw, Ticket: ask.Ticket,
		Node: ask.Node, GPUs: ask.GPUs, Reason: ask.Reason, Run: ask.Run, Service: ask.Service,
	}
	if ask.Withdraw != "" {
		body.Action = "withdraw"
	}
	return r.client.Ask(ctx, body)
}

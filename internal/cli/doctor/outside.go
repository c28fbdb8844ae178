package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/playbook"
)

// gitops checks Git and Argo CD.
func (e *exam) gitops(ctx context.Context) []Finding {
	if !e.c.Gitops.Configured() {
		for _, step := range []string{"gitops.", "argocd."} {
			e.bar("", step, "no Git is configured")
		}
		for _, s := range e.services {
			if s.GitOps != (playbook.GitOps{}) {
				return []Finding{failed(s.Name, "its manifests are in Git, and no repository is configured", "set gitops.repositories, and gitops.argocd where Argo CD syncs them: it is not changed otherwise")}
			}
		}
		return []Finding{notAsked("repositories", "none are configured: what Git owns is not changed")}
	}
	found, err := cluster.CheckGitops(ctx, e.c, e.services, e.temp)
	if err != nil {
		return []Finding{failed("repositories", because(ctx, err), "see the message")}
	}
	for _, f := range found {
		if f.OK {
			continue
		}
		service, of := strings.CutPrefix(f.Name, "service ")
		switch {
		case of:
			for _, step := range []string{"gitops.", "argocd.", "kube.scale", "kube.rollout_undo", "service.rollback"} {
				e.bar(service, step, "its manifests or application cannot be used")
			}
		case strings.HasPrefix(f.Name, "argo cd"):
			e.bar("", "argocd.", "Argo CD cannot be used as configured")
		}
	}
	return converted(found)
}

// slack checks the workspace. Nothing is posted: `slack check` does that, too.
func (e *exam) slack(ctx context.Context) []Finding {
	if e.c.Slack == nil {
		return []Finding{notAsked("workspace", "none is configured: people decide on the page and the command line")}
	}
	found, err := app.CheckSlack(ctx, e.c, app.SlackCheck{Silent: true})
	if err != nil {
		return []Finding{failed("workspace", because(ctx, err), "correct slack of the configuration")}
	}
	return converted(found)
}

// gpu asks whoever tells the state of GPUs about all nodes that have some.
func (e *exam) gpu(ctx context.Context) []Finding {
	without := func(why string) {
		for _, step := range []string{"gpu.", "node."} {
			e.bar("", step, why)
		}
	}
	if e.world.Deps.GPUs == nil {
		without("nothing tells the state of GPUs")
		return []Finding{notAsked("source", "neither gpu.agents nor gpu.dcgm is configured: the state of GPUs is unknown")}
	}
	if e.world.GPUNodes == nil {
		return []Finding{notAsked("nodes", "no cluster is configured, so that nodes with GPUs cannot be listed")}
	}
	nodes, err := e.world.GPUNodes(ctx)
	switch {
	case err != nil:
		return []Finding{failed("nodes", because(ctx, err), "bind the role responder-read of deploy/kubernetes: it lists nodes")}
	case len(nodes) == 0:
		return []Finding{warning("nodes", "no node has GPUs, as far as device plugins and the label nvidia.com/gpu.present say", "see that the device plugin or the GPU operator runs")}
	}
	answers := e.world.Deps.GPUs.Snapshots(ctx, nodes, 0)
	judged := judge.Answers(e.world.Now(), e.world.NoSuchNode(ctx, answers))
	var out []Finding
	var good []string
	for i, a := range answers {
		switch n := judged[i]; {
		case a.Err != nil:
			out = append(out, failed(a.Node, a.Err.Error(), "see that its agent runs and is the one that gpu.agents describes, or that dcgm-exporter's series are in Prometheus with the node's name"))
		case n.Verdict == judge.Uncertain:
			out = append(out, warning(a.Node, "its GPUs cannot be judged: "+firstFinding(n), "export what is missing; 'responder gpu status "+a.Node+"' has all of it"))
		default:
			good = append(good, a.Node)
		}
	}
	if len(good) == 0 {
		without("of no node the state of its GPUs is known")
	}
	if len(good) > 0 {
		out = append(out, ok("nodes", fmt.Sprintf("%d of %d tell the state of their GPUs: %s", len(good), len(nodes), some(good, 5))))
	}
	return out
}

// firstFinding is why the GPUs of a node cannot be judged.
func firstFinding(n judge.NodeJudgement) string {
	for _, f := range n.Findings() {
		if f.Verdict == judge.Uncertain {
			return f.Text
		}
	}
	return "no reading is complete"
}

// apart is how far clocks may be apart. Samples, silences and deadlines are compared
// with our time.
const apart = 5 * time.Second

// clocks compares ours with those of the others.
func (e *exam) clocks(ctx context.Context) []Finding {
	var out []Finding
	ask := func(whose string, clock func(context.Context) (ahead, within time.Duration, err error)) {
		ahead, within, err := clock(ctx)
		switch {
		case err != nil:
			out = append(out, notAsked(whose, because(ctx, err)))
		case ahead.Abs() > apart+within:
			side := "ahead of"
			if ahead < 0 {
				side = "behind"
			}
			out = append(out, warning(whose, fmt.Sprintf("its clock is %s %s ours", ahead.Abs().Round(100*time.Millisecond), side),
				"let both machines follow a time server: samples, silences and deadlines are compared with our time"))
		default:
			out = append(out, ok(whose, fmt.Sprintf("within %s of ours", (ahead.Abs()+within).Round(100*time.Millisecond))))
		}
	}
	if e.prom != nil {
		ask("prometheus", e.prom.Clock)
	}
	if e.cluster != nil {
		ask("API server", e.cluster.Clock)
	}
	if len(out) == 0 {
		out = append(out, notAsked("others", "neither Prometheus nor a cluster is configured"))
	}
	return out
}

package steptest

import (
	"context"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Application implements [step.Applications].
func (g *Git) Application(_ context.Context, name string) (gitops.Application, error) {
	if g.ArgoDown != nil {
		return gitops.Application{}, g.ArgoDown
	}
	if name != g.App.Name && name != "chat" {
		return gitops.Application{}, &fault.Error{Reason: fault.NotFound, Message: "no application " + name}
	}
	app := g.App
	app.History = slices.Clone(app.History)
	app.Revisions = slices.Clone(app.Revisions)
	return app, nil
}

// Refresh implements [step.Applications].
func (g *Git) Refresh(context.Context, string) error {
	if g.ArgoDown != nil {
		return g.ArgoDown
	}
	g.App.Compared = g.Now().Add(time.Second)
	if head := g.Head().SHA; g.App.Revisions[0] != head {
		g.App.Sync, g.App.Revisions = "OutOfSync", []string{head}
		if g.App.Automated && g.App.Window == "" {
			g.begin([]string{head})
		}
	}
	return nil
}

// Lacks implements [step.Applications].
func (g *Git) Lacks(context.Context, string) (string, error) { return g.NoSync, g.ArgoDown }

// Sync implements [step.Applications].
func (g *Git) Sync(_ context.Context, s gitops.Sync) error {
	if g.ArgoDown != nil {
		return g.ArgoDown
	}
	if g.App.Operation.Running {
		return &fault.Error{Reason: fault.Throttled, Message: "another operation is running"}
	}
	if g.App.Window != "" {
		return &fault.Error{Reason: fault.Throttled, Message: "closed by sync window " + g.App.Window}
	}
	g.Syncs = append(g.Syncs, s)
	g.begin(s.Revisions)
	g.App.Operation.Key = s.Key
	return nil
}

// Stop implements [step.Applications].
func (g *Git) Stop(_ context.Context, _, key string) error {
	if op := &g.App.Operation; op.Running && op.Key == key {
		op.Running, op.Phase, op.Message, op.Finished = false, "Failed", "Operation terminated", g.Now()
	}
	return g.ArgoDown
}

func (g *Git) begin(revisions []string) {
	g.App.Operation = gitops.Operation{Running: true, Phase: "Running", Revisions: revisions}
}

// Settle lets Argo CD's controller look and come to the end of its operation.
func (g *Git) Settle() {
	if g.App.Automated && g.ArgoDown == nil && !g.App.Operation.Running {
		_ = g.Refresh(context.Background(), "") // unreachable to fail: it is up
	}
	op := &g.App.Operation
	if !op.Running || g.Stuck {
		return
	}
	op.Running, op.Phase, op.Finished = false, "Succeeded", g.Now()
	g.App.Compared = op.Finished.Add(time.Second)
	if g.Fails != "" {
		op.Phase, op.Message = "Failed", g.Fails
		return
	}
	g.deployed(op.Revisions[0])
	g.App.Sync = "Synced"
	if !g.App.Automated && op.Revisions[0] != g.Head().SHA || slices.ContainsFunc(g.App.Resources, func(r gitops.Resource) bool { return r.Sync != "Synced" }) {
		g.App.Sync = "OutOfSync" // of what else it has, no sync helps
	}
}

func (g *Git) deployed(sha string) {
	id := int64(len(g.App.History) + 1)
	g.App.History = append(g.App.History, gitops.Deployment{ID: id, Revisions: []string{sha}, At: g.Now()})
	g.App.Revisions = []string{sha}
}

package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// readOnly gives the dependencies of a dry run: everything that could change
// something is refused before it reaches the world. Autonomy observe already
// keeps the executor from asking; this keeps a mistake from mattering.
func readOnly(d step.Deps) step.Deps {
	if d.Changer != nil {
		d.Changer = dryRunChanger{d.Changer}
	}
	if d.Prober != nil {
		d.Prober = readingProber{d.Prober}
	}
	d.Notifier = silentNotifier{}
	return d
}

// dryRunChanger lets only changes through that the server validates and forgets.
type dryRunChanger struct{ next step.Changer }

// Scale refuses everything but a server-side dry-run.
func (c dryRunChanger) Scale(ctx context.Context, change kube.ScaleChange) (kube.Applied, error) {
	if !change.DryRun {
		return kube.Applied{}, refuseWrite("scale", change.Ref)
	}
	return c.next.Scale(ctx, change)
}

// Undo refuses everything but a server-side dry-run.
func (c dryRunChanger) Undo(ctx context.Context, change kube.UndoChange) (kube.Applied, error) {
	if !change.DryRun {
		return kube.Applied{}, refuseWrite("roll back", change.Ref)
	}
	return c.next.Undo(ctx, change)
}

func refuseWrite(what string, ref kube.Ref) error {
	return &step.Error{
		Reason:  machine.ReasonForbidden,
		Message: fmt.Sprintf("dry run: refused to %s %s %s/%s; a dry run changes nothing, so this is a mistake in the program: please report it", what, ref.Kind, ref.Namespace, ref.Name),
	}
}

// readingProber lets only requests through that ask for something.
type readingProber struct{ next step.Prober }

// Do refuses every method but GET and HEAD.
func (p readingProber) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return nil, fmt.Errorf("dry run: refused to %s %s", req.Method, req.URL.Redacted())
	}
	return p.next.Do(req)
}

// silentNotifier tells nobody: a dry run's messages are part of its output.
type silentNotifier struct{}

// Notify does nothing.
func (silentNotifier) Notify(context.Context, step.Notice) error { return nil }

package step

import (
	"context"
	"encoding/json"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
)

// follower is a lever that can be told when its change takes effect, so that
// nobody has to look again and again. Settling follows after it has looked.
type follower interface {
	// follow waits for news of a change that is made and not in effect, for a
	// part of the context's time, and reports whether looking again is worth it.
	follow(ctx context.Context, plan machine.Plan, receipt json.RawMessage) (news bool)
}

// watcher is an [Applications] that tells when an application runs a commit, or
// when the sync of it has failed.
type watcher interface {
	Watch(ctx context.Context, name, revision string, contains func(sha string) bool, progress func(string)) (gitops.Application, error)
}

// Following ends early enough for a look after it, and is short, because what
// people change in Git meanwhile is seen by looking only.
const (
	followFor = 15 * time.Second
	lookNeeds = 5 * time.Second
)

// follow implements [follower].
func (g gitChange) follow(ctx context.Context, plan machine.Plan, receipt json.RawMessage) bool {
	w, ok := g.a.(watcher)
	if !ok {
		return false
	}
	p, err := payload[gitPayload](plan.Step, plan.Payload)
	var made gitReceipt
	if err != nil || json.Unmarshal(receipt, &made) != nil || made.Revision == "" {
		return false
	}
	within := followFor
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline)-lookNeeds)
	}
	if within <= 0 {
		return false
	}
	watched, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err = w.Watch(watched, p.Application, made.Revision, func(descendant string) bool {
		return g.contains(ctx, p)(made.Revision, descendant)
	}, func(string) {})
	// An error that is not the end of the time is news too: a sync that failed.
	return ctx.Err() == nil && (err == nil || watched.Err() == nil)
}

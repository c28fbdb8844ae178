package git

import (
	"context"
	"encoding/json"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// watcher is an [Applications] that tells when an application is settled by a
// judge's rule, or has failed by it.
type watcher interface {
	Watch(ctx context.Context, name string, judge func(gitops.Application) (gitops.Rollout, string), progress func(string)) (gitops.Application, error)
}

// Following ends early enough for a look after it, and is short, because what
// people change in Git meanwhile is seen by looking only.
const (
	followFor = 15 * time.Second
	lookNeeds = 5 * time.Second
)

// Follow implements [follower].
func (g Change) Follow(ctx context.Context, plan machine.Plan, receipt json.RawMessage) (told []step.Progress, news bool) {
	w, ok := g.a.(watcher)
	if !ok {
		return nil, false
	}
	p, err := step.Payload[gitPayload](plan.Step, plan.Payload)
	var made step.GitReceipt
	if err != nil || json.Unmarshal(receipt, &made) != nil || made.Revision == "" {
		return nil, false
	}
	plan.Drift = amissAt(plan, receipt)
	within := followFor
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline)-lookNeeds)
	}
	if within <= 0 {
		return nil, false
	}
	watched, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err = w.Watch(watched, p.Application, g.judge(ctx, plan, p, made.Revision), func(text string) {
		told = append(told, step.Progress{At: time.Now(), Text: p.Application + ": " + text})
	})
	// An error that is not the end of the time is news too: a sync that failed.
	return told, ctx.Err() == nil && (err == nil || watched.Err() == nil)
}

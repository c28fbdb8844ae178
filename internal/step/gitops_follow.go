package step

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
)

// follower is a lever that can be told when its change takes effect, so that
// nobody has to look again and again. Settling follows after it has looked.
type follower interface {
	// follow waits for news of a change that is made and not in effect, for a
	// part of the context's time. It gives what was told meanwhile, and reports
	// whether looking again is worth it.
	follow(ctx context.Context, plan machine.Plan, receipt json.RawMessage) (told []progress, news bool)
}

// progress is a word on how far a change is on its way into effect.
type progress struct {
	at   time.Time
	text string
}

// maxTold is how much of what was told during one look is kept: the newest.
const maxTold = 8

// seen adds what was told during a look to what it saw: one line for each, for
// people, and the last one is where the change stands now.
func (o *Observation) seen(told []progress) {
	if n := len(told); n > 0 && strings.Contains(o.Progress, told[0].text) {
		told = told[1:] // what the look saw itself
	}
	if n := len(told) - maxTold; n > 0 {
		told = told[n:]
	}
	for _, p := range told {
		o.Seen = append(o.Seen, p.at.UTC().Format("15:04:05Z ")+p.text)
		o.Progress = p.text
	}
}

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

// follow implements [follower].
func (g gitChange) follow(ctx context.Context, plan machine.Plan, receipt json.RawMessage) (told []progress, news bool) {
	w, ok := g.a.(watcher)
	if !ok {
		return nil, false
	}
	p, err := payload[gitPayload](plan.Step, plan.Payload)
	var made gitReceipt
	if err != nil || json.Unmarshal(receipt, &made) != nil || made.Revision == "" {
		return nil, false
	}
	plan.Beside = amissAt(plan, receipt)
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
		told = append(told, progress{time.Now(), p.Application + ": " + text})
	})
	// An error that is not the end of the time is news too: a sync that failed.
	return told, ctx.Err() == nil && (err == nil || watched.Err() == nil)
}

package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// watched is an Argo CD that tells when there is news.
type watched struct {
	step.Applications
	watch func(ctx context.Context, tell func(string)) error
}

func (w watched) Watch(ctx context.Context, _ string, _ func(gitops.Application) (gitops.Rollout, string), tell func(string)) (gitops.Application, error) {
	return gitops.Application{}, w.watch(ctx, tell)
}

// TestSettleFollows: one look follows a sync to its end, good or bad, and one
// that takes longer is looked at again, with time left to do so.
func TestSettleFollows(t *testing.T) {
	for name, tt := range map[string]struct {
		watch  func(*gitWorld, context.Context) error
		status machine.Status
		words  string
	}{
		"synced": {func(w *gitWorld, _ context.Context) error { w.Settle(); return nil }, machine.StatusOK, "healthy"},
		"failed": {func(w *gitWorld, _ context.Context) error {
			w.Fails = "chat is invalid"
			w.Settle()
			return errors.New("the sync failed")
		}, machine.StatusFailed, "chat is invalid"},
		"longer": {func(_ *gitWorld, ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, machine.StatusPending, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inGit(false)
				followed := 0
				w.deps.Applications = watched{w, func(ctx context.Context, _ func(string)) error {
					followed++
					return tt.watch(w, ctx)
				}}
				plan := w.plan(t, "gitops.set_flag", seqs)
				o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
				began := time.Now()
				want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), tt.status, tt.words)
				if followed != 1 {
					t.Errorf("followed %d times, want once", followed)
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("one look took %v, of the 30 s it has", took)
				}
			})
		})
	}
}

// TestSettleTells: what is told while a look follows is in its outcome, so that
// people see how far it is: the last word as where it stands, and the newest of
// those before it.
func TestSettleTells(t *testing.T) {
	const last = "synced at abc, health Progressing: apps/Deployment serving/chat: Waiting for rollout to finish: 2 out of 3 new replicas have been updated..."
	for name, tt := range map[string]struct {
		told    int
		settles bool
		status  machine.Status
		message string
		facts   int
	}{
		"nothing": {0, false, machine.StatusPending, "argocd/chat: a sync to", 0},
		"some":    {3, false, machine.StatusPending, "argocd/chat: " + last, 4},
		"many":    {200, false, machine.StatusPending, "argocd/chat: " + last, 8},
		"settled": {3, true, machine.StatusOK, "healthy", 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := inGit(false)
				w.deps.Applications = watched{w, func(ctx context.Context, tell func(string)) error {
					if tt.told > 0 {
						tell("a sync to " + w.Head().SHA[:10] + " runs, started by Argo CD") // the look saw that
						for i := range tt.told {
							tell(fmt.Sprint("news ", i))
						}
						tell(last)
					}
					if tt.settles {
						w.Settle()
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}}
				plan := w.plan(t, "gitops.set_flag", seqs)
				o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
				got := w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false)
				want(t, "settle", got, tt.status, tt.message)
				if len(got.Facts) != tt.facts || tt.facts > 0 && !strings.HasSuffix(got.Facts[tt.facts-1], "Z argocd/chat: "+last) {
					t.Errorf("%d lines, want %d: %q", len(got.Facts), tt.facts, got.Facts)
				}
				if strings.Contains(strings.Join(got.Facts, "\n"), "runs, started by") {
					t.Errorf("what the look saw is told twice: %q", got.Facts)
				}
			})
		})
	}
}

package step_test

import (
	"context"
	"errors"
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
	watch func(ctx context.Context, revision string) error
}

func (w watched) Watch(ctx context.Context, _, revision string, _ func(string) bool, _ func(string)) (gitops.Application, error) {
	return gitops.Application{}, w.watch(ctx, revision)
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
				var followed []string
				w.deps.Applications = watched{w, func(ctx context.Context, revision string) error {
					followed = append(followed, revision)
					return tt.watch(w, ctx)
				}}
				plan := w.plan(t, "gitops.set_flag", seqs)
				o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
				began := time.Now()
				want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), tt.status, tt.words)
				if len(followed) != 1 || followed[0] != w.Head().SHA {
					t.Errorf("followed %q, want the commit %s once", followed, w.Head().SHA)
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("one look took %v, of the 30 s it has", took)
				}
			})
		})
	}
}

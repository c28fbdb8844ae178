package kinds_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// drift adds a resource with pre-existing drift to the application.
func (w *gitWorld) drift(sync, health string) {
	w.App.Resources = append(w.App.Resources, gitops.Resource{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "other", Sync: sync, Health: health})
	if sync != "Synced" {
		w.App.Sync = sync
	}
	if health != "Healthy" {
		w.App.Health = health
	}
	w.App.Operation = gitops.Operation{Phase: "Succeeded", Revisions: slices.Clone(w.App.History[len(w.App.History)-1].Revisions), Finished: w.now.Add(-time.Minute)}
	w.App.Compared = w.now
}

// TestDrift: what had drifted besides the service before the change keeps nobody
// from making it, and says nothing of what became of it.
func TestDrift(t *testing.T) {
	for name, tt := range map[string]struct {
		sync, health, note string
		automated          bool
	}{
		"never in sync":      {"OutOfSync", "Healthy", "apps/Deployment serving/other OutOfSync", true},
		"never healthy":      {"Synced", "Degraded", "apps/Deployment serving/other Degraded", true},
		"neither":            {"OutOfSync", "Degraded", "apps/Deployment serving/other OutOfSync and Degraded", true},
		"synced by hand":     {"Synced", "Degraded", "apps/Deployment serving/other Degraded", false},
		"suspended for good": {"Synced", "Suspended", "apps/Deployment serving/other Suspended", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(tt.automated)
			w.drift(tt.sync, tt.health)
			plan := w.plan(t, "gitops.set_flag", seqs)
			if !strings.Contains(strings.Join(plan.Notes, "; "), "pre-existing drift of application argocd/chat, which does not count: "+tt.note) {
				t.Errorf("the plan does not say it: %q", plan.Notes)
			}
			alone := inGit(tt.automated)
			if other := alone.plan(t, "gitops.set_flag", seqs); other.Digest() != plan.Digest() {
				t.Error("an approval is void because of what moves beside the change")
			}
			o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
			want(t, "apply", o, machine.StatusOK, "")
			w.Settle()
			want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusOK, "healthy")
			back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false)
			want(t, "undo", back, machine.StatusOK, "")
			w.Settle()
			want(t, "unwind", w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false), machine.StatusOK, "healthy")
		})
	}
}

// TestDriftHidesNothing: drift of the service itself counts as before, and so
// does drift that began after the change.
func TestDriftHidesNothing(t *testing.T) {
	w := inGit(true)
	w.drift("OutOfSync", "Degraded")
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	w.Settle()
	own := &w.App.Resources[0]
	own.Health, own.Message = "Degraded", "exceeded its progress deadline"
	want(t, "ours", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, "but degraded: apps/Deployment serving/chat: exceeded")
	w.now = w.now.Add(5 * time.Minute)
	want(t, "ours", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusFailed, "serving/chat: exceeded its progress deadline")
	own.Health, own.Message, own.Sync = "Healthy", "", "OutOfSync"
	want(t, "ours", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, "OutOfSync at")
	own.Sync = "Synced"
	w.App.Resources = append(w.App.Resources, gitops.Resource{Kind: "Service", Namespace: "serving", Name: "chat", Sync: "OutOfSync"})
	want(t, "since", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, ": Service serving/chat")
}

// TestDriftRefused: what a sync would take back along with the change, or what
// makes the sync of the change fail, is not carried out.
func TestDriftRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*gitWorld)
		text   string
	}{
		"changed by hand, and nobody heals it":  {func(w *gitWorld) { w.App.SelfHeal = false }, "serving/other differs; this change would also revert"},
		"synced by hand":                        {func(w *gitWorld) { w.App.Automated, w.App.SelfHeal = false, false }, "serving/other differs; this change would also revert"},
		"the sync of it fails":                  {func(w *gitWorld) { w.App.Operation.Phase = "Failed" }, "serving/other differs"},
		"the service's own object differs, too": {func(w *gitWorld) { w.App.Resources[0].Sync = "OutOfSync" }, "serving/chat differs"},
		"errors":                                {func(w *gitWorld) { w.App.Problems = []string{"SyncError: refused"} }, "SyncError: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			w.drift("OutOfSync", "Healthy")
			good := w.plan(t, "gitops.set_flag", seqs)
			tt.change(w)
			o := w.do(t, "gitops.set_flag", machine.ActionPlan, seqs, nil, nil, false)
			if want(t, "plan", o, machine.StatusFailed, tt.text); o.Reason != fault.Throttled {
				t.Errorf("%s", o.Reason)
			}
			head := w.Head().SHA
			o = w.do(t, "gitops.set_flag", machine.ActionApply, seqs, good, nil, false)
			if want(t, "apply", o, machine.StatusFailed, "is OutOfSync since it was planned"); o.Reason != fault.Conflict || w.Head().SHA != head {
				t.Errorf("%s, head %q", o.Reason, w.Head().Subject)
			}
		})
	}
}

// TestDriftSincePlan: what drifted between the plan and the change, or ended
// worse than it was, is not excused.
func TestDriftSincePlan(t *testing.T) {
	for name, tt := range map[string]struct{ before, applied string }{
		"rolled out, and failed":        {"Progressing", "Progressing"},
		"rolled out, well, and failed":  {"Progressing", "Healthy"},
		"halted, and failed":            {"Suspended", "Suspended"},
		"failed, well, and failed anew": {"Degraded", "Healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			w.drift("Synced", tt.before)
			other := &w.App.Resources[len(w.App.Resources)-1]
			plan := w.plan(t, "gitops.set_flag", seqs)
			other.Health = tt.applied // while it waits for its approval
			o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
			want(t, "apply", o, machine.StatusOK, "")
			w.Settle()
			w.App.Health, other.Health = "Degraded", "Degraded"
			w.now = w.now.Add(time.Hour)
			o = w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false)
			want(t, "settle", o, machine.StatusFailed, ": apps/Deployment serving/other")
		})
	}
}

// TestDriftWithoutReceipt: a crash between the write and the journal excuses
// nothing more, and nothing less. A commit says which drift was left when it was
// made; of a sync, and of a pull request, what is fine at the next look is not.
func TestDriftWithoutReceipt(t *testing.T) {
	for name, tt := range map[string]struct {
		kind                  string
		protected             bool
		before, applied, look string // the other resource's health: planned, written, and looked at
		status                machine.Status
		says                  string
	}{
		"fine at the push, and failed since": {"gitops.set_flag", false, "Degraded", "Healthy", "Degraded", machine.StatusFailed, ": apps/Deployment serving/other"},
		"failing all the time":               {"gitops.set_flag", false, "Degraded", "Degraded", "Degraded", machine.StatusOK, "healthy"},
		"failing, and fine at the look":      {"gitops.set_flag", false, "Degraded", "Degraded", "Healthy", machine.StatusOK, "healthy"},
		"a request, fine at the look":        {"gitops.set_flag", true, "Degraded", "Degraded", "Healthy", machine.StatusFailed, ": apps/Deployment serving/other"},
		"a request, failing all the time":    {"gitops.set_flag", true, "Degraded", "Degraded", "Degraded", machine.StatusOK, "healthy"},
		"a sync, fine at the look":           {"argocd.sync", false, "Degraded", "Degraded", "Healthy", machine.StatusFailed, ": apps/Deployment serving/other"},
		"a sync, failing all the time":       {"argocd.sync", false, "Degraded", "Degraded", "Degraded", machine.StatusOK, "healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(tt.kind != "argocd.sync")
			w.Protected = tt.protected
			with := seqs
			if tt.kind == "argocd.sync" {
				with = nil
				w.Push("ada", "new router", map[string]string{"replicas": "4"})
				w.refresh()
			}
			w.drift("Synced", tt.before)
			if tt.kind == "argocd.sync" {
				w.App.Sync = "OutOfSync"
			}
			other := &w.App.Resources[len(w.App.Resources)-1]
			plan := w.plan(t, tt.kind, with)
			other.Health = tt.applied
			want(t, "apply", w.do(t, tt.kind, machine.ActionApply, with, plan, nil, false), machine.StatusOK, "")
			if !tt.protected {
				w.Settle()
			}
			w.App.Health, other.Health = tt.look, tt.look
			looked := w.do(t, tt.kind, machine.ActionApply, with, plan, nil, true)
			want(t, "look", looked, machine.StatusOK, "")
			w.MergeAll()
			w.Settle()
			w.App.Health, other.Health = "Degraded", "Degraded"
			w.now = w.now.Add(time.Hour)
			want(t, "settle", w.do(t, tt.kind, machine.ActionSettle, with, plan, looked.Data, false), tt.status, tt.says)
		})
	}
}

// TestDriftUnreadable: while Argo CD cannot be asked nothing is settled of what does
// not count: what is fine at a later look is not excused after it.
func TestDriftUnreadable(t *testing.T) {
	w := inGit(true)
	w.Protected = true
	w.drift("Synced", "Degraded")
	other := &w.App.Resources[len(w.App.Resources)-1]
	plan := w.plan(t, "gitops.set_flag", seqs)
	want(t, "apply", w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false), machine.StatusOK, "")
	w.ArgoDown = &fault.Error{Reason: fault.Unreachable, Message: "no route"}
	looked := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, true)
	want(t, "look", looked, machine.StatusOK, "")
	w.ArgoDown = nil
	w.MergeAll()
	delete(w.Head().Trailers, gitops.TrailerDrift) // as by a squash
	w.Settle()
	w.App.Health, other.Health = "Healthy", "Healthy"
	settled := w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, looked.Data, false)
	want(t, "settle", settled, machine.StatusOK, "healthy")
	back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, settled.Data, false)
	want(t, "undo", back, machine.StatusOK, "")
	w.MergeAll()
	w.Settle()
	w.App.Health, other.Health = "Degraded", "Degraded"
	w.now = w.now.Add(time.Hour)
	want(t, "unwind", w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false), machine.StatusFailed, ": apps/Deployment serving/other")
}

// TestSyncHidesNothingOfItsOwn: what a sync brings in counts, however unhealthy
// it was before; what it leaves alone does not.
func TestSyncHidesNothingOfItsOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, sync, before string
		status             machine.Status
	}{
		"it gets a new image":           {"argocd.sync", "OutOfSync", "Degraded", machine.StatusFailed},
		"it rolled out":                 {"argocd.sync", "OutOfSync", "Progressing", machine.StatusFailed},
		"nothing of it is new":          {"argocd.sync", "Synced", "Degraded", machine.StatusOK},
		"nobody knows what is put back": {"argocd.rollback", "Synced", "Degraded", machine.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(false)
			if tt.kind == "argocd.sync" {
				w.Push("ada", "new router", map[string]string{"replicas": "4"})
				w.refresh()
			}
			w.drift(tt.sync, tt.before)
			if tt.kind == "argocd.sync" {
				w.App.Sync = "OutOfSync"
			}
			other := &w.App.Resources[len(w.App.Resources)-1]
			plan := w.plan(t, tt.kind, nil)
			o := w.do(t, tt.kind, machine.ActionApply, nil, plan, nil, false)
			want(t, "apply", o, machine.StatusOK, "")
			other.Sync = "Synced"
			w.Settle()
			w.App.Health, other.Health = "Degraded", "Degraded"
			w.now = w.now.Add(time.Hour)
			want(t, "settle", w.do(t, tt.kind, machine.ActionSettle, nil, plan, o.Data, false), tt.status, "")
		})
	}
}

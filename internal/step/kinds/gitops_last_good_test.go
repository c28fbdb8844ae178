package kinds_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// verified is what was last verified, by variable: the commit.
type verified map[string]string

func (v verified) LastGood(_, variable string) (value, sha string, ok bool) {
	sha, ok = v[variable]
	return "", sha, ok
}

// TestRevertToLastGood: each variable has a last good commit of its own, and one
// that was verified for another variable does not count.
func TestRevertToLastGood(t *testing.T) {
	type commits struct{ first, second, seqs, tokens, later string }
	push := func(w *gitWorld) (c commits) {
		c.first, c.second = w.Commits[0].SHA, w.Commits[1].SHA
		for i, change := range []map[string]string{{"--max-num-seqs": "512"}, {"--max-num-batched-tokens": "8192"}, {"--max-num-seqs": "640"}} {
			w.now = noon.Add(time.Duration(i-10) * time.Minute)
			sha := w.Push("eve", "tune", change)
			*[]*string{&c.seqs, &c.tokens, &c.later}[i] = sha
			w.Settle()
		}
		w.now = noon
		return c
	}
	for name, tt := range map[string]struct {
		good   func(commits) verified
		want   func(commits) []string // commits that are reverted
		reason fault.Reason
		text   string
	}{
		"of that variable": {
			func(c commits) verified { return verified{"--max-num-seqs": c.first, "": c.tokens} },
			func(c commits) []string { return []string{c.later, c.seqs} }, "", "",
		},
		"verified in between": {
			func(c commits) verified { return verified{"--max-num-seqs": c.seqs, "": c.tokens} },
			func(c commits) []string { return []string{c.later} }, "", "",
		},
		"the newest is good": {
			func(c commits) verified {
				return verified{"--max-num-seqs": c.later, "--max-num-batched-tokens": c.first}
			},
			func(c commits) []string { return []string{c.tokens, c.second} }, "", "",
		},
		"all are good": {
			func(c commits) verified {
				return verified{"--max-num-seqs": c.later, "--max-num-batched-tokens": c.later}
			},
			nil, fault.NothingToDo, "as it was last verified: --max-num-seqs at",
		},
		"only another one": {
			func(c commits) verified { return verified{"": c.tokens, "image": c.first} },
			nil, fault.NoData, "what moved last is --max-num-seqs, by commit ",
		},
		"what moved last never was": { // though what moved before it was
			func(c commits) verified { return verified{"--max-num-batched-tokens": c.first} },
			nil, fault.NoData, "no value of it was ever verified on service serving/chat",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			c := push(w)
			w.deps.LastGood = tt.good(c)
			o := w.do(t, "gitops.revert", machine.ActionPlan, map[string]any{"to": "last_good"}, nil, nil, false)
			if o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Fatalf("%s %s %q, want %q ...%s...", o.Status, o.Reason, o.Message, tt.reason, tt.text)
			}
			if tt.want == nil {
				return
			}
			for _, sha := range tt.want(c) {
				if !slices.ContainsFunc(o.Plan.Notes, func(n string) bool { return strings.HasPrefix(n, "reverts "+sha[:9]) }) {
					t.Errorf("%q do not revert %s", o.Plan.Notes, sha[:9])
				}
			}
			if n := strings.Count(strings.Join(o.Plan.Notes, "\n"), "reverts "); n != len(tt.want(c)) {
				t.Errorf("%d commits are reverted, want %d: %q", n, len(tt.want(c)), o.Plan.Notes)
			}
		})
	}
}

// TestRollbackKeepsRepairs: the rollback of an application that syncs by itself
// takes no repair of Responder's own back, unless its cause goes back too.
func TestRollbackKeepsRepairs(t *testing.T) {
	w := inGit(true)
	plan := w.plan(t, "gitops.set_flag", seqs)
	want(t, "apply", w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false), machine.StatusOK, "")
	w.Settle()
	ours := w.Head().SHA
	before := w.Text()
	o := w.do(t, "argocd.rollback", machine.ActionPlan, nil, nil, nil, false)
	if o.Status != machine.StatusRefused || o.Reason != fault.NothingToDo || !strings.Contains(o.Message, "a repair by Responder, "+ours[:9]) || !strings.Contains(o.Message, "gitops.revert with a window reverts what others changed") {
		t.Errorf("over a repair: %s %s %q", o.Status, o.Reason, o.Message)
	}
	if w.Text() != before {
		t.Error("a plan changed something")
	}
	w.Push("eve", "again", map[string]string{"image": "vllm:v0.12"})
	w.Settle()
	if p := w.plan(t, "argocd.rollback", nil); !strings.Contains(p.Summary, "again") {
		t.Errorf("after a repair: %s", p.Summary)
	}

	w = inGit(true)
	cause := w.Head().SHA
	plan = w.plan(t, "gitops.revert", map[string]any{"to": "previous"})
	want(t, "revert", w.do(t, "gitops.revert", machine.ActionApply, nil, plan, nil, false), machine.StatusOK, "")
	w.App.History = w.App.History[:1] // neither the cause nor its repair was deployed alone
	later := w.Push("eve", "again", map[string]string{"image": "vllm:v0.12"})
	w.Settle()
	p := w.plan(t, "argocd.rollback", nil)
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "reverts "+later[:9]) || strings.Contains(notes, cause[:9]) || strings.Count(notes, "reverts ") != 1 {
		t.Errorf("over a cause and its repair: %q", p.Notes)
	}
}

// TestOwnCommitIsNoCause: a revision that Argo CD made of a commit of ours is a
// repair, and one that anybody else made since is not.
func TestOwnCommitIsNoCause(t *testing.T) {
	svc := service("Deployment")
	svc.GitOps.Application = "argocd/chat"
	for name, tt := range map[string]struct {
		change func(*gitWorld)
		ours   bool
		fact   string
	}{
		"our revert":       {func(*gitWorld) {}, true, "put back by Responder"},
		"a commit over it": {func(w *gitWorld) { w.Push("eve", "again", map[string]string{"image": "vllm:v0.12"}); w.Settle() }, false, ""},
		"one that waits": {func(w *gitWorld) {
			w.App.Automated = false
			w.Push("eve", "later", map[string]string{"image": "vllm:v0.12"})
		}, true, ""},
		"a change by hand":  {func(w *gitWorld) { w.App.Sync = "OutOfSync" }, false, ""},
		"an older revision": {func(w *gitWorld) { w.deps.Workloads = revised{at: noon.Add(-time.Hour)} }, false, ""},
		"Argo CD is away": {func(w *gitWorld) {
			w.ArgoDown = &fault.Error{Reason: fault.Unreachable, Message: "no route"}
		}, false, "could not be found out: no route"},
		"Git is away": {func(w *gitWorld) {
			w.Down = &fault.Error{Reason: fault.Unreachable, Message: "no route"}
		}, false, "could not be found out: no route"},
		"another's replicas": {func(w *gitWorld) { w.Push("eve", "more", map[string]string{"replicas": "5"}); w.Settle() }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			plan := w.plan(t, "gitops.revert", map[string]any{"to": "previous"})
			want(t, "apply", w.do(t, "gitops.revert", machine.ActionApply, nil, plan, nil, false), machine.StatusOK, "")
			w.Settle()
			w.now = noon.Add(time.Minute)
			w.deps.Workloads = revised{at: w.now}
			tt.change(w)
			o := kinds.New(w.deps).Do(t.Context(), machine.Effect{
				Key: "r-2/changed#1/check#1", Run: "r-2", Action: machine.ActionCheck, Step: "kube.changes", With: map[string]any{"window": "1h"}, Service: svc,
			})
			var out struct{ Ours bool }
			if err := json.Unmarshal(o.Data, &out); err != nil || out.Ours != tt.ours || !strings.Contains(strings.Join(o.Facts, "\n"), tt.fact) {
				t.Errorf("ours %t, %v, %q; want %t and %q", out.Ours, err, o.Facts, tt.ours, tt.fact)
			}
		})
	}
}

// revised is a workload of two revisions.
type revised struct {
	argoFleet

	at time.Time // since when the second is the current one
}

func (r revised) Revisions(context.Context, kube.Ref) ([]kube.Revision, error) {
	return []kube.Revision{{Number: 1, Created: r.at.Add(-time.Hour)}, {Number: 2, Created: r.at, Current: true}}, nil
}

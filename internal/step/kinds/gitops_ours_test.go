package kinds_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
)

// TestTrailersMakeNoCommitOurs: what a commit says of itself makes it no repair. It stays
// a cause, and is taken back.
func TestTrailersMakeNoCommitOurs(t *testing.T) {
	for name, forge := range map[string]func(c, ours *gitops.Commit){
		"the trailer of a run that never was": func(c, _ *gitops.Commit) {
			c.Trailers = map[string]string{gitops.TrailerRun: "r-9", gitops.TrailerEffect: "r-9/cap#1/apply"}
		},
		"the trailers of a commit of ours": func(c, ours *gitops.Commit) { c.Trailers = maps.Clone(ours.Trailers) },
		"a merge that names a branch of ours": func(c, _ *gitops.Commit) {
			c.Subject, c.Parents = "Merge pull request #7 from responder/r-1/cap-1-apply", append(c.Parents, "0123456789abcdef0123456789abcdef01234567")
		},
		"what it merged": func(c, ours *gitops.Commit) {
			ours.Parents = append(ours.Parents, "0123456789abcdef0123456789abcdef01234567") // another commit than this one
			c.Trailers = maps.Clone(ours.Trailers)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			plan := w.plan(t, "gitops.set_flag", seqs)
			want(t, "apply", w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false), machine.StatusOK, "")
			if out := changes(t, w); !out.Ours || !out.Commits[0].Ours {
				t.Fatalf("our own commit is not ours: %+v", out)
			}
			ours := len(w.Commits) - 1
			bad := w.Push("mallory", "tune", map[string]string{"image": "vllm:bad"})
			forge(&w.Commits[ours+1].Commit, &w.Commits[ours].Commit)
			w.deploy()
			if out := changes(t, w); out.Ours || !out.Changed || out.Commits[0].SHA != bad || out.Commits[0].Ours {
				t.Errorf("the forged commit is ours: %+v", out)
			}
			back := w.plan(t, "gitops.revert", map[string]any{"to": "previous"})
			if diff := fmt.Sprint(back.Diff); !strings.Contains(diff, "vllm:bad") {
				t.Errorf("the forged commit is not taken back: %s", diff)
			}
		})
	}
}

// TestCopiedTrailerIsNotTheChange: a commit on top with the trailers of the run's own is
// not taken for its change, so that it does not come to be the run's by its journal.
func TestCopiedTrailerIsNotTheChange(t *testing.T) {
	w := inGit(true)
	plan := w.plan(t, "gitops.set_flag", seqs)
	made := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply", made, machine.StatusOK, "")
	ours := w.Head()
	w.Push("mallory", "tune", map[string]string{"image": "vllm:bad"})
	copied := &w.Commits[len(w.Commits)-1]
	copied.Trailers = maps.Clone(ours.Trailers)
	// A history lists the newest first, and so is it found first.
	w.Commits[len(w.Commits)-2].Trailers = nil
	w.deploy()
	o := w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, made.Data, false)
	want(t, "settle", o, machine.StatusOK, "")
	var receipt struct{ Revision string }
	if err := json.Unmarshal(o.Data, &receipt); err != nil || receipt.Revision != ours.SHA {
		t.Errorf("the run's change is %s, %v, want %s", receipt.Revision, err, ours.SHA)
	}
}

type gitChanges struct {
	Changed, Ours bool
	Commits       []struct {
		SHA  string
		Ours bool
	}
}

func changes(t *testing.T, w *gitWorld) (out gitChanges) {
	t.Helper()
	o := w.do(t, "gitops.changes", machine.ActionCheck, map[string]any{"window": "15m"}, nil, nil, false)
	want(t, "changes", o, machine.StatusOK, "")
	if err := json.Unmarshal(o.Data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

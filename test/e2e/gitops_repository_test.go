//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/repository"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The repository's client against a real git server: what it pushes Argo CD
// syncs, and what the server does to a push it says as it is.
func TestRepositoryAtARealServer(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	argo := rig.SharedArgoCD(t)
	ns, _ := cp.Own(t, 1, 8)
	git := rig.StartGit(t, map[string]string{manifestPath: manifest(64)})
	app := argo.Application(t, ns, git, rig.ApplicationOptions{})
	app.AwaitSynced(t, git.Head(t), time.Minute)
	repo := openRepository(t, git)

	made := commit(t, repo, git, "fewer", 32)
	app.Refresh(t)
	app.AwaitSynced(t, made.SHA, time.Minute)
	if diff := git.Diff(t, made.SHA); strings.Count(diff, "\n+") != 2 || !strings.Contains(diff, "\n+            - --max-num-seqs=32\n") {
		t.Errorf("the commit is\n%s\nwant one line changed", diff)
	}
	undone, err := repo.Revert(t.Context(), repository.RevertRequest{Commits: []string{made.SHA}, Message: message("fewer/undo")})
	if err != nil {
		t.Fatal(err)
	}
	app.Refresh(t)
	app.AwaitSynced(t, undone.SHA, time.Minute)
	if got := git.File(t, undone.SHA, manifestPath); got != manifest(64) {
		t.Errorf("the revert leaves\n%s", got)
	}
}

// What goes wrong on the way to a git server has the reason that a run acts
// upon, and never says the token.
func TestRepositoryPushFaults(t *testing.T) {
	t.Parallel()
	git := rig.StartGit(t, map[string]string{manifestPath: manifest(64)})
	repo := openRepository(t, git)
	refuse := func(what string, effect string, seqs int, reason fault.Reason, unknown bool) (sameLines bool) {
		t.Helper()
		before := git.Head(t)
		_, err := tryCommit(t, repo, before, effect, seqs)
		var said *fault.Error
		if !errors.As(err, &said) || said.Reason != reason || said.Unknown != unknown {
			t.Errorf("%s: %#v %v; want reason %s, unknown: %t", what, said, err, reason, unknown)
		}
		if err != nil && strings.Contains(err.Error(), git.Token) {
			t.Errorf("%s: the error says the token", what)
		}
		var moved *gitops.Divergence
		return errors.As(err, &moved) && moved.SameLines()
	}
	if _, err := repo.Head(t.Context()); err != nil {
		t.Fatal(err)
	}

	git.SetPushable(false)
	before := git.Head(t)
	refuse("not pushable", "e-1", 32, fault.Unreachable, false)
	git.SetPushable(true)
	git.Revoke(true)
	refuse("revoked", "e-2", 32, fault.Forbidden, false)
	git.Revoke(false)
	if got := git.Head(t); got != before {
		t.Errorf("the branch moved to %s", got)
	}

	git.CutPushes(1)
	refuse("answer lost", "e-3", 32, fault.Unreachable, true)
	found, ok, err := repo.Find(t.Context(), "", "e-3", time.Time{})
	if err != nil || !ok || found.SHA != git.Head(t) {
		t.Errorf("the commit whose answer was lost: %v %v %v; want it found at %s", found.SHA, ok, err, git.Head(t))
	}
	if again, err := tryCommit(t, repo, before, "e-3", 32); err != nil || again.SHA != found.SHA {
		t.Errorf("committed again: %v %v; want the same commit %s", again.SHA, err, found.SHA)
	}

	git.BeforePush(func() bool {
		_, _ = git.TryCommit(context.Background(), "faster", map[string]string{manifestPath: manifest(48)}) // the log below tells
		return true
	})
	if !refuse("overtaken", "e-4", 16, fault.Conflict, false) {
		t.Error("overtaken: the error does not say that the same lines changed")
	}
	if log := strings.Join(git.Log(t, "%s"), "|"); !strings.HasPrefix(log, "faster|") || strings.Count(log, "|") != 2 {
		t.Errorf("the branch has %s; want one commit of ours, below the faster one", log)
	}
}

// openRepository is the service's client of a test's server.
func openRepository(t *testing.T, git *rig.Git) *repository.Repository {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(git.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	repo, err := repository.New(repository.Options{
		URL: git.URL, Branch: git.Branch, Dir: filepath.Join(t.TempDir(), "clone"),
		Auth: repository.Auth{TokenFile: token}, Author: gitops.Person{Name: "Responder", Email: "responder@example.com"},
		Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := repo.Close(); err != nil {
			t.Error(err)
		}
	})
	return repo
}

func message(effect string) repository.Message {
	return repository.Message{What: "chat: change --max-num-seqs", Why: "preemptions", Alert: "InferenceTTFTFastBurn", Run: "r-1", State: "cap", Plan: "d", Effect: effect}
}

// commit sets the flag on top of the branch.
func commit(t *testing.T, repo *repository.Repository, git *rig.Git, effect string, seqs int) gitops.Commit {
	t.Helper()
	made, err := tryCommit(t, repo, git.Head(t), effect, seqs)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func tryCommit(t *testing.T, repo *repository.Repository, base, effect string, seqs int) (gitops.Commit, error) {
	t.Helper()
	tree, err := repo.Files(t.Context(), repository.Query{SHA: base, Path: manifestPath})
	if err != nil || len(tree.Files) != 1 {
		return gitops.Commit{}, errors.Join(err, errors.New("no manifest"))
	}
	edited := flagOf.ReplaceAll(tree.Files[0].Data, []byte("--max-num-seqs="+strconv.Itoa(seqs)))
	return repo.Commit(t.Context(), repository.CommitRequest{
		Base: base, Files: []gitops.File{{Path: manifestPath, Data: edited}}, Message: message(effect),
	})
}

var flagOf = regexp.MustCompile(`--max-num-seqs=\d+`)

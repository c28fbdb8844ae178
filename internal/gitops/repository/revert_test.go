package repository

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

func TestRevert(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest, "gone.yaml": "g: 1\n"})
	bad := s.Push("lower", map[string]string{"a.yaml": lower(manifest), "new/added.yaml": "n: 1\n", "gone.yaml": ""})
	later := strings.Replace(lower(manifest), "8000", "8001", 1)
	s.Push("another line", map[string]string{"a.yaml": later, "b.yaml": "b: 1\n"})
	r := open(t, s)
	plan, err := r.PlanRevert(t.Context(), RevertRequest{Commits: []string{bad}})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(manifest, "8000", "8001", 1)
	if diff := cmp.Diff([]gitops.File{{Path: "a.yaml", Data: []byte(want)}, {Path: "gone.yaml", Data: []byte("g: 1\n")}}, plan.Files); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"new/added.yaml"}, plan.Deleted); diff != "" {
		t.Error(diff)
	}
	done, err := r.Revert(t.Context(), RevertRequest{Base: plan.Base, Commits: []string{bad}, Message: message("undo")})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Show("main", "a.yaml"); got != want {
		t.Errorf("a.yaml is\n%s", got)
	}
	if got := s.GitBare("ls-tree", "-r", "--name-only", "main"); got != "a.yaml\nb.yaml\ngone.yaml" {
		t.Errorf("the tree is\n%s", got)
	}
	if got := s.GitBare("show", "--no-patch", "--format=%B", done.SHA); !strings.HasPrefix(got, "Revert \"lower\"\n\nThis reverts commit "+bad+".\n\nPreemptions") {
		t.Errorf("the message is\n%s", got)
	}
	if _, err := r.PlanRevert(t.Context(), RevertRequest{Commits: []string{bad}}); err == nil {
		t.Error("what is undone was undone again")
	} else {
		wantError(t, err, fault.NothingToDo)
	}
}

// TestRevertClash names the very commit that changed the lines again.
func TestRevertClash(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	bad := s.Push("lower", map[string]string{"a.yaml": lower(manifest)})
	s.Push("harmless", map[string]string{"a.yaml": strings.Replace(lower(manifest), "8000", "8001", 1)})
	culprit := s.Push("again", map[string]string{"a.yaml": strings.Replace(strings.Replace(manifest, "256", "64", 1), "8000", "8001", 1)})
	s.Push("harmless too", map[string]string{"a.yaml": strings.Replace(strings.Replace(manifest, "256", "64", 1), "8000", "8002", 1)})
	r := open(t, s)
	_, err := r.Revert(t.Context(), RevertRequest{Commits: []string{bad}, Message: message("undo")})
	wantError(t, err, fault.Conflict, culprit[:10])
	var m *gitops.Divergence
	if !errors.As(err, &m) || len(m.Files) != 1 || len(m.Files[0].By) != 1 || m.Files[0].By[0].SHA != culprit || m.Files[0].Lines != "4" {
		t.Errorf("cause %+v, want line 4 by %s", m, culprit)
	}
}

func TestRevertSeveral(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest, "x/b.yaml": "b: 1\n"})
	one := s.Push("one", map[string]string{"a.yaml": lower(manifest)})
	two := s.Push("two", map[string]string{"a.yaml": strings.Replace(manifest, "256", "128", 1), "x/b.yaml": "b: 2\n"})
	r := open(t, s)
	if _, err := r.PlanRevert(t.Context(), RevertRequest{Commits: []string{one}}); err == nil {
		t.Fatal("one alone was undone under two")
	}
	done, err := r.Revert(t.Context(), RevertRequest{Commits: []string{one, two}, Paths: []string{"a.yaml"}, Message: message("undo")})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Show("main", "a.yaml"); got != manifest {
		t.Errorf("a.yaml is\n%s", got)
	}
	if got := s.Show("main", "x/b.yaml"); got != "b: 2\n" {
		t.Errorf("a path that was not asked for was undone: %q", got)
	}
	want := fmt.Sprintf("Revert \"two\" and 1 more\n\nThis reverts commit %s.\nThis reverts commit %s.\nOnly below a.yaml.\n", two, one)
	if got := s.GitBare("show", "--no-patch", "--format=%B", done.SHA); !strings.HasPrefix(got, want) {
		t.Errorf("the message is\n%s", got)
	}
}

func TestRevertMerge(t *testing.T) {
	s := gittest.NewServer(t)
	first := s.Push("first", map[string]string{"a.yaml": manifest})
	s.Git("checkout", "--quiet", "-b", "feature")
	s.Write(map[string]string{"a.yaml": lower(manifest)})
	s.Git("commit", "--quiet", "--all", "--message", "lower")
	s.Git("checkout", "--quiet", "main")
	s.Git("merge", "--quiet", "--no-ff", "--message", "Merge feature", "feature")
	s.Git("push", "--quiet", "origin", "main")
	merge := s.Head("main")
	r := open(t, s)
	done, err := r.Revert(t.Context(), RevertRequest{Commits: []string{merge}, Message: message("undo")})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Show("main", "a.yaml"); got != manifest {
		t.Errorf("a.yaml is\n%s", got)
	}
	if got := s.GitBare("show", "--no-patch", "--format=%B", done.SHA); !strings.Contains(got, "This reverts commit "+merge+", reversing\nchanges made to "+first+".\n") {
		t.Errorf("the message is\n%s", got)
	}
}

// TestRevertRace: without a base, somebody's push in between is built upon.
func TestRevertRace(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	bad := s.Push("lower", map[string]string{"a.yaml": lower(manifest)})
	r := open(t, s)
	n := 0
	r.carrier = hooked{r.carrier, func() {
		if n++; n < 3 {
			s.Push("somebody", map[string]string{fmt.Sprintf("b%d.yaml", n): "b: 1\n"})
		}
	}}
	if _, err := r.Revert(t.Context(), RevertRequest{Commits: []string{bad}, Message: message("undo")}); err != nil {
		t.Fatal(err)
	}
	if got := s.Show("main", "a.yaml") + s.Show("main", "b1.yaml") + s.Show("main", "b2.yaml"); got != manifest+"b: 1\nb: 1\n" {
		t.Errorf("main holds\n%s", got)
	}
}

// TestRevertLink undoes a link and a change of mode, which go as a whole.
func TestRevertLink(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest, "run.sh": "true\n"})
	s.Git("rm", "--quiet", "a.yaml")
	s.Git("update-index", "--chmod=+x", "run.sh")
	blob := s.Git("hash-object", "-w", "run.sh")
	s.Git("update-index", "--add", "--cacheinfo", "120000,"+blob+",link")
	s.Git("commit", "--quiet", "--message", "links")
	s.Git("push", "--quiet", "origin", "HEAD:main")
	r := open(t, s)
	if _, err := r.Revert(t.Context(), RevertRequest{Commits: []string{s.Head("main")}, Message: message("undo")}); err != nil {
		t.Fatal(err)
	}
	if got := s.GitBare("diff", "--stat", "main~2", "main"); got != "" {
		t.Errorf("after the revert it differs:\n%s", got)
	}
}

// TestMerge compares the three-way merge with git's own, and hunks with what
// they stand for.
func TestMerge(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is missing: install it (Debian: apt-get install git)")
	}
	dir := t.TempDir()
	text := rapid.Custom(func(t *rapid.T) string {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "", "k: v"}), 0, 12).Draw(t, "lines")
		s := strings.Join(lines, "\n")
		if rapid.Bool().Draw(t, "newline") && s != "" {
			s += "\n"
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		base := text.Draw(t, "base")
		ours := edited(t, base, "ours")
		theirs := edited(t, base, "theirs")
		checkHunks(t, base, ours)
		merged, clashes := merge([]byte(base), []byte(ours), []byte(theirs))
		if len(clashes) > 0 {
			return // git may find a way; we ask a person
		}
		if back, clashes := merge([]byte(base), []byte(theirs), []byte(ours)); len(clashes) > 0 || string(back) != string(merged) {
			t.Fatalf("the other way round: %q, want %q", back, merged)
		}
		if ours == base && string(merged) != theirs || theirs == base && string(merged) != ours {
			t.Fatalf("one side changed nothing, and the merge is %q", merged)
		}
		for name, content := range map[string]string{"base": base, "ours": ours, "theirs": theirs} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("git", "merge-file", "-p", "ours", "base", "theirs")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err == nil && string(out) != string(merged) && !ambiguous(base) {
			t.Fatalf("base %q ours %q theirs %q: merged %q, git %q", base, ours, theirs, merged, out)
		}
	})
}

// ambiguous texts repeat lines: where a line was added among equal ones is a
// matter of taste, and two tastes give two merges.
func ambiguous(s string) bool {
	seen := map[string]bool{}
	for line := range strings.SplitSeq(s, "\n") {
		if seen[line] {
			return true
		}
		seen[line] = true
	}
	return false
}

// edited changes a few lines.
func edited(t *rapid.T, base, label string) string {
	lines := strings.SplitAfter(base, "\n")
	for range rapid.IntRange(0, 2).Draw(t, label) {
		at := rapid.IntRange(0, len(lines)-1).Draw(t, "at")
		switch rapid.SampledFrom([]string{"change", "insert", "delete"}).Draw(t, "edit") {
		case "change":
			lines[at] = label + " changed\n"
		case "insert":
			lines[at] = label + " inserted\n" + lines[at]
		case "delete":
			lines[at] = ""
		}
	}
	return strings.Join(lines, "")
}

func checkHunks(t *rapid.T, a, b string) {
	la, lb := splitLines([]byte(a)), splitLines([]byte(b))
	var got []byte
	at := 0
	for _, h := range gitops.Hunks(a, b) {
		for _, l := range append(la[at:h.From:h.From], lb[h.NewFrom:h.NewTo]...) {
			got = append(got, l...)
		}
		at = h.To
	}
	for _, l := range la[at:] {
		got = append(got, l...)
	}
	if string(got) != b {
		t.Fatalf("the differences of %q and %q give %q", a, b, got)
	}
}

// TestTakesBackByValue: an edit that sets the values of a commit back is read as
// its revert.
func TestTakesBackByValue(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	bad := s.Push("lower", map[string]string{"a.yaml": lower(manifest)})
	r := open(t, s)
	done, err := r.Commit(t.Context(), CommitRequest{
		Base: head(t, r), Files: []gitops.File{{Path: "a.yaml", Data: []byte(manifest)}}, Message: message("undo"), TakesBack: []string{bad},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.GitBare("show", "--no-patch", "--format=%B", done.SHA); !strings.Contains(got, "\n\nThis reverts commit "+bad+".\n\nPreemptions") {
		t.Errorf("the message is\n%s", got)
	}
	log, err := r.Log(t.Context(), Window{})
	if err != nil || len(log) != 3 || len(log[0].Reverts) != 1 || log[0].Reverts[0] != bad {
		t.Errorf("the log is %+v, %v", log, err)
	}
}

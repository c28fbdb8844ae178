package playbook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/yamldoc"
)

func document1(name string) string {
	return "apiVersion: responder/v1alpha1\nkind: Playbook\nmetadata: {name: " + name + ", runbook: docs/x.md}\n" +
		"spec:\n  match: '{alertname=\"" + name + "\"}'\n  start: done\n  states:\n    done: {end: no-action}\n"
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func TestLoadDir(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "b.yaml"), document1("b")+"---\n"+document1("a"))
	writeFile(t, filepath.Join(dir, "b.test.yaml"), "test")
	writeFile(t, filepath.Join(dir, "b.world.yaml"), "scenario")
	writeFile(t, filepath.Join(dir, ".hidden.yaml"), "junk")
	writeFile(t, filepath.Join(dir, "README.md"), "junk")
	writeFile(t, filepath.Join(dir, "schema", "x.yaml"), "junk")
	writeFile(t, filepath.Join(dir, "dir.yaml", "x"), "junk")
	s, err := LoadDir(dir, testKinds())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(s.All())); diff != "" {
		t.Errorf("playbooks (-want +got):\n%s", diff)
	}

	writeFile(t, filepath.Join(dir, "c.yaml"), "spec: {}\n")
	writeFile(t, filepath.Join(dir, "d.yaml"), "- x\n")
	_, err = LoadDir(dir, testKinds())
	var problems Problems
	if !errors.As(err, &problems) || problems[0].File != filepath.Join(dir, "c.yaml") || problems[len(problems)-1].File != filepath.Join(dir, "d.yaml") {
		t.Errorf("want the problems of both bad files, got %v", err)
	}
	if _, err := LoadDir(filepath.Join(dir, "nowhere"), testKinds()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a missing directory: %v", err)
	}
}

// A link may not smuggle in a file from elsewhere.
func TestLoadDirLinks(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "secret.yaml")
	writeFile(t, elsewhere, document1("secret"))
	for _, to := range []string{elsewhere, "../" + filepath.Base(filepath.Dir(elsewhere)) + "/secret.yaml"} {
		dir := t.TempDir()
		symlink(t, to, filepath.Join(dir, "a.yaml"))
		if _, err := LoadDir(dir, testKinds()); err == nil || !strings.Contains(err.Error(), "a.yaml") {
			t.Errorf("link to %s: got %v, want a refusal that names the file", to, err)
		}
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "sub", "b.yaml"), document1("b"))
	symlink(t, "sub/b.yaml", filepath.Join(dir, "b.yaml"))
	if _, err := LoadDir(dir, testKinds()); err != nil {
		t.Errorf("a link inside the directory: %v", err)
	}
}

func TestTooBig(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.yaml"), document1("a")+"#"+strings.Repeat("x", yamldoc.MaxFile))
	_, err := LoadDir(dir, testKinds())
	if err == nil || !strings.Contains(err.Error(), "exceeds 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

// told is one call of a watch's callback.
type told struct {
	names []string
	err   string
}

// watched starts a watch and gives what it tells.
func watched(t *testing.T, dir string) <-chan told {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	tells, done := make(chan told, 64), make(chan error, 1)
	go func() {
		done <- Watch(ctx, Library{Dir: dir}, testKinds(), func(s *Set, err error) {
			if err != nil {
				tells <- told{err: err.Error()}
				return
			}
			tells <- told{names: names(s.All())}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("watch ended with %v", err)
		}
	})
	return tells
}

func expect(t *testing.T, tells <-chan told, want told) {
	t.Helper()
	select {
	case got := <-tells:
		if strings.Contains(got.err, want.err) && want.err != "" {
			got.err = want.err
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(told{})); diff != "" {
			t.Fatalf("told (-want +got):\n%s", diff)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing was told, want %v", want)
	}
}

func TestWatchFiles(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.yaml"), document1("a"))
	tells := watched(t, dir)
	expect(t, tells, told{names: []string{"a"}})
	writeFile(t, filepath.Join(dir, "b.yaml"), document1("b"))
	expect(t, tells, told{names: []string{"a", "b"}})
	writeFile(t, filepath.Join(dir, "a.yaml"), "spec: {}")
	expect(t, tells, told{err: "a.yaml:1:1: missing field metadata"})
	writeFile(t, filepath.Join(dir, "notes.txt"), "tells nobody anything")
	writeFile(t, filepath.Join(dir, "a.yaml"), document1("c"))
	expect(t, tells, told{names: []string{"b", "c"}})
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	expect(t, tells, told{names: []string{"c"}})
}

// Half of a file that is being written may be a good one, with fewer playbooks.
// It is never told, and nor is the empty file that a writer begins with.
func TestWatchHalfWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	writeFile(t, file, document1("a")+"---\n"+document1("b"))
	var tells []string
	v := view{library: Library{Dir: filepath.Dir(file)}, kinds: testKinds(), fn: func(s *Set, err error) {
		if err != nil {
			tells = append(tells, err.Error())
			return
		}
		tells = append(tells, strings.Join(names(s.All()), " "))
	}}
	look := func(settled bool) {
		t.Helper()
		if got := v.look(); got != settled {
			t.Errorf("settled: %v, want %v", got, settled)
		}
	}
	look(true)
	for _, written := range []string{"", document1("a"), document1("a") + "---\n" + document1("c")} {
		writeFile(t, file, written)
		look(false)
	}
	look(true)
	look(true)
	writeFile(t, file, "")
	look(false)
	writeFile(t, file, document1("a")+"---\n"+document1("c")) // as it was: nothing has changed
	look(true)
	if diff := cmp.Diff([]string{"a b", "a c"}, tells); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// A ConfigMap mount is replaced as a whole by the swap of one link.
func TestWatchConfigMap(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "..2026_01", "a.yaml"), document1("a"))
	symlink(t, "..2026_01", filepath.Join(dir, "..data"))
	symlink(t, "..data/a.yaml", filepath.Join(dir, "a.yaml"))
	tells := watched(t, dir)
	expect(t, tells, told{names: []string{"a"}})
	for _, name := range []string{"b", "c"} {
		writeFile(t, filepath.Join(dir, "..2026_"+name, "a.yaml"), document1(name))
		symlink(t, "..2026_"+name, filepath.Join(dir, "..data_tmp"))
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		expect(t, tells, told{names: []string{name}})
	}
}

// A directory that is missing is told and waited for, also when it went away.
func TestWatchMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	tells := watched(t, dir)
	expect(t, tells, told{err: "nowhere"})
	for _, name := range []string{"a", "b"} {
		writeFile(t, filepath.Join(dir+".new", name+".yaml"), document1(name))
		if err := os.Rename(dir+".new", dir); err != nil {
			t.Fatal(err)
		}
		expect(t, tells, told{names: []string{name}})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		expect(t, tells, told{err: "nowhere"})
	}
}

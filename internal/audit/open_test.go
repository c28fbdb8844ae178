package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// closedJournal makes a journal of n entries in a new directory and closes it.
func closedJournal(t testing.TB, n int, o Options) (path, key string) {
	t.Helper()
	o.NoSync = true
	j := openTest(t, o)
	for range n {
		mustAppend(t, j, one("s", "k", strings.Repeat("x", 100)))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return j.Path(), j.PublicKey()
}

// editBolt changes a closed journal behind its back.
func editBolt(t testing.TB, path string, fn func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// contents is what there is at path: nothing if there is no file.
func contents(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EISDIR) {
		t.Fatal(err)
	}
	return b
}

// editFile changes the bytes of a file.
func editFile(t testing.TB, path string, fn func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fn(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A refusal is one way in which a file is not a sound journal, and the error
// that must say so.
type refusal struct {
	name string
	do   func(t *testing.T, path string)
	kind error
	says string
}

// refusals lists them. It is one long list and nothing else.
func refusals() []refusal {
	const page = 4096
	remove := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	return []refusal{
		{"directory", func(t *testing.T, path string) {
			remove(t, path)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, ErrForeign, "a directory"},
		{"empty", func(t *testing.T, path string) {
			editFile(t, path, func([]byte) []byte { return nil })
		}, ErrForeign, "not a bbolt file"},
		{"text", func(t *testing.T, path string) {
			editFile(t, path, func([]byte) []byte { return bytes.Repeat([]byte("text\n"), 10_000) })
		}, ErrForeign, "not a bbolt file"},
		{"other version", func(t *testing.T, path string) {
			editFile(t, path, func(b []byte) []byte {
				for _, off := range []int{pageHeader + 4, page + pageHeader + 4} {
					binary.NativeEndian.PutUint32(b[off:], 3)
				}
				return b
			})
		}, ErrForeign, "another version"},
		{"both headers damaged", func(t *testing.T, path string) {
			editFile(t, path, func(b []byte) []byte {
				b[pageHeader+20] ^= 1
				b[page+pageHeader+20] ^= 1
				return b
			})
		}, ErrCorrupt, "header pages"},
		{"newest header damaged", func(t *testing.T, path string) {
			head, _, err := readHeader(path)
			if err != nil {
				t.Fatal(err)
			}
			editFile(t, path, func(b []byte) []byte {
				b[int(head.txid%2)*page+pageHeader+20] ^= 1
				return b
			})
		}, ErrCorrupt, "older"},
		{"cut to half its pages", func(t *testing.T, path string) {
			editFile(t, path, func(b []byte) []byte {
				head, _, err := readHeader(path)
				if err != nil {
					t.Fatal(err)
				}
				return b[:head.pages/2*page]
			})
		}, ErrCorrupt, "cut off"},
		{"cut to its headers", func(t *testing.T, path string) {
			editFile(t, path, func(b []byte) []byte { return b[:2*page] })
		}, ErrCorrupt, "cut off"},
		{"cut within the header", func(t *testing.T, path string) {
			editFile(t, path, func(b []byte) []byte { return b[:50] })
		}, ErrForeign, "not a bbolt file"},
		{"pages zeroed", func(t *testing.T, path string) {
			editFile(t, path, func(b []byte) []byte {
				clear(b[2*page:])
				return b
			})
		}, ErrCorrupt, "freelist page"},
		{"bbolt file of another program", func(t *testing.T, path string) {
			remove(t, path)
			editBolt(t, path, func(tx *bolt.Tx) error {
				_, err := tx.CreateBucket([]byte("theirs"))
				return err
			})
		}, ErrForeign, "another program"},
		{"older format", func(t *testing.T, path string) {
			editBolt(t, path, func(tx *bolt.Tx) error {
				return errors.Join(tx.Bucket(bucketMeta).Put(keyFormat, []byte("responder-journal/1")), tx.Bucket(bucketLog).Delete(keyTree))
			})
		}, ErrForeign, `"responder-journal/1"`},
		{"newer format", func(t *testing.T, path string) {
			editBolt(t, path, func(tx *bolt.Tx) error {
				return tx.Bucket(bucketMeta).Put(keyFormat, []byte("responder-journal/3"))
			})
		}, ErrForeign, `"responder-journal/3"`},
		{"bucket missing", func(t *testing.T, path string) {
			editBolt(t, path, func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketIndex) })
		}, ErrCorrupt, `"index" is missing`},
		{"last entry missing", func(t *testing.T, path string) {
			editBolt(t, path, func(tx *bolt.Tx) error { return tx.Bucket(bucketLog).Delete(u64(49)) })
		}, ErrCorrupt, "does not end where its tree does"},
		{"fewer entries than signed", func(t *testing.T, path string) {
			editBolt(t, path, func(tx *bolt.Tx) error { return tx.Bucket(bucketCheckpoints).Put(u64(51), nil) })
		}, ErrCorrupt, "entries were removed"},
		{"log removed, key left", remove, errKey, "the log was removed"},
		{"key removed", func(t *testing.T, path string) {
			remove(t, filepath.Join(filepath.Dir(path), KeyFile))
		}, errKey, "is missing"},
		{"key of another log", func(t *testing.T, path string) {
			other, _ := closedJournal(t, 0, Options{})
			b, err := os.ReadFile(filepath.Join(filepath.Dir(other), KeyFile))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), KeyFile), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}, errKey, "another key"},
		{"key is no key", func(t *testing.T, path string) {
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), KeyFile), []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, errKey, "does not hold a private key"},
		{"key open to all", func(t *testing.T, path string) {
			if err := os.Chmod(filepath.Join(filepath.Dir(path), KeyFile), 0o604); err != nil {
				t.Fatal(err)
			}
		}, errKey, "chmod"},
		{"public key of another log", func(t *testing.T, path string) {
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), PublicKeyFile), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, errKey, "another key"},
	}
}

// Every file that is not a sound journal is refused with an error of its kind
// that names the problem and says what to do, and is left as it was.
func TestOpenRefuses(t *testing.T) {
	for _, tt := range refusals() {
		t.Run(tt.name, func(t *testing.T) {
			path, _ := closedJournal(t, 50, Options{CheckpointEvery: 10})
			if !strings.HasPrefix(tt.name, "newest header") {
				if err := os.Remove(markerPath(path)); err != nil {
					t.Fatal(err)
				}
			}
			tt.do(t, path)
			before := contents(t, path)
			j, err := Open(path, Options{Checker: testChecker(t)})
			if err == nil {
				t.Fatal("opened", j.Close())
			}
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got: %v\nwant %v that says %q", err, tt.kind, tt.says)
			}
			if !errors.Is(tt.kind, errKey) && !strings.Contains(err.Error(), "restore") {
				t.Errorf("no advice in: %v", err)
			}
			if after := contents(t, path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOpenNoPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	path, _ := closedJournal(t, 1, Options{})
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "let the user") {
		t.Error(err)
	}
}

// A journal that another process holds is neither opened nor verified.
func TestLocked(t *testing.T) {
	path, key := closedJournal(t, 1, Options{})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, path)
	cmd.Env = append(os.Environ(), roleEnv+"=hold")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
		t.Fatal(line, err)
	}
	for name, check := range map[string]Checker{"checker": testChecker(t), "no checker": nil} {
		if _, err := Open(path, Options{Checker: check}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "another responder") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Verify(t.Context(), path, key, VerifyOptions{}); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, Options{})
}

// The public key is a copy of what the log names, and is written again.
func TestPublicKeyRestored(t *testing.T) {
	path, key := closedJournal(t, 1, Options{})
	pub := filepath.Join(filepath.Dir(path), PublicKeyFile)
	if err := os.Remove(pub); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, Options{})
	if b, err := os.ReadFile(pub); err != nil || strings.TrimSpace(string(b)) != key {
		t.Errorf("%q, %v", b, err)
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(path), KeyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info.Mode(), err)
	}
}

// An older copy put back while the files beside it tell of a newer state is refused;
// without them it opens, and only an exported checkpoint can tell.
func TestRolledBack(t *testing.T) {
	path, key := closedJournal(t, 3, Options{})
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	j := openAt(t, path, Options{})
	mustAppend(t, j, one("s", "k", "later"))
	cp, err := j.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, path, key, VerifyOptions{Checkpoint: cp})
	editFile(t, path, func([]byte) []byte { return old })
	if _, err := Open(path, Options{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), markerPath(path)) {
		t.Error(err)
	}
	r, err := Verify(t.Context(), path, key, VerifyOptions{Checkpoint: cp})
	if err != nil || r.OK() || r.FirstBad.Seq != 3 || r.External {
		t.Errorf("%+v %v, %v", r, r.FirstBad, err)
	}
	if err := errors.Join(os.Remove(markerPath(path)), os.Remove(projectionPath(path, signedName))); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, Options{Checker: testChecker(t)})
}

// The child runs when it must: after a stop that was not clean, and on a small
// file always; its death is a verdict on the file.
func TestChecker(t *testing.T) {
	path, _ := closedJournal(t, 1, Options{})
	for _, tt := range []struct {
		role string
		kind error
		says string
	}{
		{"check", nil, ""},
		{"panic", ErrCorrupt, "freepages: as bbolt does"},
	} {
		err := roleChecker(t, tt.role)(t.Context(), path)
		if !errors.Is(err, tt.kind) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.role, err)
		}
		if err != nil && strings.Contains(err.Error(), "goroutine") {
			t.Errorf("%s: a stack in %v", tt.role, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := roleChecker(t, "hang")(ctx, path); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrCorrupt) {
		t.Errorf("hang: %v", err)
	}
	if err := CheckerCommand(filepath.Join(t.TempDir(), "none"))(t.Context(), path); err == nil || errors.Is(err, ErrCorrupt) {
		t.Errorf("no such program: %v", err)
	}
	calls := 0
	count := func(context.Context, string) error { calls++; return nil }
	j := openAt(t, path, Options{Checker: count})
	if err := j.Close(); err != nil || calls != 1 {
		t.Errorf("%d checks, %v", calls, err)
	}
}

// A clean stop stores the list of free pages, and the first commit drops it. A list
// that was changed since is refused, however large the file is: what it calls free is
// overwritten.
func TestFreeList(t *testing.T) {
	path, key := closedJournal(t, 300, Options{})
	for range 3 { // with lists of other lengths at other places
		head, _, err := readHeader(path)
		if err != nil || head.free == noFreeList {
			t.Fatalf("no list is stored (%v)", err)
		}
		j := openAt(t, path, Options{Checker: testChecker(t), NoSync: true})
		if !j.Clean() {
			t.Error("the last stop was clean")
		}
		mustAppend(t, j, one("s", "k", strings.Repeat("x", 9000)))
		if head, _, err = readHeader(path); err != nil || head.free != noFreeList {
			t.Errorf("a list is stored while the journal is written (%v)", err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		mustVerify(t, path, key, VerifyOptions{})
	}
	head, _, err := readHeader(path)
	if err != nil {
		t.Fatal(err)
	}
	editFile(t, path, func(b []byte) []byte {
		b[int(head.free)*int(head.pageSize)+pageHeader] ^= 1
		return b
	})
	before := contents(t, path)
	if _, err := Open(path, Options{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "free pages") {
		t.Errorf("a changed list of free pages: %v", err)
	}
	if !bytes.Equal(before, contents(t, path)) {
		t.Error("the file was changed")
	}
}

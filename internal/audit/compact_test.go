package audit

import (
	"errors"
	"os"
	"reflect"
	"testing"
)

// A compacted journal is the same log in a smaller file, which opens as after a clean
// stop and goes on.
func TestCompact(t *testing.T) {
	path, key, _ := archived(t, 3000)
	want := mustVerify(t, path, key, VerifyOptions{})
	must(t, os.WriteFile(path+".compact", []byte("left by a crash"), 0o600))
	before, after, err := Compact(t.Context(), path, testChecker(t))
	if err != nil || after >= before*3/4 {
		t.Fatalf("%d bytes, %d after it, %v", before, after, err)
	}
	got := mustVerify(t, path, key, VerifyOptions{Checker: testChecker(t)})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("before %+v, after %+v", want, got)
	}
	j := openAt(t, path, Options{Checker: testChecker(t)})
	if !j.Clean() {
		t.Error("it is opened as after a crash")
	}
	if _, _, err := Compact(t.Context(), path, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
	mustAppend(t, j, one("intake", "k", "the log goes on"))
	must(t, j.Close())
	mustVerify(t, path, key, VerifyOptions{Checker: testChecker(t)})
}

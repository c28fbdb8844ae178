package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var leftOf = regexp.MustCompile(`the first (\d+) entries can be read and match their hashes, up to entry (\d+) \(run/(\d) step at [0-9TZ:-]+\)(; no checkpoint|; the first (\d+) are those)`)

// Whoever verifies a copy that was cut off hears what it has, what of that is
// still proven, and nothing about how to run a service.
func TestVerifyCut(t *testing.T) {
	e := gather(t, tamperEntries)
	path := filepath.Join(t.TempDir(), "copy.db")
	said, most := 0, 0
	for size := 2 * 4096; size < len(e.file); size += 4096 {
		if err := os.WriteFile(path, e.file[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Verify(t.Context(), path, e.key, VerifyOptions{Checker: testChecker(t)})
		if err == nil {
			break // only what bbolt had allocated for later is missing
		}
		text := err.Error()
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(text, fmt.Sprintf("cut off: it has %d bytes, by its header ", size)) || strings.Contains(text, "move") {
			t.Fatalf("cut to %d bytes: %v", size, err)
		}
		m := leftOf.FindStringSubmatch(text)
		if m == nil {
			if !strings.Contains(text, "no entry can be read from the first one on") {
				t.Fatalf("cut to %d bytes: %v", size, err)
			}
			continue
		}
		said++
		var n [6]int
		for _, i := range []int{1, 2, 3, 5} {
			if m[i] == "" {
				continue
			}
			if n[i], err = strconv.Atoi(m[i]); err != nil {
				t.Fatal(err)
			}
		}
		if n[1] > tamperEntries || n[2] != n[1]-1 || n[3] != n[2]%7 || n[5] > n[1] || n[5]%tamperEvery != 0 && n[5] != tamperEntries {
			t.Fatalf("cut to %d bytes: %v", size, err)
		}
		most = max(most, n[5])
	}
	if said == 0 || most == 0 {
		t.Errorf("entries were found in %d cut files, at most %d of them proven", said, most)
	}
}

// An entry that was edited in what is left ends what can be read, and pages
// that are nonsense do no harm.
func TestVerifyCutAndDamaged(t *testing.T) {
	e := gather(t, tamperEntries)
	key, err := parseKey(e.key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	edited := []byte(strings.ReplaceAll(string(e.file), "payload 17", "payload 71"))
	if err := os.WriteFile(path, edited, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := remainder(path, key); !strings.Contains(got, "the first 17 entries can be read") || !strings.Contains(got, "no checkpoint that is left vouches") {
		t.Errorf("an edited entry: %s", got)
	}
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test that can be repeated
	for range 50 {
		file := append([]byte(nil), e.file...)
		for off := 2 * 4096; off+4096 <= len(file); off += 4096 {
			binary.NativeEndian.PutUint16(file[off+8:], leafPage)
			for range 8 {
				file[off+8+rng.IntN(200)] = byte(rng.Uint32())
			}
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := remainder(path, key); !strings.HasPrefix(got, "of what is left ") {
			t.Fatalf("nonsense in its pages: %q", got)
		}
	}
}

package audit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// mangle damages a file as a seed says: flipped bits, zeroed pages, swapped
// pages, a cut.
func mangle(b []byte, seed uint64) []byte {
	const page = 4096
	rng := rand.New(rand.NewPCG(seed, 2))
	pages := len(b) / page
	for range 1 + rng.IntN(3) {
		switch rng.IntN(5) {
		case 0, 1:
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		case 2: // in the part of a page that tells its structure
			b[rng.IntN(pages)*page+rng.IntN(64)] ^= 1 << rng.IntN(8)
		case 3:
			at := rng.IntN(pages) * page
			clear(b[at : at+page])
		case 4:
			x, y := rng.IntN(pages)*page, rng.IntN(pages)*page
			tmp := append([]byte(nil), b[x:x+page]...)
			copy(b[x:x+page], b[y:y+page])
			copy(b[y:y+page], tmp)
		}
	}
	if rng.IntN(8) == 0 {
		b = b[:rng.IntN(len(b))]
	}
	return b
}

// survey opens, reads and verifies a damaged file the way the service would.
// Nothing may panic; damage is refused or found, or was where nothing is.
func survey(t *testing.T, e *evidence, b []byte, seed uint64) (refused bool) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(t.Context(), path, e.key, VerifyOptions{Checker: testChecker(t), Checkpoint: e.checkpoint})
	switch {
	case err != nil:
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) {
			t.Errorf("seed %d: verify: %v", seed, err)
		}
	case r.OK() && (r.Root != e.root || !r.External):
		t.Errorf("seed %d: verify is content with another log: %+v", seed, r)
	}
	if err := os.WriteFile(filepath.Join(dir, KeyFile), e.private, 0o600); err != nil {
		t.Fatal(err)
	}
	return use(t, e, path, seed) || err != nil || !r.OK()
}

// use opens the file and works with it until an error.
func use(t *testing.T, e *evidence, path string, seed uint64) (refused bool) {
	t.Helper()
	j, err := Open(path, Options{Checker: testChecker(t), NoSync: true})
	if err != nil {
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) && !errors.Is(err, errKey) {
			t.Errorf("seed %d: open: %v", seed, err)
		}
		return true
	}
	defer j.Close()
	n := 0
	for r, err := range j.Log(0) {
		if err != nil {
			return true
		}
		if want := fmt.Sprintf("\"payload %d\"", n); string(r.Data) != want {
			t.Errorf("seed %d: entry %d was read as %s", seed, n, r.Data)
		}
		n++
	}
	_, err = j.Append(t.Context(), one("run/1", "k", ""))
	return err != nil || n != tamperEntries
}

func TestDamage(t *testing.T) {
	e := gather(t, tamperEntries)
	found := 0
	const seeds = 24
	for seed := range uint64(seeds) {
		if survey(t, e, mangle(append([]byte(nil), e.file...), seed), seed) {
			found++
		}
	}
	if found < seeds/2 {
		t.Errorf("only %d of %d damaged files were noticed: is the damage where the data is?", found, seeds)
	}
	t.Logf("%d of %d damaged files were noticed; in the others the damage hit nothing that is in use", found, seeds)
}

// FuzzDamage is TestDamage without an end.
func FuzzDamage(f *testing.F) {
	e := gather(f, tamperEntries)
	f.Add(uint64(0))
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		survey(t, e, mangle(append([]byte(nil), e.file...), seed), seed)
	})
}

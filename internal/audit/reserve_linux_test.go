package audit

import (
	"os"
	"strings"
	"testing"
)

// Whatever was appended, and over restarts, the next commit goes to places
// that the file already has on the disk.
func TestNoHoles(t *testing.T) {
	j := openTest(t, Options{})
	path := j.Path()
	for range 2 {
		for i := range 20 {
			mustAppend(t, j, one("s", "k", strings.Repeat("x", i)))
			wantReserve(t, path)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = openAt(t, path, Options{})
	}
}

// wantReserve checks that the file has no hole and is longer than what is used.
func wantReserve(t *testing.T, path string) {
	t.Helper()
	const seekHole = 4
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head, size, err := readHeader(path)
	if err != nil {
		t.Fatal(err)
	}
	if used := head.pages * uint64(head.pageSize); uint64(size) < used+reserveBelow/2 {
		t.Errorf("%d bytes in use of %d", used, size)
	}
	// Creating the file leaves two pages in a hole, before the first reserve.
	if hole, err := f.Seek(32<<10, seekHole); err != nil || hole != size {
		t.Errorf("a hole at %d of %d, %v", hole, size, err)
	}
}

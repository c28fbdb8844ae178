//go:build !cgo

package nvml

import "testing"

// The library's own tests need cgo and a C compiler, as the library does.
func TestWithoutCgo(t *testing.T) {
	err := newDriver("").open()
	if err == nil {
		t.Fatal("a driver without cgo opens")
	}
	t.Skipf("SKIPPED: nothing of NVIDIA's library is tested: %v", err)
}

package audit

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Letting go of the file's pages takes nothing from those who read or write.
func TestLetGo(t *testing.T) {
	j := openTest(t, Options{NoSync: true})
	var want []Record
	var letting sync.WaitGroup
	done := make(chan struct{})
	letting.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := j.LetGo(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for i := range 200 {
		want = append(want, mustAppend(t, j, one("intake", "notification", fmt.Sprintf("a-%d", i)))...)
		if i%50 == 49 {
			if diff := cmp.Diff(want, collect(t, j.Log(0))); diff != "" {
				t.Fatalf("after %d (-appended +read):\n%s", i, diff)
			}
		}
	}
	close(done)
	letting.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.LetGo(); err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

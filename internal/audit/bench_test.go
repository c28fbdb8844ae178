package audit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkAppend reports durable appends by callers that wait for each.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 12 << 10} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%dKiB/callers=%d", size>>10, callers), func(b *testing.B) {
				j := openTest(b, Options{})
				data := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), size-2)...), '"')
				took := make([]time.Duration, b.N)
				next := make(chan int, callers)
				b.ResetTimer()
				var group sync.WaitGroup
				for c := range callers {
					group.Go(func() {
						stream := fmt.Sprintf("run/%d", c)
						for i := range next {
							start := time.Now()
							if _, err := j.Append(context.Background(), Append{
								Stream: stream, After: Any,
								Records: []Record{{Kind: "bench", Data: data}},
							}); err != nil {
								b.Error(err)
								return
							}
							took[i] = time.Since(start)
						}
					})
				}
				for i := range b.N {
					next <- i
				}
				close(next)
				group.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
				reportTail(b, took)
			})
		}
	}
}

// BenchmarkFsync reports what one write and sync of a page costs here: the
// floor under a lone caller's append, and the yardstick for the others.
func BenchmarkFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	took := make([]time.Duration, b.N)
	for i := range b.N {
		start := time.Now()
		if _, err := f.WriteAt(page, int64(i%256)*4096); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
	reportTail(b, took)
}

// reportTail reports the 99th percentile.
func reportTail(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// million is how many entries the large logs have, of about 300 bytes each, in
// 10,000 streams.
const million = 1_000_000

// millionEntries makes such a log and closes it.
func millionEntries(b *testing.B) (path, key string) {
	b.Helper()
	j := openTest(b, Options{NoSync: true})
	data := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 230)...), '"')
	for i := 0; i < million; {
		var batch []Append
		for range 1000 {
			batch = append(batch, Append{
				Stream: fmt.Sprintf("run/r-%06d", i%10_000), After: Any,
				Records: []Record{{Kind: "step.done", Data: data}},
			})
			i++
		}
		mustAppend(b, j, batch...)
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	return j.Path(), j.PublicKey()
}

// BenchmarkVerify1M verifies the whole log per iteration.
func BenchmarkVerify1M(b *testing.B) {
	path, key := millionEntries(b)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		if r := mustVerify(b, path, key, VerifyOptions{}); r.Entries != million {
			b.Fatal(r.Entries)
		}
	}
	b.ReportMetric(float64(million)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(info.Size())/million, "file-bytes/entry")
}

// BenchmarkOpen1M opens the log after a clean stop, checks it in a child as
// after an unclean one, and reads it from end to end.
func BenchmarkOpen1M(b *testing.B) {
	path, _ := millionEntries(b)
	b.Run("open", func(b *testing.B) {
		for range b.N {
			j := openAt(b, path, Options{Checker: testChecker(b)})
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		for range b.N {
			if err := testChecker(b)(b.Context(), path); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		j := openAt(b, path, Options{})
		b.ResetTimer()
		for range b.N {
			if n := len(collect(b, j.Log(0))); n != million {
				b.Fatal(n)
			}
		}
		b.ReportMetric(float64(million)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	})
}

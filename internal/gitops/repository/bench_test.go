package repository

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

// large makes a repository of 10,000 files with 50 MB of history that does not
// compress, in 1,000 commits.
func large(tb testing.TB, s *gittest.Server) {
	tb.Helper()
	var stream bytes.Buffer
	random := rand.NewChaCha8([32]byte{1})
	blob := make([]byte, 50<<10)
	fmt.Fprint(&stream, "commit refs/heads/main\ncommitter Ada <ada@example.com> 1700000000 +0000\ndata 5\nfirst\n")
	for i := range 10_000 {
		fmt.Fprintf(&stream, "M 100644 inline team-%d/service-%d/file-%d.yaml\ndata %d\n%s\n", i%20, i/20%50, i, len(manifest), manifest)
	}
	for i := range 1000 {
		_, _ = random.Read(blob)
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter Ada <ada@example.com> %d +0000\ndata 4\nnext\nM 100644 inline team-%d/data.bin\ndata %d\n%s\n", 1700000060+60*i, i%20, len(blob), blob)
	}
	s.GitIn(&stream, "fast-import", "--quiet")
}

// BenchmarkCommit is from a change to the answered push, on a warm clone.
func BenchmarkCommit(b *testing.B) {
	s := gittest.NewServer(b)
	large(b, s)
	r := open(b, s)
	base := head(b, r)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	i := 0
	for b.Loop() {
		i++
		done, err := r.Commit(b.Context(), CommitRequest{
			Base: base, Message: message(fmt.Sprint("e", i)),
			Files: []gitops.File{{Path: "team-7/service-2/file-47.yaml", Data: []byte(strings.Replace(manifest, "256", fmt.Sprint(256+i), 1))}},
		})
		if err != nil {
			b.Fatal(err)
		}
		base = done.SHA
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapSys>>20), "MB-heap")
	b.ReportMetric(float64(after.HeapAlloc>>20), "MB-live")
}

// BenchmarkClone is the first fetch, cold.
func BenchmarkClone(b *testing.B) {
	s := gittest.NewServer(b)
	large(b, s)
	for b.Loop() {
		r, err := New(Options{URL: s.RepositoryURL(), Dir: b.TempDir(), Depth: 100_000})
		if err != nil {
			b.Fatal(err)
		}
		head(b, r)
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapSys>>20), "MB-heap")
}

// BenchmarkRead reads a directory of a commit on a warm clone, and what is new
// from the server.
func BenchmarkRead(b *testing.B) {
	s := gittest.NewServer(b)
	large(b, s)
	r := open(b, s)
	for b.Loop() {
		if _, err := r.Files(b.Context(), Query{SHA: head(b, r), Path: "team-7"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLog is a window of 100 commits of one directory, on a warm clone.
func BenchmarkLog(b *testing.B) {
	s := gittest.NewServer(b)
	large(b, s)
	r := open(b, s)
	head(b, r)
	since := time.Unix(1700000060+60*900, 0)
	for b.Loop() {
		log, err := r.Log(b.Context(), Window{Since: since, Path: "team-7"})
		if err != nil || len(log) != 5 {
			b.Fatal(len(log), err)
		}
	}
}

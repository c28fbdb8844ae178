package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// archiveEnv is how many notifications BenchmarkArchive archives.
const archiveEnv = "ARCHIVE_NOTIFICATIONS"

// BenchmarkArchive archives a journal of notifications with ten alerts each, and a run of
// 25 events for every twenty of them. It reports the size of file and archive, how long
// that took, how long the rest takes to verify, and what appends cost before and after.
func BenchmarkArchive(b *testing.B) {
	n := 10_000
	if s, err := strconv.Atoi(os.Getenv(archiveEnv)); err == nil {
		n = s
	}
	dir, archive := b.TempDir(), b.TempDir()
	path := filepath.Join(dir, JournalFile)
	for b.Loop() {
		j, err := audit.Open(path, audit.Options{NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		fillForArchive(b, j, n)
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
		if j, err = audit.Open(path, audit.Options{}); err != nil {
			b.Fatal(err)
		}
		before := fileBytes(b, path)
		b.ReportMetric(appendMicros(b, j), "us/append-before")
		r := &retention{
			journal: j, keep: 20 * 24 * time.Hour, archive: archive, now: time.Now, log: slog.New(slog.DiscardHandler),
			rule: func(now time.Time) (*executor.Retention, error) { return executor.NewRetention(j, now) },
		}
		during := appendWhile(b, j)
		began := time.Now()
		r.archiveOld(b.Context())
		took := time.Since(began)
		mean, worst := during()
		b.ReportMetric(mean, "us/append-during")
		b.ReportMetric(worst/1000, "ms/append-worst")
		s, err := r.Status()
		if err != nil || s.Failed != nil || s.Archived == 0 {
			b.Fatalf("%+v, %v", s, err)
		}
		b.ReportMetric(appendMicros(b, j), "us/append-after")
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		report, err := audit.Verify(b.Context(), path, j.PublicKey(), audit.VerifyOptions{})
		if err != nil || !report.OK() {
			b.Fatalf("%+v, %v", report, err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/verify")
		b.ReportMetric(took.Seconds(), "s/archive")
		b.ReportMetric(float64(before)/(1<<20), "MiB-file-before")
		b.ReportMetric(float64(fileBytes(b, path))/(1<<20), "MiB-file-after")
		_, compact, err := audit.Compact(b.Context(), path, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(compact)/(1<<20), "MiB-compact")
		size := int64(0)
		for _, x := range s.Segments {
			size += x.Bytes
		}
		b.ReportMetric(float64(size)/(1<<20), "MiB-archive")
		b.ReportMetric(float64(s.Archived), "bodies")
	}
}

func fileBytes(b *testing.B, path string) int64 {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// appendMicros is how long an append of a lone caller takes, over a second.
func appendMicros(b *testing.B, j *audit.Journal) float64 {
	b.Helper()
	data := json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)
	n, began := 0, time.Now()
	for time.Since(began) < time.Second {
		if _, err := j.Append(context.Background(), audit.Append{Stream: "run/r-probe", After: audit.Any, Records: []audit.Record{{Kind: "k", Data: data}}}); err != nil {
			b.Fatal(err)
		}
		n++
	}
	return float64(time.Since(began).Microseconds()) / float64(n)
}

// appendWhile appends until the function that it returns is called, which returns how
// many microseconds an append took, on average and at worst.
func appendWhile(b *testing.B, j *audit.Journal) func() (mean, worst float64) {
	b.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	n, sum, worst := 0, 0.0, 0.0
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			began := time.Now()
			if _, err := j.Append(context.Background(), audit.Append{Stream: "run/r-probe", After: audit.Any, Records: []audit.Record{{Kind: "k", Data: json.RawMessage(`"x"`)}}}); err != nil {
				b.Error(err)
				return
			}
			took := float64(time.Since(began).Microseconds())
			n, sum, worst = n+1, sum+took, max(worst, took)
		}
	}()
	return func() (float64, float64) {
		close(stop)
		<-ended
		return sum / float64(max(1, n)), worst
	}
}

// fillForArchive fills a journal, from 100 days to 50 days ago.
func fillForArchive(b *testing.B, j *audit.Journal, n int) {
	b.Helper()
	at := time.Now().Add(-100 * 24 * time.Hour)
	step := 50 * 24 * time.Hour / time.Duration(n)
	const together = 64
	var intake, decided []audit.Record
	flush := func(more ...audit.Append) {
		batch := append(more, audit.Append{Stream: dispatch.StreamIntake, After: audit.Any, Records: intake},
			audit.Append{Stream: dispatch.Stream, After: audit.Any, Records: decided})
		if _, err := j.Append(context.Background(), batch...); err != nil {
			b.Fatal(err)
		}
		intake, decided = nil, nil
	}
	for i := range n {
		at = at.Add(step)
		var alerts, episodes []string
		for a := range 10 {
			alerts = append(alerts, fmt.Sprintf(`{"status":"firing","labels":{"alertname":"InferenceQueueGrows","namespace":"serving","service":"chat-%d","pod":"chat-%d-%x","severity":"page","cluster":"c%d"},"annotations":{"summary":"The queue of chat-%d grows, %d requests wait","runbook_url":"https://runbooks.example/queue"},"startsAt":"2026-01-01T00:%02d:%02dZ","generatorURL":"https://prometheus.example/graph?g0.expr=%d","fingerprint":"%016x"}`,
				a, i, i*7919+a, i%40, a, i%900, i/60%60, i%60, i*a, uint64(i)*0x9E3779B97F4A7C15+uint64(a)))
			episodes = append(episodes, fmt.Sprintf("%016x@2026-01-01T00:%02d:%02dZ", uint64(i)*0x9E3779B97F4A7C15+uint64(a), i/60%60, i%60))
		}
		intake = append(intake, audit.Record{Kind: dispatch.KindNotification, Time: at, Data: json.RawMessage(`{"groupKey":"{}","alerts":[` + strings.Join(alerts, ",") + `]}`)})
		done, err := json.Marshal(dispatch.Record{Index: uint64(i), Upto: 10, Done: true, Episodes: episodes, Reason: "no playbook matches its labels"})
		if err != nil {
			b.Fatal(err)
		}
		decided = append(decided, audit.Record{Kind: dispatch.KindUnmatched, Time: at, Data: done})
		if i%20 == 0 {
			flush(audit.Append{Stream: fmt.Sprintf("run/r-%08d", i), After: audit.Any, Records: runForArchive(at)})
		} else if len(intake) == together {
			flush()
		}
	}
	flush()
}

// runForArchive is a run of 25 events.
func runForArchive(at time.Time) (out []audit.Record) {
	for i := range 25 {
		kind := machine.Sampled
		switch i {
		case 0:
			kind = machine.RunStarted
		case 24:
			kind = machine.RunEnded
		}
		out = append(out, audit.Record{Kind: string(kind), Time: at, Data: json.RawMessage(`{"at":"2026-01-01T00:00:00Z","state":"scale","message":"` + strings.Repeat("what it saw ", 25) + `"}`)})
	}
	return out
}

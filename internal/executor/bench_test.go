package executor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/goruntime"
	"github.com/inference-responder/responder/internal/playbook"
)

// live starts an executor in real time.
func live(b testing.TB, j *audit.Journal, set *playbook.Set, steps Steps) (*Executor, func()) {
	b.Helper()
	return liveWith(b, Options{
		Journal: j, Playbooks: func() *playbook.Set { return set }, Kinds: testKinds(),
		Services: testServices(), Steps: steps, Autonomy: playbook.Auto,
	})
}

func liveWith(b testing.TB, o Options) (*Executor, func()) {
	b.Helper()
	e, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	for e.Ready() != nil {
		select {
		case err := <-done:
			b.Fatal(err)
		default:
			time.Sleep(time.Millisecond)
		}
	}
	return e, func() {
		end()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// realistic returns an alert the size that Prometheus' own have.
func realistic(service string) playbook.Alert {
	a := alertOf("Slow", service)
	for i := range 12 {
		a.Labels[fmt.Sprintf("label_%d", i)] = fmt.Sprintf("value-%d-of-%s", i, service)
	}
	a.Annotations = map[string]string{"summary": strings.Repeat("time to first token is over target ", 4), "runbook_url": "https://runbooks.example.org/slo"}
	return a
}

// BenchmarkWaitingRuns opens 10,000 runs that wait at gates and restarts: how
// much memory they take, and how long until the executor is ready again.
func BenchmarkWaitingRuns(b *testing.B) {
	const runs = 10_000
	set, dir := waitingSet(b), b.TempDir()
	j, err := audit.Open(filepath.Join(dir, "journal.db"), audit.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	w := newWorld(time.Now)
	e, stop := live(b, j, set, w)
	for i := 0; i < runs; i += 100 {
		var n playbook.Notification
		for k := range 100 {
			n.Alerts = append(n.Alerts, realistic(fmt.Sprintf("n%05d", i+k)))
		}
		admit(b, j, n)
	}
	waiting := func() int {
		n := 0
		for _, s := range e.Runs(Filter{Open: new(true)}) {
			if s.Phase == machine.PhaseDeciding {
				n++
			}
		}
		return n
	}
	for waiting() < runs {
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		report(b, dir, runs)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDecidedAlerts restarts over alerts that were decided in the last days and
// that nobody acts on: what a start takes and holds must not follow their number. The
// figures of the first start, which finds no snapshot and folds the whole log, are
// reported apart. The larger journal takes 3 GB and minutes to fill: -short leaves it
// out.
func BenchmarkDecidedAlerts(b *testing.B) {
	for _, alerts := range []int{500_000, 5_000_000} {
		b.Run(fmt.Sprintf("alerts=%d", alerts), func(b *testing.B) {
			if alerts > 500_000 && testing.Short() {
				b.Skip("it fills 3 GB of disk")
			}
			dir := onDisk(b)
			fillDecided(b, filepath.Join(dir, "journal.db"), alerts)
			first := restart(b, dir, 0)
			for b.Loop() {
				report(b, dir, 0)
			}
			for unit, value := range first {
				b.ReportMetric(value, "first-"+unit)
			}
			if info, err := os.Stat(filepath.Join(dir, "journal.db")); err == nil {
				b.ReportMetric(float64(info.Size())/(1<<20), "MiB-journal")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fillDecided writes notifications of ten alerts each, as large as real ones, and what
// became of them: no playbook matches.
func fillDecided(b *testing.B, path string, alerts int) {
	b.Helper()
	j, err := audit.Open(path, audit.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	const each, together = 10, 1000 // alerts in a notification, notifications in an append
	var template playbook.Notification
	for i := range each {
		template.Alerts = append(template.Alerts, realistic(fmt.Sprintf("n%d", i)))
	}
	began := time.Now().Add(-13 * 24 * time.Hour).UTC().Round(0)
	step := 12 * 24 * time.Hour / time.Duration(alerts/each)
	for n := 0; n < alerts/each; n += together {
		var intake, decided []audit.Record
		for i := n; i < n+together; i++ {
			at := began.Add(time.Duration(i) * step)
			template.ReceivedAt = at
			rec := dispatch.Record{Notification: j.Size() + uint64(i-n), Index: uint64(i), Upto: each, Done: true, Status: string(playbook.Firing), Reason: "no playbook matches its labels"}
			for k := range template.Alerts {
				a := &template.Alerts[k]
				a.Fingerprint, a.StartsAt = fmt.Sprintf("%016x", i*each+k), at
				rec.Episodes = append(rec.Episodes, a.Episode())
			}
			intake = append(intake, audit.Record{Kind: dispatch.KindNotification, Time: at, Data: template.AppendJSON(nil)})
			decided = append(decided, audit.Record{Kind: dispatch.KindUnmatched, Time: at, Data: encode(rec)})
		}
		_, err := j.Append(context.Background(),
			audit.Append{Stream: dispatch.StreamIntake, After: audit.Any, Records: intake},
			audit.Append{Stream: dispatch.Stream, After: audit.Any, Records: decided})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}

// report restarts in a process of its own and reports its figures.
func report(b *testing.B, dir string, runs int) {
	b.Helper()
	for unit, value := range restart(b, dir, runs) {
		b.ReportMetric(value, unit)
	}
}

// restart starts in a process of its own, which finds so many open runs, and returns
// its figures by unit.
func restart(b *testing.B, dir string, runs int) map[string]float64 {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestRestartChild$", "-test.v")
	cmd.Env = append(os.Environ(), "EXECUTOR_RESTART="+dir, fmt.Sprintf("EXECUTOR_RUNS=%d", runs))
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	figures := map[string]float64{}
	for _, line := range strings.Split(string(out), "\n") {
		var value float64
		var unit string
		if n, err := fmt.Sscanf(line, "figure %f %s", &value, &unit); n == 2 && err == nil {
			figures[unit] = value
		}
	}
	return figures
}

// TestRestartChild is the process that restart starts.
func TestRestartChild(t *testing.T) {
	dir := os.Getenv("EXECUTOR_RESTART")
	if dir == "" {
		t.Skip("only as a child of a benchmark")
	}
	set := waitingSet(t)
	start := time.Now()
	j, err := audit.Open(filepath.Join(dir, "journal.db"), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opened := time.Since(start)
	if err := j.CheckEntries(500 * time.Millisecond); err != nil { // as the service does after a clean stop
		t.Fatal(err)
	}
	fmt.Println("figure", opened.Seconds(), "s-to-open")
	fmt.Println("figure", (time.Since(start) - opened).Seconds(), "s-to-check")
	start = time.Now()
	e, stop := live(t, j, set, newWorld(time.Now))
	fmt.Println("figure", time.Since(start).Seconds(), "s-to-ready")
	time.Sleep(time.Second)
	fmt.Println("figure", resident()/(1<<20), "MiB-resident")
	fmt.Println("figure", ownMemory()/(1<<20), "MiB-own")
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println("figure", float64(m.HeapAlloc)/(1<<20), "MiB-heap")
	if n := len(e.Runs(Filter{Open: new(true)})); fmt.Sprint(n) != os.Getenv("EXECUTOR_RUNS") {
		t.Errorf("%d runs after the restart", n)
	}
	stop()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// waitingSet is of playbooks whose runs wait at gates.
func waitingSet(t testing.TB) *playbook.Set {
	return loadSet(t, func(s string) string {
		return strings.Replace(strings.Replace(s, "autonomy: auto", "autonomy: suggest", 1), "within: 15m", "within: 7d", 1)
	})
}

// resident is the process's resident memory, 0 where the system does not say.
func resident() float64 {
	data, err := os.ReadFile("/proc/self/statm")
	var pages, res float64
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(data), &pages, &res); err != nil {
		return 0
	}
	return res * float64(os.Getpagesize())
}

// ownMemory is the resident memory that only the process can free: without the pages
// of files. 0 where the system does not say.
func ownMemory() float64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var kib float64
		if n, err := fmt.Sscanf(line, "RssAnon: %f kB", &kib); n == 1 && err == nil {
			return kib * 1024
		}
	}
	return 0
}

func admit(b testing.TB, j *audit.Journal, n playbook.Notification) {
	b.Helper()
	n.Version, n.ReceivedAt = "4", time.Now().UTC()
	_, err := j.Append(context.Background(), audit.Append{
		Stream: dispatch.StreamIntake, After: audit.Any, Records: []audit.Record{{Kind: "notification", Data: n.AppendJSON(nil)}},
	})
	if err != nil {
		b.Fatal(err)
	}
}

// first reports when the first effect of each run was issued.
type first struct{ at chan time.Time }

// Do implements Steps.
func (f first) Do(_ context.Context, e machine.Effect) machine.Outcome {
	if e.Action == machine.ActionCheck {
		f.at <- time.Now()
		return machine.Outcome{Status: machine.StatusOK, Data: []byte(`{"bad":false,"value":1}`)}
	}
	return machine.Outcome{Status: machine.StatusOK}
}

// BenchmarkFirstEffect measures from handing a notification to the journal to
// the first effect of its run, on a disk that syncs, and one sync of the same
// disk in the same run: the 99th percentile must stay under five of those.
//
// Alerts that come 50 ms apart leave pauses, in which the service collects its
// garbage. Those that come 2 ms apart leave none: some meet a collection, and
// there is no target for them.
func BenchmarkFirstEffect(b *testing.B) {
	for _, apart := range []time.Duration{50 * time.Millisecond, 2 * time.Millisecond} {
		b.Run("apart="+apart.String(), func(b *testing.B) { firstEffects(b, apart) })
	}
}

// firstEffects measures 2,000 of them: of fewer, a 99th percentile says little.
func firstEffects(b *testing.B, apart time.Duration) {
	const samples = 2000
	dir := onDisk(b)
	j, err := audit.Open(filepath.Join(dir, "journal.db"), audit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	asTheService(b, j)
	f := first{make(chan time.Time)}
	_, stop := live(b, j, loadSet(b, nil), f)
	defer stop()
	file, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	var effects, syncs []time.Duration
	met := uint64(0)
	for b.Loop() {
		for range samples {
			syncs = append(syncs, syncOnce(b, file))
			collected, start := collections(), time.Now()
			admit(b, j, playbook.Notification{Alerts: []playbook.Alert{realistic(fmt.Sprintf("n%d", len(effects)))}})
			effects = append(effects, (<-f.at).Sub(start))
			met += collections() - collected
			time.Sleep(apart) // the run's end is none of the next one's business
		}
	}
	p := func(d []time.Duration, q float64) float64 {
		slices.Sort(d)
		return float64(d[int(q*float64(len(d)-1))].Microseconds())
	}
	b.ReportMetric(p(effects, 0.5), "p50-us")
	b.ReportMetric(p(effects, 0.99), "p99-us")
	b.ReportMetric(p(syncs, 0.5), "sync-p50-us")
	b.ReportMetric(p(syncs, 0.99), "sync-p99-us")
	b.ReportMetric(p(effects, 0.99)/p(syncs, 0.99), "p99/sync-p99")
	b.ReportMetric(float64(met)/float64(len(effects))*1000, "collections-met-per-1000")
	b.ReportMetric(0, "ns/op")
}

// onDisk returns a directory on a disk: TMPDIR may be memory.
func onDisk(b *testing.B) string {
	b.Helper()
	home, err := os.UserCacheDir()
	if err != nil {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(home, "executor-bench-")
	if err != nil {
		return b.TempDir()
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	return dir
}

// asTheService has Go's runtime run as it does in the service, which holds some
// 20 MiB when it is idle: the more it holds, the more seldom it collects, and
// the longer that takes.
func asTheService(b *testing.B, j *audit.Journal) {
	b.Helper()
	type object struct {
		next *object
		_    [7]uint64
	}
	held := make([]*object, 20<<20/64)
	for i := range held {
		held[i] = &object{next: held[i/2]}
	}
	b.Cleanup(func() { runtime.KeepAlive(held) })
	if os.Getenv("GOMAXPROCS") == "" {
		before := runtime.GOMAXPROCS(0)
		goruntime.AddProcessor()
		b.Cleanup(func() { runtime.GOMAXPROCS(before) })
	}
	if os.Getenv("GOGC") == "" {
		before := debug.SetGCPercent(50)
		b.Cleanup(func() { debug.SetGCPercent(before) })
	}
	runtime.GC() // what was needed to get here is none of the first alert's business
	worked, end := j.Watch()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.CollectInPauses(ctx, worked, j.Idle)
	}()
	b.Cleanup(func() {
		stop()
		<-done
		end()
	})
}

// syncOnce is how long a page takes to get to the disk.
func syncOnce(b *testing.B, file *os.File) time.Duration {
	b.Helper()
	start := time.Now()
	if _, err := file.Write(make([]byte, 4096)); err != nil {
		b.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// collections is how often garbage was collected so far.
func collections() uint64 {
	read := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}

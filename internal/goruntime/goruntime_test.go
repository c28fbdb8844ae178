package goruntime

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// whole lets the test use the number of processors that the runtime chooses, and
// afterwards back the one there was.
func whole(t *testing.T) int {
	t.Helper()
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	runtime.SetDefaultGOMAXPROCS()
	return runtime.GOMAXPROCS(0)
}

func TestAddProcessor(t *testing.T) {
	own := whole(t)
	want := own
	if own < enough {
		want = own + 1
	}
	for range 2 { // and not one more each time
		if n := AddProcessor(); n != want || runtime.GOMAXPROCS(0) != want {
			t.Errorf("%d, and %d in the runtime, want %d", n, runtime.GOMAXPROCS(0), want)
		}
	}
}

// What the container may use can change, and so can who sets the number.
func TestKeepProcessors(t *testing.T) {
	whole(t)
	want := AddProcessor()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		go KeepProcessors(ctx, log)
		for range 3 {
			runtime.GOMAXPROCS(1)
			time.Sleep(followEvery + time.Second)
			synctest.Wait()
			if n := runtime.GOMAXPROCS(0); n != want {
				t.Errorf("%d processors after a minute, want %d", n, want)
			}
		}
		end()
		synctest.Wait()
		if n := strings.Count(out.String(), "processors of the Go runtime"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, out.String())
		}
	})
}

func TestCollectInPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		worked := make(chan struct{}, 1)
		var busy atomic.Bool
		var collected atomic.Int64
		go collectInPauses(ctx, worked, func() bool { return !busy.Load() }, func() { collected.Add(1) })
		want := func(n int64, when string) {
			t.Helper()
			synctest.Wait()
			if got := collected.Load(); got != n {
				t.Errorf("%d collections %s, want %d", got, when, n)
			}
		}
		time.Sleep(time.Hour)
		want(0, "without any work")
		for range 1000 {
			worked <- struct{}{}
			time.Sleep(pause / 3)
		}
		want(0, "while there is work")
		time.Sleep(2 * pause)
		want(1, "after the work")
		time.Sleep(time.Hour)
		want(1, "in one pause")
		worked <- struct{}{}
		time.Sleep(2 * pause)
		want(2, "after more work")
		worked <- struct{}{}
		busy.Store(true)
		time.Sleep(time.Minute)
		want(2, "while work is under way")
		busy.Store(false)
		time.Sleep(2 * pause)
		want(3, "when it was done")
		worked <- struct{}{}
		end()
		time.Sleep(2 * pause)
		want(3, "when it was ended within a pause")
	})
}

var garbage []byte

func TestHalfFull(t *testing.T) {
	runtime.GC()
	if halfFull() {
		t.Error("half full right after a collection")
	}
	for range 1 << 20 {
		if garbage = make([]byte, 1<<10); halfFull() {
			return
		}
	}
	t.Error("1 GiB of garbage never took half of the room")
}

// A small heap has the least room, a large one its share, also when one becomes the
// other.
func TestRoom(t *testing.T) {
	const least = 64 << 20
	Room{Percent: 50, Least: least}.Keep()
	for _, live := range []int{16 << 20, 512 << 20, 16 << 20} {
		kept := make([]byte, live)
		want := max(least, uint64(live)/2)
		var room uint64
		for range 1000 { // what follows a collection is done beside it
			runtime.GC()
			read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
			metrics.Read(read)
			if room = read[1].Value.Uint64() - read[0].Value.Uint64(); room > want-want/8 && room < want+want/4 {
				break
			}
		}
		if room <= want-want/8 || room >= want+want/4 {
			t.Errorf("%d MiB live have %d MiB of room, want %d", live>>20, room>>20, want>>20)
		}
		runtime.KeepAlive(kept)
	}
}

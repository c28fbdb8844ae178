package nvml

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// fakeDriver is one GPU of which a test says what it reads, in virtual time.
type fakeDriver struct {
	mu     sync.Mutex
	read   func(*gpu.GPU) // each second
	told   chan event     // what happens
	frozen chan struct{}  // not nil: calls do not return until it is closed
}

func (d *fakeDriver) open() error                    { return nil }
func (d *fakeDriver) versions() (driver, lib string) { return "d", "l" }
func (d *fakeDriver) count() (int, error)            { return 1, nil }
func (d *fakeDriver) card(int) card                  { return (*fakeCard)(d) }

type fakeCard fakeDriver

func (c *fakeCard) identify(g *gpu.GPU, _ func(string)) error { g.UUID = "GPU-x"; return nil }
func (c *fakeCard) slow(*gpu.GPU, func(string)) error         { return nil }
func (c *fakeCard) fixed(*gpu.GPU, func(string)) error        { return nil }

func (c *fakeCard) fast(g *gpu.GPU, before func(string)) error {
	before("nvmlDeviceGetFast")
	c.mu.Lock()
	frozen, read := c.frozen, c.read
	c.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	read(g)
	return nil
}

func (c *fakeCard) processes(func(string)) ([]process, gpu.Absence) { return nil, gpu.NotSupported }
func (c *fakeCard) watch(func(string)) (events, error)              { return c, nil }
func (c *fakeCard) close()                                          {}

func (c *fakeCard) wait(limit time.Duration) (event, bool, error) {
	select {
	case e := <-c.told:
		return e, true, nil
	case <-time.After(limit):
		return event{}, false, nil
	}
}

func (d *fakeDriver) freeze(c chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = c
}

// watch runs a collector on the fake in virtual time, for 20 s at first.
func watch(t *testing.T, d *fakeDriver, test func(t *testing.T, c *Collector)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d.told = make(chan event)
		ctx, cancel := context.WithCancel(t.Context())
		c := start(ctx, Options{Period: time.Second, Node: "n", Log: slog.New(slog.DiscardHandler)}, d, time.Second)
		time.Sleep(20*time.Second - time.Millisecond)
		test(t, c)
		cancel()
		time.Sleep(eventWait) // the last wait for events
		synctest.Wait()
	})
}

func heat(violation *uint64) func(*gpu.GPU) {
	return func(g *gpu.GPU) {
		*violation += 1000
		g.Clocks.Reasons = gpu.Known(gpu.HWThermalSlowdown)
		g.Clocks.Violation.HWThermalNS = gpu.Known(*violation)
		g.Clocks.SMMHz = gpu.Known(int64(*violation))
		g.Temperature.GPUC = gpu.Known(int64(*violation / 1000))
		g.Temperature.MarginC = gpu.Known(100 - int64(*violation/1000))
	}
}

func TestMinutes(t *testing.T) {
	violation := uint64(0)
	watch(t, &fakeDriver{read: heat(&violation)}, func(t *testing.T, c *Collector) {
		time.Sleep(100 * time.Second) // 120 s and so many samples
		if s := c.Snapshot(); !s.GPUs[0].EventsSince.Equal(s.Since) {
			t.Errorf("events are known since %s, watched since %s", s.GPUs[0].EventsSince, s.Since)
		}
		m := c.Snapshot().GPUs[0].Minutes
		if len(m) != 2 || m[0].Samples != 60 || m[1].Samples != 60 || m[1].Start.Sub(m[0].Start) != time.Minute || m[0].Missed != 0 {
			t.Fatalf("%+v", m)
		}
		if m[1].Reasons[gpu.HWThermalSlowdown] != 60 || m[1].GPUMaxC.String() != "120" || m[1].MarginMinC.String() != "-20" || m[1].SMMinMHz.String() != "61000" || m[1].SMMeanMHz.String() != "90500" {
			t.Errorf("second minute: %+v", m[1])
		}
		// From the end of the first minute to that of the second.
		if got := m[1].Violation.HWThermalNS.String(); got != "60000" {
			t.Errorf("violation within the second minute: %s", got)
		}
		if got := m[1].Violation.SyncBoostNS.String(); got != "[not_read]" {
			t.Errorf("a counter that is not read: %s", got)
		}
		time.Sleep(time.Hour)
		s := c.Snapshot()
		if _, err := gpu.Encode(s); err != nil || len(s.GPUs[0].Minutes) != keptMinutes {
			t.Errorf("after an hour: %d minutes, %v", len(s.GPUs[0].Minutes), err)
		}
	})
}

// A slowdown of hours is told with its begin, however short the history that was
// asked for; what went on when the driver was looked at first may be older.
func TestStretchOutlivesTheHistory(t *testing.T) {
	reasons := gpu.GPUIdle
	ecc := uint64(2)
	read := func(g *gpu.GPU) {
		g.Clocks.Reasons = gpu.Known(reasons)
		g.ECC.VolatileUncorrectable = gpu.Known(ecc)
	}
	watch(t, &fakeDriver{read: read}, func(t *testing.T, c *Collector) {
		reasons, ecc = gpu.GPUIdle|gpu.HWSlowdown, 43 // from the sample at 20 s on
		began := time.Now().Add(time.Millisecond).UTC().Round(0)
		time.Sleep(5*time.Hour + 500*time.Millisecond)
		s := c.Snapshot().Shorter(1)
		data, err := gpu.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = gpu.Decode(data); err != nil {
			t.Fatal(err)
		}
		g := s.GPUs[0]
		want := []gpu.Stretch{
			{Reason: gpu.GPUIdle, Since: s.Since, Last: g.TakenAt, OrBefore: true},
			{Reason: gpu.HWSlowdown, Since: began, Last: g.TakenAt},
		}
		if !slices.Equal(g.Stretches, want) || len(g.Minutes) != 1 || !g.Baseline.ErredAt.Equal(began) {
			t.Errorf("%d minutes, erred at %s, stretches %+v, want %+v", len(g.Minutes), g.Baseline.ErredAt, g.Stretches, want)
		}
	})
}

// Over a driver that was opened anew nobody knows whether something went on.
func TestStretchEndsWithTheDriver(t *testing.T) {
	h := &history{period: time.Second}
	began := time.Now()
	slow := gpu.GPU{UUID: "GPU-x", Clocks: gpu.Clocks{Reasons: gpu.Known(gpu.HWSlowdown)}}
	h.add(gpu.GPU{UUID: "GPU-x", Clocks: gpu.Clocks{Reasons: gpu.Known[gpu.Reasons](0)}}, began)
	h.add(slow, began.Add(time.Second))
	h.restart()
	h.add(slow, began.Add(12*time.Second))
	var g gpu.GPU
	h.into(&g, began.Add(12*time.Second))
	at := began.Add(12 * time.Second).Round(0).UTC()
	if want := []gpu.Stretch{{Reason: gpu.HWSlowdown, Since: at, Last: at, OrBefore: true}}; !slices.Equal(g.Stretches, want) {
		t.Errorf("%+v, want %+v", g.Stretches, want)
	}
}

// What a driver that hangs did not answer is missed, in the minute it was due.
func TestMissedSamples(t *testing.T) {
	violation := uint64(0)
	d := &fakeDriver{read: heat(&violation)}
	watch(t, d, func(t *testing.T, c *Collector) {
		thaw := make(chan struct{})
		d.freeze(thaw)
		time.Sleep(70 * time.Second) // at 90 s; none since 20 s
		g := c.Snapshot().GPUs[0]
		if g.Clocks.Reasons.Why() != gpu.Timeout || c.Snapshot().TakenAt.Sub(g.TakenAt) < 70*time.Second {
			t.Errorf("frozen: reasons %v taken %s ago", g.Clocks.Reasons, c.Snapshot().TakenAt.Sub(g.TakenAt))
		}
		d.freeze(nil)
		close(thaw)
		time.Sleep(10 * time.Second)
		m := c.Snapshot().GPUs[0].Minutes
		if len(m) != 2 || m[0].Samples != 20 || m[0].Missed != 40 || m[1].Missed != 30 || m[1].Samples != 11 {
			t.Errorf("%+v", m)
		}
	})
}

// A driver that was loaded anew counts from zero: how much was lost to a
// reason in that minute is not known then.
func TestCountersBeginAnew(t *testing.T) {
	violation := uint64(1e9)
	watch(t, &fakeDriver{read: heat(&violation)}, func(t *testing.T, c *Collector) {
		violation = 0
		time.Sleep(time.Second)
		if got := c.Snapshot().GPUs[0].Minutes[0].Violation.HWThermalNS.Why(); got != gpu.Implausible {
			t.Errorf("violation: %q", got)
		}
	})
}

// Only so many events are kept, with the time at which they were seen: of those
// that are all of other kinds the last ones.
func TestEventsAreBounded(t *testing.T) {
	violation := uint64(0)
	d := &fakeDriver{read: heat(&violation)}
	watch(t, d, func(t *testing.T, c *Collector) {
		for i := range gpu.MaxEvents + 5 {
			d.told <- event{gpu.EventXID, uint64(1000 + i)}
			time.Sleep(time.Second)
		}
		s := c.Snapshot()
		events := s.GPUs[0].Events
		if len(events) != gpu.MaxEvents || events[0].Data != 1005 || !events[len(events)-1].At.Equal(s.TakenAt.Add(-time.Second)) {
			t.Errorf("%d events, first %+v, last %+v at %s", len(events), events[0], events[len(events)-1], s.TakenAt)
		}
		// The fifth was dropped so long ago.
		if since := s.TakenAt.Add(-(gpu.MaxEvents + 1) * time.Second); !s.GPUs[0].EventsSince.Equal(since) {
			t.Errorf("all events are known since %s, want %s", s.GPUs[0].EventsSince, since)
		}
		if _, err := gpu.Encode(s); err != nil {
			t.Error(err)
		}
	})
}

// An application that fails again and again does not push out what the GPU needs
// a reset for.
func TestACrashLoopHidesNothing(t *testing.T) {
	h := &history{period: time.Second}
	began := time.Now()
	h.happened(began, event{gpu.EventXID, 79})
	const loop = 300
	for i := range loop {
		h.happened(began.Add(time.Duration(i+1)*time.Second), event{gpu.EventXID, 31})
	}
	g := gpu.GPU{UUID: "GPU-x"}
	now := began.Add((loop + 1) * time.Second)
	h.into(&g, now)
	last := g.Events[len(g.Events)-1]
	if len(g.Events) != gpu.MaxEvents || g.Events[0].Data != 79 || last.Data != 31 || !last.At.Equal(now.Add(-time.Second)) {
		t.Errorf("%d events, first %+v, last %+v", len(g.Events), g.Events[0], last)
	}
	if want := began.Add((loop - gpu.MaxEvents + 1) * time.Second); !h.unbroken(began.Add(-time.Hour)).Equal(want) {
		t.Errorf("all events are known since %s, want %s", h.unbroken(began.Add(-time.Hour)), want)
	}
	g.TakenAt = now
	if j := judge.Nodes(now, gpu.Snapshot{TakenAt: now, PeriodMS: 1000, GPUs: []gpu.GPU{g}}); j[0].GPUs[0].Verdict != judge.Failing {
		t.Errorf("got %+v, want failing", j[0].GPUs[0])
	}
}

// A wall clock that is set while samples are taken bends nothing: everything
// in a snapshot is written by the clock as it stands now. The clock that jumps
// is the monotonic one's neighbour, so the test takes the history by hand.
func TestClockJumps(t *testing.T) {
	h := &history{period: time.Second}
	began := time.Now()
	for i := range 90 {
		h.add(gpu.GPU{UUID: "GPU-x"}, began.Add(time.Duration(i)*time.Second))
	}
	h.happened(began.Add(30*time.Second), event{gpu.EventXID, 48})
	var g gpu.GPU
	h.into(&g, began.Add(90*time.Second))
	if len(g.Minutes) != 2 || g.Minutes[1].Start.Sub(g.Minutes[0].Start) != time.Minute {
		t.Fatalf("%+v", g.Minutes)
	}
	if at := g.Events[0].At; at.Sub(g.Minutes[0].Start) != 30*time.Second || at.Location() != time.UTC {
		t.Errorf("event at %s, first minute at %s", at, g.Minutes[0].Start)
	}
	if s := g.Minutes[0].Start.String(); len(s) == 0 || g.Minutes[0].Start != g.Minutes[0].Start.Round(0) {
		t.Errorf("%s still has a monotonic part", s)
	}
}

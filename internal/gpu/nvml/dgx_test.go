//go:build cgo

package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nvidia "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// dgx is go-nvml's own mock of a DGX A100, of which a test says what it lacks:
// the mock has no health readings. It is pure Go, so that minutes of it pass in
// virtual time, which those of the C library cannot.
type dgx struct {
	*library
	server *dgxa100.Server
	gpus   []*dgxGPU
}

// dgxGPU is one GPU of it.
type dgxGPU struct {
	*dgxa100.Device

	mu     sync.Mutex // guards what follows
	parts  []nvidia.Device
	told   chan nvidia.EventData
	tooOld bool // events cannot be waited for any more
}

// newDGX is a machine with idle, healthy GPUs, whose driver has the functions
// that a verdict needs, and more.
func newDGX(n int, functions ...string) *dgx {
	d := &dgx{server: dgxa100.New()}
	functions = append(functions, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetTemperature", "nvmlDeviceGetEccMode", "nvmlDeviceGetTotalEccErrors",
		"nvmlDeviceGetRemappedRows", "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeRunningProcesses_v3")
	d.server.LookupSymbolFunc = func(name string) error {
		if slices.Contains(functions, name) {
			return nil
		}
		return errors.New("undefined symbol")
	}
	d.server.DeviceGetCountFunc = func() (int, nvidia.Return) { return n, nvidia.SUCCESS }
	d.server.EventSetCreateFunc = func() (nvidia.EventSet, nvidia.Return) { return newQueue(), nvidia.SUCCESS }
	for i := range n {
		g := &dgxGPU{Device: d.server.Devices[i].(*dgxa100.Device), told: make(chan nvidia.EventData)}
		g.UUID = fmt.Sprintf("GPU-%d", i)
		g.health()
		d.gpus = append(d.gpus, g)
	}
	d.library = &library{lib: d.server, have: map[string]bool{}}
	return d
}

func (d *dgx) open() error { return d.begin() }

// health adds to the mock what it has no answer for.
func (g *dgxGPU) health() {
	g.GetSerialFunc = func() (string, nvidia.Return) { return "", nvidia.ERROR_NOT_SUPPORTED }
	g.GetCurrentClocksEventReasonsFunc = func() (uint64, nvidia.Return) { return nvidia.ClocksEventReasonGpuIdle, nvidia.SUCCESS }
	g.GetTemperatureFunc = func(nvidia.TemperatureSensors) (uint32, nvidia.Return) { return 34, nvidia.SUCCESS }
	g.GetEccModeFunc = func() (now, next nvidia.EnableState, _ nvidia.Return) {
		return nvidia.FEATURE_ENABLED, nvidia.FEATURE_ENABLED, nvidia.SUCCESS
	}
	g.GetTotalEccErrorsFunc = func(nvidia.MemoryErrorType, nvidia.EccCounterType) (uint64, nvidia.Return) { return 0, nvidia.SUCCESS }
	g.GetRemappedRowsFunc = func() (corrected, uncorrectable int, pending, failed bool, _ nvidia.Return) {
		if on, _, _ := g.GetMigMode(); on == nvidia.DEVICE_MIG_ENABLE {
			return 0, 0, false, false, nvidia.ERROR_NOT_SUPPORTED
		}
		return 0, 0, false, false, nvidia.SUCCESS
	}
	g.GetComputeRunningProcessesFunc = func() ([]nvidia.ProcessInfo, nvidia.Return) { return nil, nvidia.SUCCESS }
	g.GetGpuFabricInfoVFunc = func() nvidia.GpuFabricInfoHandler { return nvidia.GpuFabricInfoHandler{} } // the real function, which is not there
	g.GetSupportedEventTypesFunc = func() (uint64, nvidia.Return) { return eventTypes, nvidia.SUCCESS }
	g.RegisterEventsFunc = func(_ uint64, set nvidia.EventSet) nvidia.Return {
		set.(*queue).of(g)
		return nvidia.SUCCESS
	}
	g.GetMaxMigDeviceCountFunc = func() (int, nvidia.Return) { return 7, nvidia.SUCCESS }
	g.GetMigDeviceHandleByIndexFunc = func(i int) (nvidia.Device, nvidia.Return) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if i >= len(g.parts) {
			return nil, nvidia.ERROR_NOT_FOUND
		}
		return g.parts[i], nvidia.SUCCESS
	}
}

// queue is an event set.
type queue struct {
	mock.EventSet
	freed bool
	gpu   *dgxGPU
}

func newQueue() *queue {
	q := &queue{}
	q.FreeFunc = func() nvidia.Return {
		q.freed = true
		return nvidia.SUCCESS
	}
	q.WaitFunc = func(uint32) (nvidia.EventData, nvidia.Return) { return nvidia.EventData{}, nvidia.ERROR_UNKNOWN }
	return q
}

func (q *queue) of(g *dgxGPU) {
	q.gpu = g
	q.WaitFunc = func(ms uint32) (nvidia.EventData, nvidia.Return) {
		g.mu.Lock()
		broken := g.tooOld
		g.mu.Unlock()
		if broken {
			return nvidia.EventData{}, nvidia.ERROR_UNKNOWN
		}
		select {
		case e := <-g.told:
			return e, nvidia.SUCCESS
		case <-time.After(time.Duration(ms) * time.Millisecond):
			return nvidia.EventData{}, nvidia.ERROR_TIMEOUT
		}
	}
}

// happen raises an XID.
func (g *dgxGPU) happen(xid uint64) {
	g.told <- nvidia.EventData{EventType: nvidia.EventTypeXidCriticalError, EventData: xid}
}

// divide creates GPU instances of the mock's own profiles, one compute instance
// in each, in place of those there were.
func (g *dgxGPU) divide(t *testing.T, profiles ...int) {
	t.Helper()
	if on, _, _ := g.GetMigMode(); on != nvidia.DEVICE_MIG_ENABLE {
		if _, r := g.SetMigMode(nvidia.DEVICE_MIG_ENABLE); r != nvidia.SUCCESS {
			t.Fatal(r)
		}
	}
	var parts []nvidia.Device
	for i, profile := range profiles {
		info, r1 := g.GetGpuInstanceProfileInfo(profile)
		instance, r2 := g.CreateGpuInstance(&info)
		if r1 != nvidia.SUCCESS || r2 != nvidia.SUCCESS {
			t.Fatalf("GPU instance of profile %d: %v, %v", profile, r1, r2)
		}
		gi, _ := instance.GetInfo()
		uuid, name := fmt.Sprintf("MIG-%s-%d", g.UUID, i), fmt.Sprintf("NVIDIA A100-SXM4-40GB MIG %dg.%dgb", info.SliceCount, (info.MemorySizeMB+1023)/1024)
		parts = append(parts, &mock.Device{
			GetUUIDFunc:              func() (string, nvidia.Return) { return uuid, nvidia.SUCCESS },
			GetNameFunc:              func() (string, nvidia.Return) { return name, nvidia.SUCCESS },
			GetGpuInstanceIdFunc:     func() (int, nvidia.Return) { return int(gi.Id), nvidia.SUCCESS },
			GetComputeInstanceIdFunc: func() (int, nvidia.Return) { return 0, nvidia.SUCCESS },
		})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts = parts
}

// run watches the machine for as long as a verdict needs, in virtual time.
func (d *dgx) run(t *testing.T, proc string, test func(t *testing.T, c *Collector)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for _, g := range d.gpus {
			g.told = make(chan nvidia.EventData) // of this bubble
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := start(ctx, Options{Period: time.Second, Node: "dgx", Proc: proc, Log: slog.New(slog.DiscardHandler)}, d, time.Second)
		time.Sleep(150*time.Second - time.Millisecond)
		test(t, c)
		cancel()
		time.Sleep(eventWait) // the last wait for events
		synctest.Wait()
	})
}

// verdicts are those of a snapshot's GPUs.
func verdicts(t *testing.T, c *Collector) []judge.Verdict {
	t.Helper()
	s := c.Snapshot()
	if _, err := gpu.Encode(s); err != nil {
		t.Fatal(err)
	}
	var out []judge.Verdict
	for _, j := range judge.Nodes(time.Now(), s)[0].GPUs {
		out = append(out, j.Verdict)
	}
	return out
}

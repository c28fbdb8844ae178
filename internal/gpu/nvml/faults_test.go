//go:build cgo

package nvml

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	nvidia "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/gpu/nvml/nvmltest"
)

// Events that cannot be watched make a verdict unknown, and every event set
// that was made for it is given back. Watching is tried again.
func TestEventsThatCannotBeWatched(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*dgx)
		why    gpu.Absence
	}{
		"no set": {func(d *dgx) {
			d.server.EventSetCreateFunc = func() (nvidia.EventSet, nvidia.Return) { return nil, nvidia.ERROR_NO_PERMISSION }
		}, gpu.Denied},
		"not registered": {func(d *dgx) {
			d.gpus[0].RegisterEventsFunc = func(uint64, nvidia.EventSet) nvidia.Return { return nvidia.ERROR_UNKNOWN }
		}, gpu.Failed},
		"none": {func(d *dgx) {
			d.gpus[0].GetSupportedEventTypesFunc = func() (uint64, nvidia.Return) { return 0, nvidia.ERROR_NOT_SUPPORTED }
		}, gpu.NotSupported},
		"no XIDs": {func(d *dgx) {
			d.gpus[0].GetSupportedEventTypesFunc = func() (uint64, nvidia.Return) { return nvidia.EventTypePState, nvidia.SUCCESS }
		}, gpu.NotSupported},
		"lost": {func(d *dgx) {
			d.gpus[0].RegisterEventsFunc = func(uint64, nvidia.EventSet) nvidia.Return { return nvidia.ERROR_GPU_IS_LOST }
		}, gpu.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDGX(1)
			var sets []*queue
			d.server.EventSetCreateFunc = func() (nvidia.EventSet, nvidia.Return) {
				sets = append(sets, newQueue())
				return sets[len(sets)-1], nvidia.SUCCESS
			}
			wellAgain := d.breaks(c.change)
			d.run(t, "", func(t *testing.T, collector *Collector) {
				want := judge.Uncertain
				if c.why == gpu.Lost {
					want = judge.Failing
				}
				if why, got := collector.Snapshot().GPUs[0].EventsWatched.Why(), verdicts(t, collector); why != c.why || got[0] != want {
					t.Errorf("%q, %v; want %q, %s", why, got, c.why, want)
				}
				for i, s := range sets {
					if !s.freed {
						t.Errorf("event set %d of %d was kept", i, len(sets))
					}
				}
				wellAgain.Store(true)
				time.Sleep(slowEvery + time.Second)
				if watched, _ := collector.Snapshot().GPUs[0].EventsWatched.Get(); !watched {
					t.Error("watching was not tried again")
				}
			})
		})
	}
}

// breaks changes how the first GPU's events are watched, until it is told that
// all is well again.
func (d *dgx) breaks(change func(*dgx)) *atomic.Bool {
	well := &atomic.Bool{}
	g := d.gpus[0]
	create, types, register := d.server.EventSetCreateFunc, g.GetSupportedEventTypesFunc, g.RegisterEventsFunc
	change(d)
	brokenCreate, brokenTypes, brokenRegister := d.server.EventSetCreateFunc, g.GetSupportedEventTypesFunc, g.RegisterEventsFunc
	d.server.EventSetCreateFunc = func() (nvidia.EventSet, nvidia.Return) {
		if well.Load() {
			return create()
		}
		return brokenCreate()
	}
	g.GetSupportedEventTypesFunc = func() (uint64, nvidia.Return) {
		if well.Load() {
			return types()
		}
		return brokenTypes()
	}
	g.RegisterEventsFunc = func(mask uint64, set nvidia.EventSet) nvidia.Return {
		if well.Load() {
			return register(mask, set)
		}
		return brokenRegister(mask, set)
	}
	return well
}

// A set that breaks while it is waited for is unknown at once, and replaced.
func TestEventsThatStop(t *testing.T) {
	d := newDGX(2)
	d.run(t, "", func(t *testing.T, c *Collector) {
		if got := verdicts(t, c); !slices.Equal(got, []judge.Verdict{judge.Healthy, judge.Healthy}) {
			t.Fatalf("%v", got)
		}
		broken := func(b bool) {
			d.gpus[0].mu.Lock()
			defer d.gpus[0].mu.Unlock()
			d.gpus[0].tooOld = b
		}
		broken(true)
		time.Sleep(eventWait + time.Second)
		if g := c.Snapshot().GPUs[0]; g.EventsWatched.Why() != gpu.Failed || !g.EventsSince.IsZero() {
			t.Errorf("events: %q, known since %s", g.EventsWatched.Why(), g.EventsSince)
		}
		if got := verdicts(t, c); !slices.Equal(got, []judge.Verdict{judge.Uncertain, judge.Healthy}) {
			t.Errorf("%v", got)
		}
		broken(false)
		time.Sleep(slowEvery + time.Second)
		d.gpus[0].happen(79)
		time.Sleep(time.Second)
		if got := verdicts(t, c); !slices.Equal(got, []judge.Verdict{judge.Failing, judge.Healthy}) {
			t.Errorf("after XID 79: %v", got)
		}
		s := c.Snapshot()
		if broken, other := s.TakenAt.Sub(s.GPUs[0].EventsSince), s.TakenAt.Sub(s.GPUs[1].EventsSince); broken > slowEvery+2*time.Second || other < slowEvery+eventWait {
			t.Errorf("events are known for %s, of the GPU that was watched all the time for %s", broken, other)
		}
	})
}

// A wait for events that does not return is seen: the events that it may keep
// back are not known, and come when it returns.
func TestHungWait(t *testing.T) {
	script := nvmltest.Healthy(1)
	c := collect(t, script)
	await(t, c, whole(1))

	script["fail.nvmlEventSetWait_v2"] = nvmltest.Hang
	script.Write(t, shared.script)
	s := await(t, c, func(s gpu.Snapshot) bool { return s.GPUs[0].EventsWatched.Why() == gpu.Timeout })
	if temperature, ok := s.GPUs[0].Temperature.GPUC.Get(); !ok || temperature != 34 {
		t.Errorf("the GPU's other readings: %v", s.GPUs[0].Temperature.GPUC)
	}

	script.Happen(0, 79)
	delete(script, "fail.nvmlEventSetWait_v2")
	script.Write(t, shared.script)
	await(t, c, func(s gpu.Snapshot) bool {
		watched, _ := s.GPUs[0].EventsWatched.Get()
		return watched && len(s.GPUs[0].Events) == 1
	})
}

// Fields come in several types; one that is no whole number is not believed.
func TestTypesOfFields(t *testing.T) {
	field := func(kind nvidia.ValueType, bits uint64, r nvidia.Return) func(*nvidia.FieldValue) {
		return func(f *nvidia.FieldValue) {
			f.ValueType, f.NvmlReturn = uint32(kind), uint32(r)
			binary.NativeEndian.PutUint64(f.Value[:], bits)
		}
	}
	for name, c := range map[string]struct {
		set  func(*nvidia.FieldValue)
		want string
	}{
		"unsigned int":       {field(nvidia.VALUE_TYPE_UNSIGNED_INT, 0xFFFFFFFF, nvidia.SUCCESS), "4294967295"},
		"signed int":         {field(nvidia.VALUE_TYPE_SIGNED_INT, 7, nvidia.SUCCESS), "7"},
		"negative int":       {field(nvidia.VALUE_TYPE_SIGNED_INT, 0xFFFFFFFF, nvidia.SUCCESS), "[implausible]"},
		"unsigned long":      {field(nvidia.VALUE_TYPE_UNSIGNED_LONG, 8, nvidia.SUCCESS), "8"},
		"unsigned long long": {field(nvidia.VALUE_TYPE_UNSIGNED_LONG_LONG, 1<<63, nvidia.SUCCESS), "9223372036854775808"},
		"signed long long":   {field(nvidia.VALUE_TYPE_SIGNED_LONG_LONG, 9, nvidia.SUCCESS), "9"},
		"negative long long": {field(nvidia.VALUE_TYPE_SIGNED_LONG_LONG, 1<<63, nvidia.SUCCESS), "[implausible]"},
		"double":             {field(nvidia.VALUE_TYPE_DOUBLE, 1, nvidia.SUCCESS), "[implausible]"},
		"a type that is new": {field(99, 1, nvidia.SUCCESS), "[implausible]"},
		"not supported":      {field(nvidia.VALUE_TYPE_DOUBLE, 1, nvidia.ERROR_NOT_SUPPORTED), "[not_supported]"},
		"lost":               {field(nvidia.VALUE_TYPE_DOUBLE, 1, nvidia.ERROR_GPU_IS_LOST), "[lost]"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDGX(1, "nvmlDeviceGetFieldValues")
			d.gpus[0].GetFieldValuesFunc = func(values []nvidia.FieldValue) nvidia.Return {
				for i := range values {
					c.set(&values[i])
				}
				return nvidia.SUCCESS
			}
			d.run(t, "", func(t *testing.T, collector *Collector) {
				if got := collector.Snapshot().GPUs[0].Clocks.Violation.HWThermalNS.String(); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}

// The links of a GPU are those it answers for; when that fails at first, they
// are counted again.
func TestCountsOfLinks(t *testing.T) {
	upTo := func(n int, r nvidia.Return) func(int) (nvidia.EnableState, nvidia.Return) {
		return func(link int) (nvidia.EnableState, nvidia.Return) {
			if link < n {
				return nvidia.FEATURE_ENABLED, nvidia.SUCCESS
			}
			return 0, r
		}
	}
	for name, c := range map[string]struct {
		state func(int) (nvidia.EnableState, nvidia.Return)
		links int
		want  judge.Verdict
	}{
		"none":             {upTo(0, nvidia.ERROR_NOT_SUPPORTED), 0, judge.Healthy},
		"twelve":           {upTo(12, nvidia.ERROR_INVALID_ARGUMENT), 12, judge.Healthy},
		"all there can be": {upTo(99, 0), nvidia.NVLINK_MAX_LINKS, judge.Healthy},
		"not known":        {upTo(3, nvidia.ERROR_UNKNOWN), 4, judge.Uncertain}, // the last is the one that did not answer
	} {
		t.Run(name, func(t *testing.T) {
			d := newDGX(1, "nvmlDeviceGetNvLinkState")
			var well atomic.Bool
			d.gpus[0].GetNvLinkStateFunc = func(link int) (nvidia.EnableState, nvidia.Return) {
				if well.Load() {
					return upTo(12, nvidia.ERROR_NOT_SUPPORTED)(link)
				}
				return c.state(link)
			}
			d.run(t, "", func(t *testing.T, collector *Collector) {
				g := collector.Snapshot().GPUs[0]
				if got := verdicts(t, collector); len(g.NVLinks) != c.links || got[0] != c.want || (len(g.Errors) > 0) != (name == "not known") {
					t.Errorf("%d links, errors %+v, %v; want %d links, %s", len(g.NVLinks), g.Errors, got, c.links, c.want)
				}
				well.Store(true)
				time.Sleep(slowEvery + time.Second)
				if name == "not known" && len(collector.Snapshot().GPUs[0].NVLinks) != 12 {
					t.Error("the links were not counted again")
				}
			})
		})
	}
}

// A driver that cannot count its GPUs, or counts more than can be, and a GPU
// that does not say who it is, leave the node unknown.
func TestGPUsThatCannotBeTold(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*dgx)
		words  string
	}{
		"no count": {func(d *dgx) {
			d.server.DeviceGetCountFunc = func() (int, nvidia.Return) { return 0, nvidia.ERROR_UNKNOWN }
		}, "nvmlDeviceGetCount: "},
		"too many":    {func(d *dgx) { d.server.DeviceGetCountFunc = func() (int, nvidia.Return) { return 999, nvidia.SUCCESS } }, "counts 999 GPUs"},
		"no identity": {func(d *dgx) { d.gpus[1].UUID = "" }, "an empty UUID"},
		"no handle": {func(d *dgx) {
			d.server.DeviceGetHandleByIndexFunc = func(int) (nvidia.Device, nvidia.Return) { return nil, nvidia.ERROR_NO_PERMISSION }
		}, "nvmlDeviceGetHandleByIndex: "},
		"another driver": {func(d *dgx) { d.server.InitFunc = func() nvidia.Return { return nvidia.ERROR_LIB_RM_VERSION_MISMATCH } }, "restart this pod"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDGX(2)
			c.change(d)
			d.run(t, "", func(t *testing.T, collector *Collector) {
				s := collector.Snapshot()
				verdicts(t, collector) // it can be passed on
				if n := judge.Nodes(time.Now(), s)[0]; n.Verdict != judge.Uncertain || len(s.Errors) == 0 || !strings.Contains(s.Errors[0].Detail, c.words) {
					t.Errorf("%s, errors %+v, want %q", n.Verdict, s.Errors, c.words)
				}
			})
		})
	}
}

// A GPU that the driver wants reset before it can be used is failing, from the
// start or from then on.
func TestGPUThatNeedsAReset(t *testing.T) {
	for name, change := range map[string]func(*dgx){
		"from the start": func(d *dgx) {
			d.gpus[1].GetUUIDFunc = func() (string, nvidia.Return) { return "", nvidia.ERROR_RESET_REQUIRED }
		},
		"one reading": func(d *dgx) {
			d.gpus[1].GetTemperatureFunc = func(nvidia.TemperatureSensors) (uint32, nvidia.Return) { return 0, nvidia.ERROR_RESET_REQUIRED }
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDGX(2)
			change(d)
			d.run(t, "", func(t *testing.T, c *Collector) {
				n := judge.Nodes(time.Now(), c.Snapshot())[0]
				if n.Verdict != judge.Failing || n.GPUs[0].Verdict != judge.Healthy {
					t.Errorf("%+v", n)
				}
				if len(n.GPUs) == 2 && (n.GPUs[1].Verdict != judge.Failing || !n.GPUs[1].Reset) {
					t.Errorf("%+v", n.GPUs[1])
				}
			})
		})
	}
}

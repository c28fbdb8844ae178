//go:build cgo

package nvml

import (
	"bytes"
	"slices"
	"strings"
	"time"

	nvidia "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/inference-responder/responder/internal/gpu"
)

// device is one GPU of the library.
type device struct {
	*library
	index int
	dev   nvidia.Device

	links  int                    // how many NVLinks it has; -1: not asked yet
	pace   pace                   // what is being read
	errors [paces][]gpu.ReadError // what failed when it was read last
	closed bool                   // the driver has to be opened again
}

// pace is one part of the readings and how often it is read.
type pace int

const (
	fast pace = iota
	slow
	fixed
	paces
)

// begin starts reading one part.
func (d *device) begin(p pace) { d.pace, d.errors[p] = p, nil }

// get makes one call and converts its result to a reading.
func get[V, T any](d *device, before func(string), function string, call func() (V, nvidia.Return), as func(V) T) gpu.Reading[T] {
	if !d.has(function) {
		return gpu.Unknown[T](gpu.OldDriver)
	}
	before(function)
	v, r := call()
	if r != nvidia.SUCCESS {
		return gpu.Unknown[T](d.note(function, r))
	}
	return gpu.Known(as(v))
}

// note records a failed call if the absence of its value does not explain it.
func (d *device) note(function string, r nvidia.Return) gpu.Absence {
	why := absence(r)
	if why == gpu.Failed || why == gpu.Denied {
		one := gpu.ReadError{What: function, Why: why, Detail: words(r)}
		if !slices.Contains(d.errors[d.pace], one) {
			d.errors[d.pace] = append(d.errors[d.pace], one)
		}
	}
	d.closed = d.closed || closed(r)
	return why
}

// done ends reading one part.
func (d *device) done(g *gpu.GPU) error {
	g.Errors = slices.Concat(d.errors[:]...)
	g.Errors = g.Errors[:min(len(g.Errors), gpu.MaxErrors)]
	if d.closed {
		return errClosed
	}
	return nil
}

func (d *device) identify(g *gpu.GPU, before func(string)) error {
	before("nvmlDeviceGetHandleByIndex")
	dev, r := d.lib.DeviceGetHandleByIndex(d.index)
	if r != nvidia.SUCCESS {
		return failed("nvmlDeviceGetHandleByIndex", r)
	}
	d.dev = dev
	before("nvmlDeviceGetUUID")
	uuid, r := dev.GetUUID()
	if r != nvidia.SUCCESS {
		return failed("nvmlDeviceGetUUID", r)
	}
	text := func(call string, get func() (string, nvidia.Return)) string {
		before(call)
		v, r := get()
		if r != nvidia.SUCCESS {
			return "" // not every GPU has a serial number
		}
		return printable(v)
	}
	g.Name = text("nvmlDeviceGetName", dev.GetName)
	g.Serial = text("nvmlDeviceGetSerial", dev.GetSerial)
	g.PCI = text("nvmlDeviceGetPciInfo", func() (string, nvidia.Return) {
		pci, r := dev.GetPciInfo()
		return upToZero(pci.BusId[:]), r
	})
	if uuid == "" {
		return &callError{call: "nvmlDeviceGetUUID", why: gpu.Implausible, text: "an empty UUID"}
	}
	g.UUID = printable(uuid) // last: with it the GPU counts as identified
	return nil
}

func upToZero(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func (d *device) processes(before func(string)) ([]process, gpu.Absence) {
	if !d.has("nvmlDeviceGetComputeRunningProcesses_v3") && !d.has("nvmlDeviceGetComputeRunningProcesses_v2") {
		return nil, gpu.OldDriver
	}
	before("nvmlDeviceGetComputeRunningProcesses")
	list, r := d.dev.GetComputeRunningProcesses()
	if r != nvidia.SUCCESS {
		return nil, d.note("nvmlDeviceGetComputeRunningProcesses", r)
	}
	out := make([]process, 0, len(list))
	for _, p := range list {
		used := p.UsedGpuMemory
		if used == ^uint64(0) { // NVML_VALUE_NOT_AVAILABLE
			used = 0
		}
		out = append(out, process{pid: int64(p.Pid), usedBytes: used, gi: instance(p.GpuInstanceId), ci: instance(p.ComputeInstanceId)})
	}
	return out, ""
}

func instance(id uint32) int {
	if id == 0xFFFFFFFF {
		return -1
	}
	return int(id)
}

// eventTypes are the events that matter for a GPU's health.
const eventTypes = nvidia.EventTypeXidCriticalError | nvidia.EventTypeDoubleBitEccError | nvidia.EventTypeSingleBitEccErrorStorm |
	nvidia.EventTypeDramRetirementEvent | nvidia.EventTypeDramRetirementFailure | nvidia.EventTypeNonFatalPoisonError |
	nvidia.EventTypeFatalPoisonError | nvidia.EventTypeGpuUnavailableError | nvidia.EventTypeGpuRecoveryAction

// watch watches one GPU with an event set of its own. In a shared set, one lost
// GPU stops the events of all others.
func (d *device) watch(before func(string)) (events, error) {
	if d.dev == nil {
		return nil, errStarting
	}
	before("nvmlDeviceGetSupportedEventTypes")
	supported, r := d.dev.GetSupportedEventTypes()
	if r != nvidia.SUCCESS {
		return nil, failed("nvmlDeviceGetSupportedEventTypes", r)
	}
	if supported&nvidia.EventTypeXidCriticalError == 0 {
		return nil, &callError{call: "nvmlDeviceGetSupportedEventTypes", why: gpu.NotSupported, text: "no XID events"}
	}
	before("nvmlEventSetCreate")
	set, r := d.lib.EventSetCreate()
	if r != nvidia.SUCCESS {
		return nil, failed("nvmlEventSetCreate", r)
	}
	before("nvmlDeviceRegisterEvents")
	if r := d.dev.RegisterEvents(supported&eventTypes, set); r != nvidia.SUCCESS {
		_ = set.Free() // the error is why it is given up
		return nil, failed("nvmlDeviceRegisterEvents", r)
	}
	return &eventSet{set}, nil
}

type eventSet struct{ set nvidia.EventSet }

func (s *eventSet) wait(limit time.Duration) (event, bool, error) {
	e, r := s.set.Wait(uint32(limit.Milliseconds()))
	switch r {
	case nvidia.SUCCESS:
		return event{gpu.EventType(e.EventType), e.EventData}, true, nil
	case nvidia.ERROR_TIMEOUT:
		return event{}, false, nil
	default:
		return event{}, false, failed("nvmlEventSetWait", r)
	}
}

func (s *eventSet) close() {
	_ = s.set.Free() // nobody can do anything about it
}

// mig reads how the GPU is divided.
func (d *device) mig(before func(string)) gpu.MIG {
	m := gpu.MIG{Enabled: get(d, before, "nvmlDeviceGetMigMode", func() (int, nvidia.Return) {
		current, _, r := d.dev.GetMigMode()
		return current, r
	}, func(mode int) bool { return mode == nvidia.DEVICE_MIG_ENABLE })}
	if m.Enabled.Why() == gpu.NotSupported || m.Enabled.Why() == gpu.OldDriver {
		m.Enabled = gpu.Known(false) // a GPU that cannot be divided is not
	}
	if on, _ := m.Enabled.Get(); !on {
		return m
	}
	before("nvmlDeviceGetMaxMigDeviceCount")
	most, r := d.dev.GetMaxMigDeviceCount()
	if r != nvidia.SUCCESS {
		m.Enabled = gpu.Unknown[bool](d.note("nvmlDeviceGetMaxMigDeviceCount", r))
		return m
	}
	for i := range min(most, gpu.MaxMIG) {
		before("nvmlDeviceGetMigDeviceHandleByIndex")
		part, r := d.dev.GetMigDeviceHandleByIndex(i)
		if r == nvidia.ERROR_NOT_FOUND {
			continue // fewer instances than there could be
		}
		if r != nvidia.SUCCESS {
			d.note("nvmlDeviceGetMigDeviceHandleByIndex", r)
			continue
		}
		if one, ok := d.part(part, before); ok {
			m.Instances = append(m.Instances, one)
		}
	}
	return m
}

func (d *device) part(part nvidia.Device, before func(string)) (gpu.MIGInstance, bool) {
	before("nvmlDeviceGetUUID")
	uuid, r := part.GetUUID()
	if r != nvidia.SUCCESS {
		d.note("nvmlDeviceGetUUID", r)
		return gpu.MIGInstance{}, false
	}
	before("nvmlDeviceGetGpuInstanceId")
	gi, r1 := part.GetGpuInstanceId()
	ci, r2 := part.GetComputeInstanceId()
	if r1 != nvidia.SUCCESS || r2 != nvidia.SUCCESS {
		gi, ci = -1, -1
	}
	one := gpu.MIGInstance{UUID: printable(uuid), GI: gi, CI: ci}
	if name, r := part.GetName(); r == nvidia.SUCCESS {
		// e.g. NVIDIA H100 80GB HBM3 MIG 1g.10gb
		if _, profile, ok := strings.Cut(printable(name), " MIG "); ok {
			one.Profile = profile
		}
	}
	return one, true
}

package gpu

import (
	"slices"
	"time"
)

// Format names the form of a snapshot that this package reads and writes.
const Format = "responder.gpu/v1"

// SourceExporter is the Source of snapshots from dcgm-exporter. Times in them may
// lie before watching began, so an agent must not use it.
const SourceExporter = "dcgm"

// Snapshot is what was known about the GPUs of a node at one moment.
type Snapshot struct {
	Format   string    `json:"format"`            // always [Format]
	Node     string    `json:"node"`              // as Kubernetes names it
	BootID   string    `json:"boot_id,omitempty"` // /proc/sys/kernel/random/boot_id; counters may begin anew when it changes
	Source   string    `json:"source"`            // nvml, dcgm, sandbox
	Agent    string    `json:"agent,omitempty"`   // version of the agent
	Driver   string    `json:"driver,omitempty"`  // version of the driver, e.g. 550.54.15
	NVML     string    `json:"nvml,omitempty"`    // version of the driver library
	TakenAt  time.Time `json:"taken_at"`          // by the node's clock, when this document was made
	Since    time.Time `json:"since,omitzero"`    // when watching began; of events see [GPU.EventsSince]
	PeriodMS int64     `json:"period_ms"`         // milliseconds between two samples
	// Expected is how many GPUs the node has when all are well: what its PCI bus
	// holds, or what was there when watching began.
	Expected Reading[int64] `json:"expected,omitzero"`

	GPUs   []GPU       `json:"gpus"`             // by index
	Errors []ReadError `json:"errors,omitempty"` // what could not be read of the node as a whole
}

// Period is the time between two samples.
func (s Snapshot) Period() time.Duration { return time.Duration(s.PeriodMS) * time.Millisecond }

// MaxAge returns how old the snapshot may be for a verdict: half a minute, or three samples where
// samples are further apart.
func (s Snapshot) MaxAge() time.Duration { return max(30*time.Second, 3*s.Period()) }

// Shorter is the snapshot with the last minutes of history only.
func (s Snapshot) Shorter(minutes int) Snapshot {
	s.GPUs = slices.Clone(s.GPUs)
	for i, g := range s.GPUs {
		s.GPUs[i].Minutes = g.Minutes[max(0, len(g.Minutes)-minutes):]
	}
	return s
}

// WhatPods is what a ReadError names when it is not known which pods hold the
// GPUs. That says nothing about their health.
const WhatPods = "pods"

// ReadError is something that could not be read.
type ReadError struct {
	What   string  `json:"what"`             // driver, events, fabric, power.draw_mw, ...
	Why    Absence `json:"why"`              //
	Detail string  `json:"detail,omitempty"` // the driver's own words
}

// GPU is one physical GPU.
type GPU struct {
	UUID   string `json:"uuid"`  // GPU-…
	Index  int    `json:"index"` // as NVML counts, from 0; not stable over boots
	PCI    string `json:"pci,omitempty"`
	Name   string `json:"name,omitempty"` // product name
	Serial string `json:"serial,omitempty"`

	// TakenAt is when the readings below were taken. It stays behind the
	// snapshot's while a call of the driver hangs.
	TakenAt time.Time `json:"taken_at"`

	Clocks      Clocks                  `json:"clocks,omitzero"`
	Temperature Temperature             `json:"temperature,omitzero"`
	Power       Power                   `json:"power,omitzero"`
	Use         Use                     `json:"use,omitzero"`
	ECC         ECC                     `json:"ecc,omitzero"`
	Rows        Rows                    `json:"rows,omitzero"`
	Pages       Pages                   `json:"pages,omitzero"`
	PCIe        PCIe                    `json:"pcie,omitzero"`
	NVLinks     []NVLink                `json:"nvlinks,omitempty"`
	Fabric      Fabric                  `json:"fabric,omitzero"`
	Recovery    Reading[RecoveryAction] `json:"recovery_action,omitzero"` // what the driver asks for
	MIG         MIG                     `json:"mig,omitzero"`

	// Pods that hold the GPU or a MIG instance of it. Unknown: any pod of the
	// node may.
	Pods Reading[[]Pod] `json:"pods,omitzero"`

	// EventsWatched reports whether events of this GPU are seen now. False or
	// unknown: no event says nothing.
	EventsWatched Reading[bool] `json:"events_watched,omitzero"`
	// EventsSince is from when on every event of it is among Events: before that
	// it was not watched, or there were more than are kept. Zero: not known.
	EventsSince time.Time `json:"events_since,omitzero"`
	Events      []Event   `json:"events,omitempty"` // oldest first; of too many see [Fewer]

	Baseline  Baseline    `json:"baseline,omitzero"`   // counters when watching began
	Stretches []Stretch   `json:"stretches,omitempty"` // since when what is the case has been so, whatever the history's length
	Minutes   []Minute    `json:"minutes,omitempty"`   // the last minutes, oldest first
	Errors    []ReadError `json:"errors,omitempty"`    // what could not be read, where a reading's reason alone does not say it
}

// Clocks are clocks, their limits and why they are not higher.
type Clocks struct {
	Reasons   Reading[Reasons] `json:"reasons,omitzero"`   // active now
	Supported Reading[Reasons] `json:"supported,omitzero"` // that this GPU can show at all
	SMMHz     Reading[int64]   `json:"sm_mhz,omitzero"`
	SMMaxMHz  Reading[int64]   `json:"sm_max_mhz,omitzero"`
	MemMHz    Reading[int64]   `json:"mem_mhz,omitzero"`
	MemMaxMHz Reading[int64]   `json:"mem_max_mhz,omitzero"`
	Violation Violations       `json:"violation,omitzero"` // since the driver was loaded
	PState    Reading[int64]   `json:"pstate,omitzero"`    // 0 (fastest) to 15
}

// Violations is time lost to a reason, in nanoseconds, by the driver's own count.
type Violations struct {
	SWPowerCapNS   Reading[uint64] `json:"sw_power_cap_ns,omitzero"`
	SyncBoostNS    Reading[uint64] `json:"sync_boost_ns,omitzero"`
	SWThermalNS    Reading[uint64] `json:"sw_thermal_ns,omitzero"`
	HWThermalNS    Reading[uint64] `json:"hw_thermal_ns,omitzero"`
	HWPowerBrakeNS Reading[uint64] `json:"hw_power_brake_ns,omitzero"`
	ThermalNS      Reading[uint64] `json:"thermal_ns,omitzero"` // to heat of either kind: all that older drivers tell
}

// Lost returns the time lost to one harmful reason, or to [EitherThermal] where
// the driver does not tell the two kinds of heat apart.
func (v Violations) Lost(reason Reasons) Reading[uint64] {
	switch reason {
	case HWThermalSlowdown:
		return v.HWThermalNS
	case SWThermalSlowdown:
		return v.SWThermalNS
	case HWPowerBrakeSlowdown:
		return v.HWPowerBrakeNS
	case EitherThermal:
		_, sw := v.SWThermalNS.Get()
		_, hw := v.HWThermalNS.Get()
		if !sw && !hw {
			return v.ThermalNS
		}
	}
	return Unknown[uint64](NotSupported)
}

// Temperature holds temperatures and thresholds in °C.
type Temperature struct {
	GPUC      Reading[int64] `json:"gpu_c,omitzero"`
	MemoryC   Reading[int64] `json:"memory_c,omitzero"`
	SlowdownC Reading[int64] `json:"slowdown_c,omitzero"` // the hardware slows down
	ShutdownC Reading[int64] `json:"shutdown_c,omitzero"` // the hardware switches off
	GPUMaxC   Reading[int64] `json:"gpu_max_c,omitzero"`  // the driver slows down
	MemMaxC   Reading[int64] `json:"mem_max_c,omitzero"`  // the driver slows down
	MarginC   Reading[int64] `json:"margin_c,omitzero"`   // to the nearest slowdown; negative: past it

	// The same thresholds as newer GPUs tell them (T.Limit, Ada and later): what
	// MarginC is there, so most are zero or less.
	SlowdownMarginC Reading[int64] `json:"slowdown_margin_c,omitzero"`
	ShutdownMarginC Reading[int64] `json:"shutdown_margin_c,omitzero"`
	GPUMaxMarginC   Reading[int64] `json:"gpu_max_margin_c,omitzero"`
	MemMaxMarginC   Reading[int64] `json:"mem_max_margin_c,omitzero"` // of the memory's own margin, which NVML does not tell
}

// SlowdownLimit returns the lowest temperature at which the GPU slows down, and
// whether any is known.
func (t Temperature) SlowdownLimit() (limit int64, known bool) {
	for _, l := range []Reading[int64]{t.GPUMaxC, t.SlowdownC} {
		if v, ok := l.Get(); ok && (!known || v < limit) {
			limit, known = v, true
		}
	}
	return limit, known
}

// LeastMargin returns the margin in °C at which a GPU slows down: none (nvml.h), or
// sooner where its thresholds say so.
func (t Temperature) LeastMargin() int64 {
	slow, _ := t.SlowdownMarginC.Get()
	most, _ := t.GPUMaxMarginC.Get()
	return max(0, slow, most)
}

// Power holds power in milliwatts.
type Power struct {
	DrawMW         Reading[int64] `json:"draw_mw,omitzero"`
	LimitMW        Reading[int64] `json:"limit_mw,omitzero"`         // enforced now
	DefaultLimitMW Reading[int64] `json:"default_limit_mw,omitzero"` // as delivered
}

// Use is how busy the GPU is.
type Use struct {
	GPUPercent          Reading[int64]  `json:"gpu_percent,omitzero"`    // of the last sample period in which a kernel ran
	MemoryPercent       Reading[int64]  `json:"memory_percent,omitzero"` // in which memory was read or written
	MemoryUsedBytes     Reading[uint64] `json:"memory_used_bytes,omitzero"`
	MemoryReservedBytes Reading[uint64] `json:"memory_reserved_bytes,omitzero"` // by the driver; not part of used
	MemoryTotalBytes    Reading[uint64] `json:"memory_total_bytes,omitzero"`
}

// ECC holds error counters. Volatile ones begin at the driver's loading,
// aggregate ones count the GPU's life.
type ECC struct {
	Enabled Reading[bool] `json:"enabled,omitzero"`
	Pending Reading[bool] `json:"pending,omitzero"` // what Enabled becomes at the next reset

	VolatileCorrected      Reading[uint64] `json:"volatile_corrected,omitzero"`
	VolatileUncorrectable  Reading[uint64] `json:"volatile_uncorrectable,omitzero"`
	AggregateCorrected     Reading[uint64] `json:"aggregate_corrected,omitzero"`
	AggregateUncorrectable Reading[uint64] `json:"aggregate_uncorrectable,omitzero"`

	// By memory, where the GPU tells its SRAM (caches, registers) and its DRAM apart.
	SRAMVolatileUncorrectable  Reading[uint64] `json:"sram_volatile_uncorrectable,omitzero"`
	SRAMAggregateUncorrectable Reading[uint64] `json:"sram_aggregate_uncorrectable,omitzero"`
	SRAMThresholdExceeded      Reading[bool]   `json:"sram_threshold_exceeded,omitzero"`
	DRAMVolatileUncorrectable  Reading[uint64] `json:"dram_volatile_uncorrectable,omitzero"`
	DRAMAggregateUncorrectable Reading[uint64] `json:"dram_aggregate_uncorrectable,omitzero"`
}

// Rows is row remapping (Ampere and later).
type Rows struct {
	Corrected     Reading[uint64] `json:"corrected,omitzero"`     // rows remapped after corrected errors
	Uncorrectable Reading[uint64] `json:"uncorrectable,omitzero"` // rows remapped after uncorrectable errors
	Pending       Reading[bool]   `json:"pending,omitzero"`       // a reset is needed
	Failed        Reading[bool]   `json:"failed,omitzero"`        // no spare row: RMA

	// Banks by how many spare rows they have left.
	BanksMax     Reading[uint64] `json:"banks_max,omitzero"`
	BanksHigh    Reading[uint64] `json:"banks_high,omitzero"`
	BanksPartial Reading[uint64] `json:"banks_partial,omitzero"`
	BanksLow     Reading[uint64] `json:"banks_low,omitzero"`
	BanksNone    Reading[uint64] `json:"banks_none,omitzero"`

	ChannelRepairPending Reading[bool] `json:"channel_repair_pending,omitzero"`
	TPCRepairPending     Reading[bool] `json:"tpc_repair_pending,omitzero"`
}

// Pages is page retirement (before Ampere).
type Pages struct {
	SingleBit Reading[uint64] `json:"single_bit,omitzero"` // retired after repeated single bit errors
	DoubleBit Reading[uint64] `json:"double_bit,omitzero"` // retired after a double bit error
	Pending   Reading[bool]   `json:"pending,omitzero"`    // a reset is needed
}

// PCIe is the link to the host.
type PCIe struct {
	Generation    Reading[int64]  `json:"generation,omitzero"`     // lowered while idle, to save power
	GenerationMax Reading[int64]  `json:"generation_max,omitzero"` // of GPU and slot together
	Width         Reading[int64]  `json:"width,omitzero"`          // lanes
	WidthMax      Reading[int64]  `json:"width_max,omitzero"`
	Replays       Reading[uint64] `json:"replays,omitzero"` // since the driver was loaded
}

// NVLink is one link to another GPU or a switch.
type NVLink struct {
	Link     int             `json:"link"`
	Active   Reading[bool]   `json:"active,omitzero"`
	Replay   Reading[uint64] `json:"replay,omitzero"`
	Recovery Reading[uint64] `json:"recovery,omitzero"` // since NVLink 5: however it ended
	CRCFlit  Reading[uint64] `json:"crc_flit,omitzero"`
	CRCData  Reading[uint64] `json:"crc_data,omitzero"`

	// Since NVLink 5 (Blackwell), in place of replays and CRC errors.
	RecoveryFailed  Reading[uint64] `json:"recovery_failed,omitzero"`  // the link was declared down
	IntegrityErrors Reading[uint64] `json:"integrity_errors,omitzero"` // how often local errors were past the link's own threshold
	ReceiveErrors   Reading[uint64] `json:"receive_errors,omitzero"`   // packets that came with errors
	EffectiveErrors Reading[uint64] `json:"effective_errors,omitzero"` // within packets
	SymbolErrors    Reading[uint64] `json:"symbol_errors,omitzero"`    // before correction
}

// Fabric is registration with the NVLink fabric (NVSwitch machines).
type Fabric struct {
	State  Reading[FabricState] `json:"state,omitzero"`
	Status Reading[int64]       `json:"status,omitzero"` // an NVML return code; 0: well, once completed
	Health Reading[int64]       `json:"health,omitzero"` // NVML's health mask: two bits for each of its findings
}

// FabricState is how far registration with the fabric has come.
type FabricState int64

// The states of nvml.h.
const (
	FabricNotSupported FabricState = 0
	FabricNotStarted   FabricState = 1
	FabricInProgress   FabricState = 2
	FabricCompleted    FabricState = 3
)

// RecoveryAction is what the driver says is needed to get a GPU back
// (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION).
type RecoveryAction int64

// The actions of nvml.h 13.0.
const (
	RecoveryNone          RecoveryAction = 0
	RecoveryReset         RecoveryAction = 1
	RecoveryReboot        RecoveryAction = 2
	RecoveryDrainP2P      RecoveryAction = 3
	RecoveryDrainAndReset RecoveryAction = 4
)

// MIG is how the GPU is divided.
type MIG struct {
	Enabled   Reading[bool] `json:"enabled,omitzero"`
	Instances []MIGInstance `json:"instances,omitempty"`
}

// MIGInstance is one part of a divided GPU. Health is the physical GPU's.
type MIGInstance struct {
	UUID    string `json:"uuid"`              // MIG-…
	Profile string `json:"profile,omitempty"` // 1g.10gb
	GI      int    `json:"gi"`                // GPU instance
	CI      int    `json:"ci"`                // compute instance
}

// Pod is a pod that holds a GPU or an instance of it.
type Pod struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"` // empty: only the UID is known
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	Instance  string `json:"instance,omitempty"` // UUID of the MIG instance; empty: the whole GPU
	PID       int64  `json:"pid,omitempty"`      // 0: it holds the device, and no process of it is seen
	UsedBytes uint64 `json:"used_bytes,omitempty"`
}

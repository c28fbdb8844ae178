package gpu

import (
	"slices"
	"time"
)

// Minute sums up the samples of one minute. The last one of a snapshot may
// still be running.
type Minute struct {
	Start   time.Time `json:"start"`
	Samples int       `json:"samples"`          // in which the clocks event reasons were read
	Missed  int       `json:"missed,omitempty"` // that were due and not taken, or in which the reasons could not be read

	Reasons   map[Reasons]int `json:"reasons,omitempty"`  // single bit -> samples that showed it
	Violation Violations      `json:"violation,omitzero"` // within this minute

	GPUMaxC    Reading[int64] `json:"gpu_max_c,omitzero"`    // highest temperature
	MemMaxC    Reading[int64] `json:"mem_max_c,omitzero"`    // highest temperature of the memory
	MarginMinC Reading[int64] `json:"margin_min_c,omitzero"` // least that was left to the nearest slowdown
	SMMinMHz   Reading[int64] `json:"sm_min_mhz,omitzero"`   // lowest SM clock
	SMMeanMHz  Reading[int64] `json:"sm_mean_mhz,omitzero"`  //
	PowerMW    Reading[int64] `json:"power_mw,omitzero"`     // mean
	GPUPercent Reading[int64] `json:"gpu_percent,omitzero"`  // mean utilisation

	Counters Counters `json:"counters,omitzero"` // at the end of the minute
}

// Counters holds the counters whose growth matters more than their value. Each one
// only grows until the driver is reloaded (except aggregate ones) or the GPU is
// replaced.
type Counters struct {
	VolatileCorrected      Reading[uint64] `json:"volatile_corrected,omitzero"`
	VolatileUncorrectable  Reading[uint64] `json:"volatile_uncorrectable,omitzero"`
	AggregateUncorrectable Reading[uint64] `json:"aggregate_uncorrectable,omitzero"`
	RowsUncorrectable      Reading[uint64] `json:"rows_uncorrectable,omitzero"`
	PCIeReplays            Reading[uint64] `json:"pcie_replays,omitzero"`
	NVLinkCRC              Reading[uint64] `json:"nvlink_crc,omitzero"`     // errors of all links that were corrected
	NVLinkReplays          Reading[uint64] `json:"nvlink_replays,omitzero"` // replays, recoveries and integrity errors of all links
}

// Counters returns the current counters.
func (g GPU) Counters() Counters {
	return Counters{
		VolatileCorrected:      g.ECC.VolatileCorrected,
		VolatileUncorrectable:  g.ECC.VolatileUncorrectable,
		AggregateUncorrectable: g.ECC.AggregateUncorrectable,
		RowsUncorrectable:      g.Rows.Uncorrectable,
		PCIeReplays:            g.PCIe.Replays,
		NVLinkCRC:              g.LinkErrors(func(l NVLink) []Reading[uint64] { return []Reading[uint64]{l.CRCFlit, l.CRCData} }),
		NVLinkReplays:          g.LinkErrors(func(l NVLink) []Reading[uint64] { return []Reading[uint64]{l.Replay, l.Recovery, l.IntegrityErrors} }),
	}
}

// LinkErrors sums error counters over all links that have them. The sum is unknown
// if any of these could not be read.
func (g GPU) LinkErrors(counters func(NVLink) []Reading[uint64]) Reading[uint64] {
	sum, seen := uint64(0), false
	for _, l := range g.NVLinks {
		for _, c := range counters(l) {
			v, ok := c.Get()
			switch {
			case ok:
				sum, seen = sum+v, true
			case c.Why() != NotSupported && c.Why() != NotRead && c.Why() != OldDriver:
				return Unknown[uint64](c.Why())
			}
		}
	}
	if !seen {
		return Unknown[uint64](NotSupported)
	}
	return Known(sum)
}

// Baseline is the counters at the beginning of watching.
type Baseline struct {
	At       time.Time `json:"at,omitzero"`
	Counters Counters  `json:"counters,omitzero"`
	// ErredAt is when the first uncorrectable memory error since At was counted,
	// whatever the length of the history; zero: none, or not known.
	ErredAt time.Time `json:"erred_at,omitzero"`
}

// Erred reports whether the counters show an uncorrectable memory error since the
// baseline.
func (b Baseline) Erred(now Counters) bool {
	return Grew(b.Counters.VolatileUncorrectable, now.VolatileUncorrectable) || Grew(b.Counters.AggregateUncorrectable, now.AggregateUncorrectable)
}

// Grew reports whether a counter is known to have grown.
func Grew(from, to Reading[uint64]) bool {
	a, ok1 := from.Get()
	b, ok2 := to.Get()
	return ok1 && ok2 && b > a
}

// EventType is the kind of an event, a single bit of nvml.h's nvmlEventType.
type EventType uint64

// Events that a verdict knows.
const (
	EventDoubleBitECC          EventType = 0x2
	EventXID                   EventType = 0x8 // Data is the XID
	EventSingleBitStorm        EventType = 0x200
	EventDRAMRetirement        EventType = 0x400
	EventDRAMRetirementFailure EventType = 0x800
	EventNonFatalPoison        EventType = 0x1000
	EventFatalPoison           EventType = 0x2000
	EventUnavailable           EventType = 0x4000
	EventRecoveryAction        EventType = 0x8000 // it is another now; see [GPU.Recovery]
)

// Event is an event of the driver.
type Event struct {
	At   time.Time `json:"at"` // by the node's clock, when it was seen
	Type EventType `json:"type"`
	Data uint64    `json:"data,omitempty"` // of an XID: its number

	// OrBefore means that it may have come before At, unobserved: an exporter keeps
	// exporting the last one.
	OrBefore bool `json:"or_before,omitempty"`
}

// XID returns the event's XID, if it is one.
func (e Event) XID() (uint64, bool) { return e.Data, e.Type == EventXID }

// DropEvents removes events in place until at most most are left. It removes the
// oldest event of the most frequent kind, and among equals one of a harmless kind,
// so that frequent events do not displace rare ones. Events stay sorted, oldest
// first. dropped is the time of the youngest removed event; zero: none.
func DropEvents(events []Event, most int) (kept []Event, dropped time.Time) {
	if len(events) <= most {
		return events, time.Time{}
	}
	type kind struct {
		of  EventType
		xid uint64
	}
	kinds := map[kind]int{}
	var rank []int // of each kind: twice how often it came, and one more where it is harmless
	of := make([]int, len(events))
	for i, e := range events {
		k := kind{of: e.Type}
		code, xid := e.XID()
		if xid {
			k.xid = code
		}
		if _, seen := kinds[k]; !seen {
			kinds[k], rank = len(rank), append(rank, 0)
			if xid && HarmlessXID(code) {
				rank[kinds[k]]++
			}
		}
		of[i] = kinds[k]
		rank[of[i]] += 2
	}
	for len(events) > most {
		spare := 0
		for i, k := range of {
			if rank[k] > rank[of[spare]] {
				spare = i
			}
		}
		if at := events[spare].At; at.After(dropped) {
			dropped = at
		}
		rank[of[spare]] -= 2
		events, of = slices.Delete(events, spare, spare+1), slices.Delete(of, spare, spare+1)
	}
	return events, dropped
}

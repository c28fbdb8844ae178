//go:build cgo

package nvml

import (
	"encoding/binary"
	"testing"
	"time"

	nvidia "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/gpu/nvml/nvmltest"
)

// TestNewerGPUs: Blackwell tells thresholds of temperature as margins, and counts
// recoveries of links in place of replays and CRC errors.
func TestNewerGPUs(t *testing.T) {
	script := nvmltest.Blackwell(2)
	script.Set(1, "margin", "-7")
	script.Set(1, "field.215.4", "3")
	script.Set(1, "field.214.4", "1")
	script.Set(1, "field.211.5", "2")
	script.Set(1, "field.208.6", "11")
	script.Set(1, "field.219.7", "12")
	script.Set(1, "field.221.8", "13000000000")
	s := await(t, collect(t, script), whole(2))
	well, ill := s.GPUs[0], s.GPUs[1]
	for _, c := range []struct {
		what string
		got  interface{ String() string }
		want string
	}{
		{"slowdown", well.Temperature.SlowdownMarginC, "-2"},
		{"shutdown", well.Temperature.ShutdownMarginC, "-8"},
		{"gpu_max", well.Temperature.GPUMaxMarginC, "0"},
		{"mem_max", well.Temperature.MemMaxMarginC, "0"},
		{"margin", ill.Temperature.MarginC, "-7"},
		{"thresholds", well.Temperature.SlowdownC, "[not_supported]"},
		{"replays", well.NVLinks[4].Replay, "[not_supported]"},
		{"recoveries", ill.NVLinks[4].Recovery, "3"},
		{"failed recoveries", ill.NVLinks[4].RecoveryFailed, "1"},
		{"of another link", ill.NVLinks[5].Recovery, "0"},
		{"integrity", ill.NVLinks[5].IntegrityErrors, "2"},
		{"receive", ill.NVLinks[6].ReceiveErrors, "11"},
		{"effective", ill.NVLinks[7].EffectiveErrors, "12"},
		{"symbol", ill.NVLinks[8].SymbolErrors, "13000000000"},
		{"all links", ill.Counters().NVLinkReplays, "5"},
		{"CRC", ill.Counters().NVLinkCRC, "[not_supported]"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%s is %s, want %s", c.what, got, c.want)
		}
	}
	j := judge.Nodes(time.Now(), s)[0]
	if got := j.GPUs[1]; got.Verdict != judge.Throttled || got.Throttle != judge.Thermal {
		t.Errorf("a degree before it switches itself off: %s: %+v", got.Verdict, got.Reasons)
	}
	for _, r := range j.GPUs[0].Reasons {
		if r.Rule != "history" && r.Verdict.WorseThan(judge.Busy) {
			t.Errorf("what it has not got is held against it: %+v", r)
		}
	}
}

// Older GPUs have none of it, and nothing is missed: neither is it sent.
func TestOlderGPUsLackNothing(t *testing.T) {
	g := await(t, collect(t, nvmltest.Healthy(1)), whole(1)).GPUs[0]
	if why := g.Temperature.SlowdownMarginC.Why(); why != gpu.NotSupported {
		t.Errorf("a margin: %s", why)
	}
	l := g.NVLinks[3]
	if l.Recovery.String() != "0" || l.RecoveryFailed.Why() != gpu.NotRead || l.SymbolErrors.Why() != gpu.NotRead {
		t.Errorf("link %+v", l)
	}
}

func TestSignedField(t *testing.T) {
	for _, c := range []struct {
		kind nvidia.ValueType
		raw  uint64
		want int64
		ok   bool
	}{
		{nvidia.VALUE_TYPE_SIGNED_INT, 0xFFFFFFF8, -8, true},
		{nvidia.VALUE_TYPE_UNSIGNED_INT, 0xFFFFFFF8, -8, true},
		{nvidia.VALUE_TYPE_UNSIGNED_INT, 12, 12, true},
		{nvidia.VALUE_TYPE_SIGNED_LONG_LONG, ^uint64(1), -2, true},
		{nvidia.VALUE_TYPE_UNSIGNED_LONG_LONG, ^uint64(1), -2, true},
		{nvidia.VALUE_TYPE_DOUBLE, 0, 0, false},
	} {
		f := nvidia.FieldValue{ValueType: uint32(c.kind)}
		binary.NativeEndian.PutUint64(f.Value[:], c.raw)
		if got, ok := signed(f); got != c.want || ok != c.ok {
			t.Errorf("%d of type %d is %d, %v, want %d, %v", c.raw, c.kind, got, ok, c.want, c.ok)
		}
	}
}

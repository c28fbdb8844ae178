package gpu

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 8, 22, 12, 0, 0, 0, time.UTC)

// h100 is a GPU of which everything is known and nothing is wrong.
func h100(index int) GPU {
	uuid := "GPU-2c7e1b0a-9d4f-4a53-8f0b-6f4b6f1d0c0" + string(rune('0'+index))
	g := GPU{
		UUID: uuid, Index: index, PCI: "00000000:1B:00.0", Name: "NVIDIA H100 80GB HBM3", TakenAt: noon,
		Clocks: Clocks{
			Reasons: Known(Reasons(0)), Supported: Known(Harmful | Benign | SWPowerCap),
			SMMHz: Known[int64](1980), SMMaxMHz: Known[int64](1980), MemMHz: Known[int64](2619), MemMaxMHz: Known[int64](2619),
			Violation: Violations{SWPowerCapNS: Known[uint64](5_000_000_000), SWThermalNS: Known[uint64](0), HWThermalNS: Known[uint64](0), HWPowerBrakeNS: Known[uint64](0), SyncBoostNS: Known[uint64](0), ThermalNS: Known[uint64](0)},
			PState:    Known[int64](0),
		},
		Temperature: Temperature{
			GPUC: Known[int64](54), MemoryC: Known[int64](61), SlowdownC: Known[int64](89), ShutdownC: Known[int64](92),
			GPUMaxC: Known[int64](87), MemMaxC: Known[int64](95), MarginC: Unknown[int64](OldDriver),
		},
		Power: Power{DrawMW: Known[int64](412_000), LimitMW: Known[int64](700_000), DefaultLimitMW: Known[int64](700_000)},
		Use:   Use{GPUPercent: Known[int64](63), MemoryPercent: Known[int64](41), MemoryUsedBytes: Known[uint64](72 << 30), MemoryReservedBytes: Known[uint64](600 << 20), MemoryTotalBytes: Known[uint64](80 << 30)},
		ECC: ECC{
			Enabled: Known(true), Pending: Known(true),
			VolatileCorrected: Known[uint64](0), VolatileUncorrectable: Known[uint64](0), AggregateCorrected: Known[uint64](2), AggregateUncorrectable: Known[uint64](0),
			SRAMVolatileUncorrectable: Known[uint64](0), SRAMAggregateUncorrectable: Known[uint64](0), SRAMThresholdExceeded: Known(false),
			DRAMVolatileUncorrectable: Known[uint64](0), DRAMAggregateUncorrectable: Known[uint64](0),
		},
		Rows: Rows{
			Corrected: Known[uint64](0), Uncorrectable: Known[uint64](0), Pending: Known(false), Failed: Known(false),
			BanksMax: Known[uint64](640), BanksHigh: Known[uint64](0), BanksPartial: Known[uint64](0), BanksLow: Known[uint64](0), BanksNone: Known[uint64](0),
		},
		Pages:    Pages{SingleBit: Unknown[uint64](NotSupported), DoubleBit: Unknown[uint64](NotSupported), Pending: Unknown[bool](NotSupported)},
		PCIe:     PCIe{Generation: Known[int64](5), GenerationMax: Known[int64](5), Width: Known[int64](16), WidthMax: Known[int64](16), Replays: Known[uint64](0)},
		Fabric:   Fabric{State: Known(FabricCompleted), Status: Known[int64](0)},
		Recovery: Known(RecoveryNone),
		MIG:      MIG{Enabled: Known(false)},
		Pods:     Known([]Pod{{Namespace: "serving", Name: "llama-0", UID: "7d1f", Container: "vllm", PID: 4711, UsedBytes: 70 << 30}}),

		EventsWatched: Known(true), EventsSince: noon.Add(-time.Hour),
		Baseline: Baseline{At: noon.Add(-time.Hour)},
	}
	for l := range 2 {
		g.NVLinks = append(g.NVLinks, NVLink{Link: l, Active: Known(true), Replay: Known[uint64](0), Recovery: Known[uint64](0), CRCFlit: Known[uint64](0)})
	}
	g.Baseline.Counters = g.Counters()
	for i := range 10 {
		g.Minutes = append(g.Minutes, Minute{
			Start: noon.Add(time.Duration(i-10) * time.Minute), Samples: 60,
			GPUMaxC: Known[int64](55), MemMaxC: Known[int64](61), SMMinMHz: Known[int64](1950), SMMeanMHz: Known[int64](1979),
			PowerMW: Known[int64](410_000), GPUPercent: Known[int64](60), Counters: g.Counters(),
		})
	}
	return g
}

func snapshot(gpus ...GPU) Snapshot {
	return Snapshot{
		Format: Format, Node: "gpu-17", BootID: "9f1f6a34-0c7d-4a0d-a3c6-6a1d5f3f7d11", Source: "nvml", Agent: "v0.9.0", Driver: "550.54.15", NVML: "12.550.54.15",
		TakenAt: noon, Since: noon.Add(-time.Hour), PeriodMS: 1000,
		Expected: Known(int64(len(gpus))), GPUs: gpus,
	}
}

func TestCodecGolden(t *testing.T) {
	ill := h100(1)
	ill.Clocks.Reasons = Known(HWSlowdown | HWThermalSlowdown | 0x8000)
	ill.Clocks.SMMHz = Unknown[int64](Timeout)
	ill.Minutes[9].Reasons = map[Reasons]int{HWThermalSlowdown: 58, HWSlowdown: 58, 0x8000: 1}
	ill.Events = []Event{{At: noon.Add(-3 * time.Minute), Type: EventXID, Data: 63}}
	ill.Stretches = []Stretch{
		{Reason: HWThermalSlowdown, Since: noon.Add(-40 * time.Minute), Last: noon}, {Heat: HotGPU, Since: noon.Add(-time.Hour), Last: noon, OrBefore: true},
	}
	ill.Baseline.ErredAt = noon.Add(-50 * time.Minute)
	ill.Errors = []ReadError{{What: "clocks.sm_mhz", Why: Timeout, Detail: "no answer within 1s"}}
	ill.Pods = Unknown[[]Pod](Denied)
	for name, s := range map[string]Snapshot{
		"healthy": snapshot(h100(0)),
		"ill":     snapshot(h100(0), ill),
		"no_driver": func() Snapshot {
			s := snapshot()
			s.Driver, s.NVML = "", ""
			s.Errors = []ReadError{{What: "driver", Why: Failed, Detail: "libnvidia-ml.so.1: cannot open shared object file"}}
			return s
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "snapshot_"+name+".json")
			if *update {
				if err := os.WriteFile(file, append(got, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, bytes.TrimSuffix(want, []byte("\n"))) {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Errorf("the encoded form changed at byte %d, and agents of the release before speak the old one: got %.80q, want %.80q", at, got[at:], want[at:])
			}
			back, err := Decode(got)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(s, back, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("decoded differs from encoded (-encoded +decoded):\n%s", d)
			}
		})
	}
}

// TestDecodeRefuses holds what an honest agent never says.
func TestDecodeRefuses(t *testing.T) {
	good, err := Encode(snapshot(h100(0), h100(1)))
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, to string) []byte {
		t.Helper()
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("the snapshot does not hold %s", old)
		}
		return bytes.Replace(good, []byte(old), []byte(to), 1)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":                     {nil, "EOF"},
		"not json":                  {[]byte("GPU is lost"), "invalid character"},
		"two documents":             {append(bytes.Clone(good), good...), "more than one JSON value"},
		"too long":                  {bytes.Repeat([]byte(" "), MaxBytes+1), "more than 1048576"},
		"unknown field":             {replace(`"index":0`, `"index":0,"cracked":true`), `unknown field "cracked"`},
		"another format":            {replace(Format, "responder.gpu/v2"), "format"},
		"no node":                   {replace("gpu-17", ""), "node is empty"},
		"control characters":        {replace("gpu-17", `gpu\u001b[31m`), "cannot be printed"},
		"duplicate uuid":            {replace("0c01", "0c00"), "two GPUs never share one"},
		"duplicate index":           {replace(`"index":1`, `"index":0`), "stands there already"},
		"null reading":              {replace(`"gpu_c":54`, `"gpu_c":null`), "null is neither"},
		"text as temperature":       {replace(`"gpu_c":54`, `"gpu_c":"[N/A]"`), "cannot unmarshal string"},
		"fraction":                  {replace(`"gpu_c":54`, `"gpu_c":54.5`), "cannot unmarshal number"},
		"negative counter":          {replace(`"replays":0`, `"replays":-1`), "cannot unmarshal number"},
		"counter beyond 64 bits":    {replace(`"replays":0`, `"replays":18446744073709551616`), "cannot unmarshal number"},
		"unknown reason":            {replace(`"gpu_c":54`, `"gpu_c":{"unknown":"fine"}`), "not a known reason"},
		"a mask in decimal":         {replace(`"0x0000000000000000"`, `"0"`), "hexadecimal"},
		"readings from the future":  {replace(`"taken_at":"2026-08-22T12:00:00Z","clocks"`, `"taken_at":"2026-08-22T12:00:05Z","clocks"`), "later than the snapshot"},
		"minutes out of order":      {replace(`"start":"2026-08-22T11:51:00Z"`, `"start":"2026-08-22T11:49:00Z"`), "clock jumped"},
		"minute from the future":    {replace(`"start":"2026-08-22T11:59:00Z"`, `"start":"2026-08-22T12:59:00Z"`), "later than the snapshot"},
		"more hits than samples":    {replace(`"samples":60`, `"samples":60,"reasons":{"0x0000000000000040":61}`), "cannot be"},
		"two bits counted together": {replace(`"samples":60`, `"samples":60,"reasons":{"0x0000000000000048":6}`), "cannot be"},
		"endless period":            {replace(`"period_ms":1000`, `"period_ms":0`), "period_ms"},
		"a period of its choosing":  {replace(`"period_ms":1000`, `"period_ms":60001`), "period_ms is 60001, want 100 to 60000"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestReadingZeroIsUnknown(t *testing.T) {
	var r Reading[int64]
	if v, ok := r.Get(); ok || v != 0 || r.Why() != NotRead || !r.IsZero() {
		t.Fatalf("a reading that nobody filled in says %d, %v, %q", v, ok, r.Why())
	}
	if b, err := Known([]Pod(nil)).MarshalJSON(); err != nil || string(b) != "[]" {
		t.Fatalf("no pods, as was read, is written as %s, %v", b, err)
	}
	if Known[int64](0).IsZero() || Unknown[int64](NotSupported).IsZero() {
		t.Fatal("a zero that was read, or a reason, would be left out of the encoding")
	}
}

func FuzzDecode(f *testing.F) {
	long := h100(0)
	long.Stretches = []Stretch{{Reason: EitherThermal, Since: noon.Add(-time.Hour), Last: noon, OrBefore: true}, {Heat: NoMargin, Since: noon, Last: noon}}
	long.Baseline.ErredAt = noon
	for _, s := range []Snapshot{snapshot(), snapshot(h100(0)), snapshot(h100(0), h100(1)), snapshot(long)} {
		b, err := Encode(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		byHand(t, data)
		s, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Encode(s)
		if err != nil {
			t.Fatalf("decoded and not encodable: %v", err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("encoded and not decodable: %v", err)
		}
		if d := cmp.Diff(s, back, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("changed on the way (-first +second):\n%s", d)
		}
	})
}

package judge

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

func xid(code uint64, ago time.Duration, times int) func(*gpu.GPU) {
	return func(g *gpu.GPU) {
		for range times {
			g.Events = append(g.Events, gpu.Event{At: noon.Add(-ago), Type: gpu.EventXID, Data: code})
		}
	}
}

func happened(kind gpu.EventType, ago time.Duration) func(*gpu.GPU) {
	return func(g *gpu.GPU) { g.Events = append(g.Events, gpu.Event{At: noon.Add(-ago), Type: kind}) }
}

func TestVerdictOfEvents(t *testing.T) {
	for name, c := range map[string]verdictCase{
		"an application's fault":          {change: xid(31, time.Minute, 5), want: Healthy, rule: "xid", text: "XID 31 (GPU memory page fault) 5 times since 11:59 UTC"},
		"a video decoder":                 {change: xid(97, time.Minute, 1), want: Healthy, rule: "xid", text: "video decoder"},
		"double bit error":                {change: xid(48, time.Hour, 1), want: Failing, rule: "xid", text: "XID 48 (double bit ECC error) since 11:00 UTC", reset: true},
		"fallen off the bus":              {change: xid(79, 30*time.Hour, 1), want: Failing, rule: "xid", text: "since 2026-08-21 06:00 UTC", reset: true},
		"row could not be remapped":       {change: xid(64, time.Minute, 1), want: Failing, rule: "xid", text: "XID 64", rma: true},
		"power is not connected":          {change: xid(54, time.Minute, 1), want: Failing, rule: "xid", text: "auxiliary power"},
		"row was remapped":                {change: xid(63, time.Minute, 1), want: Degraded, rule: "xid", text: "XID 63", reset: true},
		"row was remapped two days ago":   {change: xid(63, 48*time.Hour, 1), want: Healthy, rule: "xid", text: "XID 63"},
		"contained":                       {change: xid(94, time.Minute, 1), want: Degraded, rule: "xid", text: "contained"},
		"uncontained":                     {change: xid(95, time.Minute, 1), want: Failing, rule: "xid", text: "uncontained", reset: true},
		"a link":                          {change: xid(74, time.Minute, 1), want: Degraded, rule: "xid", text: "NVLink"},
		"a link again and again":          {change: xid(74, time.Minute, 4), want: Failing, rule: "xid", text: "4 times", reset: true},
		"an XID that is new":              {change: xid(4711, time.Minute, 1), want: Uncertain, rule: "xid", text: "unknown XID"},
		"a number that the catalog skips": {change: xid(58, time.Minute, 1), want: Uncertain, rule: "xid"},
		"recovery action changed to none": {change: xid(154, time.Minute, 1), want: Healthy, rule: "xid", text: "recovery action changed"},
		"recovery action changed, unread": {change: func(g *gpu.GPU) {
			xid(154, time.Minute, 1)(g)
			g.Recovery = gpu.Unknown[gpu.RecoveryAction](gpu.OldDriver)
		}, want: Degraded, rule: "xid", text: "recovery action that cannot be read", reset: true},
		"fatal poison": {change: func(g *gpu.GPU) { g.Events = []gpu.Event{{At: noon, Type: gpu.EventFatalPoison}} }, want: Failing, rule: "event", text: "not contained", reset: true},
		"not watched":  {change: func(g *gpu.GPU) { g.EventsWatched = gpu.Known(false) }, want: Uncertain, rule: "needed", text: "not watched"},
		"row was remapped two days ago, and whether it waits is not known": {change: func(g *gpu.GPU) {
			xid(63, 48*time.Hour, 1)(g)
			inParts(g)
			g.Recovery = gpu.Unknown[gpu.RecoveryAction](gpu.OldDriver)
		}, want: Degraded, rule: "xid", text: "XID 63", reset: true},
		"row was remapped two days ago, and the driver asks for nothing": {change: func(g *gpu.GPU) {
			xid(63, 48*time.Hour, 1)(g)
			inParts(g)
		}, want: Healthy, rule: "xid", text: "XID 63"},
		"what is no memory, two days ago, and the driver asks for nothing": {change: xid(109, 48*time.Hour, 1), want: Healthy, rule: "xid", text: "XID 109"},
		"what is no memory, two days ago, and only rows are known": {change: func(g *gpu.GPU) {
			xid(156, 48*time.Hour, 1)(g)
			g.Recovery = gpu.Unknown[gpu.RecoveryAction](gpu.OldDriver)
		}, want: Degraded, rule: "xid", text: "XID 156", reset: true},
		"a row of two days ago, and only rows are known": {change: func(g *gpu.GPU) {
			xid(63, 48*time.Hour, 1)(g)
			g.Recovery = gpu.Unknown[gpu.RecoveryAction](gpu.OldDriver)
		}, want: Healthy, rule: "xid", text: "XID 63"},
		"a storm of single bit errors":              {change: happened(gpu.EventSingleBitStorm, time.Minute), want: Degraded, rule: "event", text: "storm of single bit ECC errors since 11:59 UTC"},
		"a storm two days ago":                      {change: happened(gpu.EventSingleBitStorm, 48*time.Hour), want: Healthy, rule: "event", text: "storm"},
		"contained poison two days ago":             {change: happened(gpu.EventNonFatalPoison, 48*time.Hour), want: Healthy, rule: "event", text: "was contained"},
		"memory was retired":                        {change: happened(gpu.EventDRAMRetirement, time.Minute), want: Degraded, rule: "event", text: "memory was retired", reset: true},
		"memory could not be retired, two days ago": {change: happened(gpu.EventDRAMRetirementFailure, 48*time.Hour), want: Failing, rule: "event", text: "could not be retired", rma: true},
		"the recovery action is another, and known": {change: happened(gpu.EventRecoveryAction, time.Minute), want: Healthy, rule: "event", text: "recovery action changed"},
		"a change of clocks":                        {change: happened(0x10, time.Minute), want: Healthy},
		"a kind of event that is new":               {change: happened(0x100000, time.Minute), want: Uncertain, rule: "event", text: "an event of an unknown kind since 11:59 UTC"},
		"events of kinds that are new, in one":      {change: happened(0x30, time.Minute), want: Uncertain, rule: "event", text: "unknown kind"},
		"the recovery action is another, and unread": {change: func(g *gpu.GPU) {
			happened(gpu.EventRecoveryAction, time.Minute)(g)
			g.Recovery = gpu.Unknown[gpu.RecoveryAction](gpu.OldDriver)
		}, want: Degraded, rule: "event", text: "recovery action that cannot be read", reset: true},
	} {
		t.Run(name, c.check)
	}
}

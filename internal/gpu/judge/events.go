package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// MildXIDAge is how long an XID counts if the GPU goes on working after it. Worse
// XIDs count for as long as they are remembered.
const MildXIDAge = 24 * time.Hour

// recoveryChanged is the XID that announces a new recovery action. It does not
// name the action; see [gpu.GPU.Recovery].
const recoveryChanged = 154

// memoryRepaired is the XID that announces a memory row or page that waits for a
// reset.
const memoryRepaired = 63

// xidCatalog is where the classes of XIDs come from.
const xidCatalog = "NVIDIA XID catalog, docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"

// xidOutcome is what a class means for a verdict.
var xidOutcome = map[gpu.XIDClass]outcome{
	gpu.XIDNote:        {verdict: Healthy},
	gpu.XIDApplication: {verdict: Healthy},
	gpu.XIDContained:   {verdict: Degraded},
	gpu.XIDLink:        {verdict: Degraded},
	gpu.XIDRepair:      {verdict: Degraded, reset: true},
	gpu.XIDUnknown:     {verdict: Uncertain},
	gpu.XIDReset:       {verdict: Failing, reset: true},
	gpu.XIDReboot:      {verdict: Failing, reset: true},
	gpu.XIDMechanical:  {verdict: Failing},
	gpu.XIDReplace:     {verdict: Failing, rma: true},
}

// manyLinkErrors is the number of NVLink errors above which the link counts as
// broken.
const manyLinkErrors = 3

func xidSeen(u subject) []sign {
	seen := map[uint64][]gpu.Event{}
	for _, e := range u.gpu.Events {
		if code, ok := e.XID(); ok {
			seen[code] = append(seen[code], e)
		}
	}
	var out []sign
	for _, code := range slices.SortedFunc(maps.Keys(seen), cmp.Compare[uint64]) {
		all := seen[code]
		first, last := all[0], all[len(all)-1].At
		if code == recoveryChanged {
			out = append(out, u.recoveryNote(first, len(all)))
			continue
		}
		class, text := gpu.ClassifyXID(code)
		o := xidOutcome[class]
		if u.showsAgain(code) {
			o = u.fading(o, last, code == memoryRepaired)
		}
		if class == gpu.XIDLink && len(all) > manyLinkErrors {
			o = outcome{verdict: Failing, reset: true}
		}
		out = append(out, sign{
			outcome: o, since: first.At,
			text:     fmt.Sprintf("XID %d (%s)%s%s", code, text, times(len(all)), u.seen(first)),
			evidence: fmt.Sprintf("xid=%d class=%s count=%d last=%s", code, class, len(all), last.UTC().Format(time.RFC3339)),
		})
	}
	return out
}

// recoveryNote judges XID 154, which only announces a new recovery action. If the
// action itself is known, the action decides.
func (u subject) recoveryNote(first gpu.Event, count int) sign {
	s := sign{since: first.At, evidence: fmt.Sprintf("xid=154 count=%d recovery_action=%s", count, u.gpu.Recovery)}
	s.outcome, s.text = u.recoveryChange(" (XID 154)")
	s.text += u.seen(first)
	return s
}

// recoveryChange judges the announcement of a new recovery action; by names its
// source.
func (u subject) recoveryChange(by string) (outcome, string) {
	if _, known := u.gpu.Recovery.Get(); !known {
		return outcome{verdict: Degraded, reset: true}, "the driver asks for a recovery action that cannot be read" + by
	}
	return outcome{verdict: Healthy}, "the recovery action changed" + by
}

// seen returns since when an event has been known, like [subject.since].
func (u subject) seen(e gpu.Event) string {
	if e.OrBefore {
		return u.since(e.At) + " or before"
	}
	return u.since(e.At)
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" %d times", n)
}

// fading returns what an outcome means once its last sign is old. An outcome that
// needs a reset ends only when a reading shows that no reset is needed. A divided
// GPU does not show whether a row waits for one, and row remapping shows nothing
// about repairs outside of memory.
func (u subject) fading(o outcome, last time.Time, memory bool) outcome {
	if o.verdict != Degraded || u.now.Sub(last) <= MildXIDAge || o.reset && !u.nothingPends(memory) {
		return o
	}
	return outcome{verdict: Healthy}
}

// showsAgain reports whether a repetition of the same XID would be visible. The
// exporter's gauge does not change when the same XID repeats. For a repair of
// memory, a row or page that waits for a reset shows it.
func (u subject) showsAgain(code uint64) bool {
	return u.snap.Source != gpu.SourceExporter || code == memoryRepaired
}

// nothingPends reports whether it is known that no repair waits for a reset.
// memory: a reading of rows or pages is enough; otherwise the driver's recovery
// action decides.
func (u subject) nothingPends(memory bool) bool {
	rows, ok1 := u.gpu.Rows.Pending.Get()
	pages, ok2 := u.gpu.Pages.Pending.Get()
	action, ok3 := u.gpu.Recovery.Get()
	return memory && (ok1 && !rows || ok2 && !pages) || ok3 && action == gpu.RecoveryNone
}

// harmlessEvents are single bit errors and changes of the P-state, the clocks, the
// power source or the MIG layout. They are normal, and readings show them.
const harmlessEvents gpu.EventType = 0x1 | 0x4 | 0x10 | 0x80 | 0x100

// eventOutcome is what events other than XIDs mean.
var eventOutcome = map[gpu.EventType]struct {
	outcome
	text string
}{
	gpu.EventDoubleBitECC:          {outcome{verdict: Failing, reset: true}, "double bit ECC error"},
	gpu.EventSingleBitStorm:        {outcome{verdict: Degraded}, "a storm of single bit ECC errors"},
	gpu.EventDRAMRetirement:        {outcome{verdict: Degraded, reset: true}, "memory was retired; active after a reset"},
	gpu.EventDRAMRetirementFailure: {outcome{verdict: Failing, rma: true}, "memory could not be retired"},
	gpu.EventNonFatalPoison:        {outcome{verdict: Degraded}, "poisoned data was contained"},
	gpu.EventFatalPoison:           {outcome{verdict: Failing, reset: true}, "poisoned data was not contained"},
	gpu.EventUnavailable:           {outcome{verdict: Failing, reset: true}, "the GPU is not available"},
}

// eventSeen judges events other than XIDs, each kind once.
func eventSeen(u subject) []sign {
	var kinds []gpu.EventType
	first, last := map[gpu.EventType]gpu.Event{}, map[gpu.EventType]gpu.Event{}
	for _, e := range u.gpu.Events {
		if e.Type == gpu.EventXID || e.Type != 0 && e.Type&^harmlessEvents == 0 && e.Type&(e.Type-1) == 0 {
			continue
		}
		if _, seen := first[e.Type]; !seen {
			kinds, first[e.Type] = append(kinds, e.Type), e
		}
		last[e.Type] = e
	}
	var out []sign
	for _, kind := range kinds {
		e := first[kind]
		s := sign{since: e.At, evidence: fmt.Sprintf("event=0x%x data=%d", uint64(kind), e.Data)}
		switch o, known := eventOutcome[kind]; {
		case known:
			s.outcome, s.text = u.fading(o.outcome, last[kind].At, kind == gpu.EventDRAMRetirement), o.text
		case kind == gpu.EventRecoveryAction:
			s.outcome, s.text = u.recoveryChange("")
		default:
			s.outcome, s.text = outcome{verdict: Uncertain}, "an event of an unknown kind"
		}
		s.text += u.since(e.At)
		out = append(out, s)
	}
	return out
}

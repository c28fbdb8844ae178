package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// keepMild is for how long an XID counts after which the GPU goes on working.
// Worse ones count for as long as they are remembered.
const keepMild = 24 * time.Hour

// manyLinkErrors is how often NVLink may err before it counts as broken.
const manyLinkErrors = 3

func xidSeen(u subject) []sign {
	seen := map[uint64][]time.Time{}
	for _, e := range u.gpu.Events {
		if code, ok := e.XID(); ok {
			seen[code] = append(seen[code], e.At)
		}
	}
	var out []sign
	for _, code := range slices.SortedFunc(maps.Keys(seen), cmp.Compare[uint64]) {
		at := seen[code]
		if code == recoveryChanged {
			out = append(out, u.recoveryNote(at))
			continue
		}
		class, text := ClassifyXID(code)
		o := xidOutcome[class]
		if o.verdict == Degraded && u.now.Sub(at[len(at)-1]) > keepMild {
			o = outcome{verdict: Healthy}
		}
		if class == XIDLink && len(at) > manyLinkErrors {
			o = outcome{verdict: Failing, reset: true}
		}
		out = append(out, sign{
			outcome: o, since: at[0],
			text:     fmt.Sprintf("XID %d (%s)%s%s", code, text, times(len(at)), u.seen(at[0])),
			evidence: fmt.Sprintf("xid=%d class=%s count=%d last=%s", code, class, len(at), at[len(at)-1].UTC().Format(time.RFC3339)),
		})
	}
	return out
}

// recoveryNote judges XID 154, which says only that the recovery action is
// another: where the action itself is known, it decides.
func (u subject) recoveryNote(at []time.Time) sign {
	s := sign{
		outcome: outcome{verdict: Healthy}, since: at[0], text: "the recovery action changed (XID 154)" + u.seen(at[0]),
		evidence: fmt.Sprintf("xid=154 count=%d recovery_action=%s", len(at), u.gpu.Recovery),
	}
	if _, known := u.gpu.Recovery.Get(); !known {
		s.outcome = outcome{verdict: Degraded, reset: true}
		s.text = "the driver wants something done about the GPU (XID 154), and what cannot be read"
	}
	return s
}

// seen is since for an event. What dcgm-exporter gave already at the first moment
// that was asked for may have come long before: it goes on giving the last one.
func (u subject) seen(at time.Time) string {
	if u.snap.Source == sourceExporter && !at.After(u.snap.Since) {
		return u.since(at) + " or before"
	}
	return u.since(at)
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" %d times", n)
}

// eventOutcome is what events other than XIDs mean.
var eventOutcome = map[EventType]struct {
	outcome
	text string
}{
	EventDoubleBitECC:          {outcome{verdict: Failing, reset: true}, "double bit ECC error"},
	EventDRAMRetirementFailure: {outcome{verdict: Failing, rma: true}, "memory could not be retired"},
	EventNonFatalPoison:        {outcome{verdict: Degraded}, "poisoned data was contained"},
	EventFatalPoison:           {outcome{verdict: Failing, reset: true}, "poisoned data was not contained"},
	EventUnavailable:           {outcome{verdict: Failing, reset: true}, "the GPU is not available"},
}

func eventSeen(u subject) []sign {
	var out []sign
	told := map[EventType]bool{}
	for _, e := range u.gpu.Events {
		o, known := eventOutcome[e.Type]
		if !known || told[e.Type] {
			continue
		}
		told[e.Type] = true
		out = append(out, sign{
			outcome: o.outcome, since: e.At, text: o.text + u.since(e.At),
			evidence: fmt.Sprintf("event=0x%x data=%d", uint64(e.Type), e.Data),
		})
	}
	return out
}

package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// maxAhead is how far the node's clock may be ahead of the reader's.
const maxAhead = 10 * time.Second

// harmless are the reasons for which a verdict can do without a reading: the GPU
// or the source does not have it.
var harmless = map[gpu.Absence]bool{gpu.NotSupported: true, gpu.OldDriver: true, gpu.NotRead: true, gpu.NotExported: true}

// lostAll are the reasons for which nothing can be read. gpuLost and gpuNeedsReset
// report them once.
var lostAll = map[gpu.Absence]bool{gpu.Lost: true, gpu.NeedsReset: true}

// mustKnow are the readings without which no GPU is healthy.
var mustKnow = map[string]string{
	"clocks.reasons":             "why it does not run faster",
	"temperature.gpu_c":          "its temperature",
	"ecc.enabled":                "whether memory errors are found at all",
	"ecc.volatile_uncorrectable": "its memory errors",
	"events_watched":             "the driver's events (XIDs)",
}

func nodeReadable(u subject) []sign {
	var out []sign
	for _, e := range u.snap.Errors {
		switch {
		case e.What == gpu.WhatPods:
			out = append(out, podsUnknown(detail(e)))
		case e.Why == gpu.NeedsReset:
			out = append(out, sign{outcome: outcome{verdict: Failing, reset: true}, text: fmt.Sprintf("%s %s", e.What, e.Why.Text()), evidence: detail(e)})
		case !harmless[e.Why]:
			out = append(out, sign{outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("%s %s", e.What, e.Why.Text()), evidence: detail(e)})
		}
	}
	if len(u.snap.GPUs) == 0 {
		out = append(out, sign{outcome: outcome{verdict: Uncertain}, text: "no GPU was seen on the node"})
	}
	return out
}

func gpusPresent(u subject) []sign {
	want, ok := u.snap.Expected.Get()
	if !ok || int64(len(u.snap.GPUs)) >= want {
		return nil
	}
	return []sign{{
		outcome:  outcome{verdict: Failing, reset: true},
		text:     fmt.Sprintf("%d of %d GPUs are there; the others have left the bus", len(u.snap.GPUs), want),
		evidence: fmt.Sprintf("gpus=%d expected=%d", len(u.snap.GPUs), want),
	}}
}

func gpuLost(u subject) []sign { return u.useless(gpu.Lost, "the GPU has fallen off the bus") }

func gpuNeedsReset(u subject) []sign {
	return u.useless(gpu.NeedsReset, "the GPU cannot be used before it is reset")
}

// useless finds a GPU that needs a reset before something of it can be read.
func (u subject) useless(why gpu.Absence, text string) []sign {
	o := outcome{verdict: Failing, reset: true}
	for _, m := range u.lacks {
		if m.Why == why {
			return []sign{{outcome: o, text: text, evidence: m.What + "=[" + string(why) + "]"}}
		}
	}
	for _, e := range u.gpu.Errors {
		if e.Why == why {
			return []sign{{outcome: o, text: text, evidence: detail(e)}}
		}
	}
	return nil
}

func fresh(u subject) []sign {
	age := u.now.Sub(u.gpu.TakenAt)
	switch limit := u.snap.MaxAge(); {
	case age > limit:
		return []sign{{
			outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("the readings are %s old, more than %s", age.Round(time.Second), limit),
			evidence: "taken_at=" + u.gpu.TakenAt.UTC().Format(time.RFC3339),
		}}
	case age < -maxAhead:
		return []sign{{
			outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("the readings are %s ahead of the clock here: one of the clocks is wrong", (-age).Round(time.Second)),
			evidence: "taken_at=" + u.gpu.TakenAt.UTC().Format(time.RFC3339),
		}}
	}
	return nil
}

// onOneNode doubts a GPU that another node reports too: one of the two is wrong,
// and it is unknown which.
func onOneNode(u subject) []sign {
	if u.twin == "" {
		return nil
	}
	return []sign{{outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("node %s reports this GPU too, and one of the two is wrong", u.twin), evidence: "uuid=" + u.gpu.UUID}}
}

func needed(u subject) []sign {
	var out []sign
	for _, m := range u.lacks {
		switch what, must := mustKnow[m.What]; {
		case !must || lostAll[m.Why]:
		case m.What == "ecc.volatile_uncorrectable" && volatileOfInstances(u.gpu):
		default:
			out = append(out, sign{outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("%s (%s) %s", m.What, what, m.Why.Text()), evidence: m.What + "=[" + string(m.Why) + "]"})
		}
	}
	if watched, ok := u.gpu.EventsWatched.Get(); ok && !watched {
		out = append(out, sign{outcome: outcome{verdict: Uncertain}, text: "the driver's events (XIDs) are not watched", evidence: "events_watched=false"})
	}
	if on, ok := u.gpu.ECC.Enabled.Get(); ok && !on {
		out = append(out, sign{outcome: outcome{verdict: Uncertain}, text: "ECC is off: memory errors are not found", evidence: "ecc.enabled=false"})
	}
	if s, blind := repairsUnseen(u.gpu); blind {
		out = append(out, s)
	}
	return out
}

// dividedNow reports whether the GPU has instances. NVML then returns some
// readings per instance only.
func dividedNow(g gpu.GPU) bool {
	on, _ := g.MIG.Enabled.Get()
	return on && len(g.MIG.Instances) > 0
}

// volatileOfInstances reports whether memory errors since the driver was loaded
// exist per instance only. The counters of the GPU's life still include them.
func volatileOfInstances(g gpu.GPU) bool {
	return dividedNow(g) && g.ECC.VolatileUncorrectable.Why() == gpu.NotSupported && g.ECC.AggregateUncorrectable.Why() == ""
}

// rowsOfInstances reports whether row remapping is unreadable while there are
// instances.
func rowsOfInstances(g gpu.GPU) bool {
	return dividedNow(g) && g.Rows.Pending.Why() == gpu.NotSupported && g.Pages.Pending.Why() != ""
}

// divided lists readings that are unavailable while a GPU has instances, and that
// a verdict can do without.
func divided(u subject) []sign {
	var out []sign
	if volatileOfInstances(u.gpu) {
		out = append(out, sign{
			outcome: outcome{verdict: Healthy}, text: "memory errors since the driver was loaded cannot be read while the GPU is divided; those of its life are",
			evidence: fmt.Sprintf("volatile_uncorrectable=%s aggregate_uncorrectable=%s", u.gpu.ECC.VolatileUncorrectable, u.gpu.ECC.AggregateUncorrectable),
		})
	}
	if rowsOfInstances(u.gpu) {
		out = append(out, sign{
			outcome: outcome{verdict: Healthy}, text: "row remapping cannot be read while the GPU is divided",
			evidence: fmt.Sprintf("rows.pending=%s rows.failed=%s", u.gpu.Rows.Pending, u.gpu.Rows.Failed),
		})
	}
	return out
}

// repairsUnseen reports whether neither row remapping nor page retirement can be
// read. Every GPU with ECC has one of them, unless it is divided.
func repairsUnseen(g gpu.GPU) (sign, bool) {
	_, pending := g.Rows.Pending.Get()
	_, failed := g.Rows.Failed.Get()
	_, pages := g.Pages.Pending.Get()
	if pending && failed || pages || lostAll[g.Rows.Pending.Why()] || rowsOfInstances(g) {
		return sign{}, false
	}
	evidence := fmt.Sprintf("rows.pending=%s rows.failed=%s pages.pending=%s", g.Rows.Pending, g.Rows.Failed, g.Pages.Pending)
	return sign{outcome: outcome{verdict: Uncertain}, text: "repairs of its memory cannot be read", evidence: evidence}, true
}

// readable lists what could not be read for a reason that may itself be a fault,
// and what the source does not export.
func readable(u subject) []sign {
	var bad, absent []string
	var out []sign
	for _, m := range u.lacks {
		switch {
		case mustKnow[m.What] != "", lostAll[m.Why]:
		case m.What == gpu.WhatPods:
			if !harmless[m.Why] && !slices.ContainsFunc(u.snap.Errors, func(e gpu.ReadError) bool { return e.What == gpu.WhatPods }) {
				out = append(out, podsUnknown(m.What+"=["+string(m.Why)+"]"))
			}
		case !harmless[m.Why]:
			bad = append(bad, m.What+"=["+string(m.Why)+"]")
		case m.Why == gpu.NotExported:
			absent = append(absent, m.What)
		}
	}
	if len(bad) > 0 {
		out = append(out, sign{outcome: outcome{verdict: Uncertain}, text: plural(len(bad), "reading") + " could not be read", evidence: first8(bad)})
	}
	if len(absent) > 0 {
		out = append(out, sign{outcome: outcome{verdict: Healthy}, text: plural(len(absent), "reading") + " that the exporter does not export", evidence: first8(absent)})
	}
	return out
}

// first8 keeps evidence short: it goes into the journal.
func first8(names []string) string {
	if len(names) > 8 {
		return strings.Join(names[:8], " ") + fmt.Sprintf(" and %d more", len(names)-8)
	}
	return strings.Join(names, " ")
}

// podsUnknown returns the sign that it is unknown which pods hold the GPUs. All GPUs of the
// node then count as a service's own.
func podsUnknown(evidence string) sign {
	return sign{outcome: outcome{verdict: Healthy}, text: "the pods that hold its GPUs are unknown: it may be any pod of the node", evidence: evidence}
}

func plausible(u subject) []sign {
	var out []sign
	told := map[string]bool{}
	for _, e := range u.odd {
		what := e.What
		if _, field, past := strings.Cut(what, "]."); past {
			what = "minutes." + field
		}
		if told[what] { // a broken sensor is so in minute after minute
			continue
		}
		told[what] = true
		out = append(out, sign{outcome: outcome{verdict: Uncertain}, text: e.What + " " + e.Why.Text(), evidence: e.Detail})
	}
	return out
}

func detail(e gpu.ReadError) string {
	if e.Detail == "" {
		return e.What + "=[" + string(e.Why) + "]"
	}
	return e.What + "=[" + string(e.Why) + "] " + e.Detail
}

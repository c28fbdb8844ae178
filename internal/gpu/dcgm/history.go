package dcgm

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// read converts the series of a GPU to what an agent would report.
func (d *device) read(e Exported, maxAge time.Duration) gpu.GPU {
	g := d.gpu
	since := d.ongoing(e)
	ended := gpu.GPU{} // what only series that ended say
	slices.SortStableFunc(d.series, func(a, b Series) int { return last(a).At.Compare(last(b).At) })
	for _, s := range d.series { // the youngest one last: labels change with the pod that holds the GPU
		into := fields[s.Name]
		switch {
		case into == nil || s.Labels["GPU_I_ID"] != "":
		case last(s).At.Before(since):
			into(&ended, last(s).Value)
		default:
			into(&g, last(s).Value)
		}
	}
	d.events(&g, since, e)
	var dropped time.Time
	g.Events, dropped = gpu.DropEvents(g.Events, gpu.MaxEvents)
	d.pods(&g)
	d.forgetStale(maxAge)
	masks := masksOf(d.series)
	g.Stretches = d.lasting(masks, e)
	if g.EventsSince = d.eventsSince(since); !g.EventsSince.IsZero() && dropped.After(g.EventsSince) {
		g.EventsSince = dropped
	}
	if n := len(masks); n > 0 {
		g.Clocks.Reasons = gpu.Known(masks[n-1].mask)
		if masks[n-1].at.Before(since) {
			g.Clocks.Reasons = gpu.Unknown[gpu.Reasons](gpu.Stale)
		}
	}
	if _, counted := g.ECC.VolatileUncorrectable.Get(); counted {
		g.ECC.Enabled = gpu.Known(true) // without ECC there is no count
	}
	g.Minutes = d.minutes(masks, e)
	if len(g.Minutes) > 0 {
		g.Baseline = gpu.Baseline{At: g.Minutes[0].Start, Counters: d.countersAt(g.Minutes[0].Start.Add(Step))}
	}
	d.taken(&g, e)
	exclude(&g, ended)
	return g
}

// ongoing returns the time from which on a series needs a point to count as
// current. It may lack only the newest point. A series that ended before, while
// the GPU was still scraped, is no longer exported.
func (d *device) ongoing(e Exported) time.Time {
	newest := e.Now
	if n := len(d.scraped); n > 0 {
		newest = d.scraped[n-1].At
	}
	return newest.Add(-Step)
}

// taken sets when the GPU was scraped last. A GPU whose series have ended is not
// watched any more, even if they ended just now.
func (d *device) taken(g *gpu.GPU, e Exported) {
	g.TakenAt = e.From // nobody knows when: too old to be believed
	if len(d.scraped) == 0 {
		g.EventsWatched = gpu.Unknown[bool](gpu.Stale)
		return
	}
	end := d.scraped[len(d.scraped)-1]
	g.TakenAt = minTime(end.scrape(), e.Now)
	if end.At.Before(e.Now) {
		g.EventsWatched = gpu.Unknown[bool](gpu.Stale)
	}
}

// scrape returns the time that a point of [Exported.Scraped] holds.
func (p Point) scrape() time.Time { return time.UnixMilli(int64(p.Value * 1000)).UTC() }

// forgetStale removes points whose value was too old at their time. There was no
// scrape, so nothing is known about the GPU then.
func (d *device) forgetStale(maxAge time.Duration) {
	fresh := map[int64]bool{}
	for _, p := range d.scraped {
		fresh[p.At.Unix()] = p.At.Sub(p.scrape()) <= maxAge
	}
	for i, s := range d.series {
		d.series[i].Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool { return !fresh[p.At.Unix()] })
	}
}

func last(s Series) Point { return s.Points[len(s.Points)-1] }

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// mask is the clocks event reasons at a time.
type mask struct {
	at   time.Time
	mask gpu.Reasons
}

// masksOf returns the reasons over time, from the mask series or from the
// exporter's counts of each reason.
func masksOf(series []Series) []mask {
	direct, counted := map[int64]gpu.Reasons{}, map[int64]gpu.Reasons{}
	for _, s := range series {
		bit, known := clockEvents[s.Labels["clock_event"]]
		for _, p := range s.Points {
			at := p.At.Unix()
			switch {
			case (s.Name == maskName || s.Name == oldMaskName) && p.Value >= 0 && p.Value < 1<<53 && !blank(p.Value):
				direct[at] |= gpu.Reasons(p.Value)
			case s.Name != clockEventsName:
			case !known && p.Value > 0:
				counted[at] |= 1 << 63 // a reason whose name is new
			case p.Value > 0:
				counted[at] |= bit
			default:
				counted[at] |= 0
			}
		}
	}
	if len(direct) == 0 {
		direct = counted
	}
	var out []mask
	for at, m := range direct {
		out = append(out, mask{time.Unix(at, 0).UTC(), m})
	}
	slices.SortFunc(out, func(a, b mask) int { return a.at.Compare(b.at) })
	return out
}

// within returns the values of a series in a span of time.
func (d *device) within(name string, from, to time.Time) []float64 {
	var out []float64
	for _, s := range d.series {
		if s.Name != name || s.Labels["GPU_I_ID"] != "" {
			continue
		}
		for _, p := range s.Points {
			if !p.At.Before(from) && p.At.Before(to) && !math.IsNaN(p.Value) && !blank(p.Value) {
				out = append(out, p.Value)
			}
		}
	}
	return out
}

// minutes summarises points per minute, counted back from the end.
func (d *device) minutes(masks []mask, e Exported) []gpu.Minute {
	const perMinute = int(time.Minute / Step)
	var out []gpu.Minute
	for i := min(int(e.Now.Sub(e.From)/time.Minute), gpu.MaxMinutes); i > 0; i-- {
		from := e.Now.Add(-time.Duration(i) * time.Minute)
		to := from.Add(time.Minute)
		m := gpu.Minute{Start: from.UTC(), Reasons: map[gpu.Reasons]int{}}
		for _, k := range masks {
			if k.at.Before(from) || !k.at.Before(to) {
				continue
			}
			m.Samples++
			for _, bit := range k.mask.Bits() {
				m.Reasons[bit]++
			}
		}
		m.Missed = max(0, perMinute-m.Samples)
		m.GPUMaxC = most(d.within("DCGM_FI_DEV_GPU_TEMP", from, to))
		m.MemMaxC = most(d.within("DCGM_FI_DEV_MEMORY_TEMP", from, to))
		clocks := d.within("DCGM_FI_DEV_SM_CLOCK", from, to)
		m.SMMinMHz, m.SMMeanMHz = least(clocks), mean(clocks)
		m.GPUPercent = mean(d.within("DCGM_FI_DEV_GPU_UTIL", from, to))
		m.Counters = d.countersAt(to)
		if m.Samples > 0 || len(clocks) > 0 || len(out) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// countersAt returns the counters as of the minute before a moment.
func (d *device) countersAt(to time.Time) gpu.Counters {
	before := func(name string) gpu.Reading[uint64] {
		all := d.within(name, to.Add(-time.Minute), to)
		if len(all) == 0 {
			return gpu.Unknown[uint64](gpu.NotExported)
		}
		return count(all[len(all)-1])
	}
	c := gpu.Counters{
		VolatileCorrected:      before("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
		VolatileUncorrectable:  before("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
		AggregateUncorrectable: before("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"),
		RowsUncorrectable:      before("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
		PCIeReplays:            before("DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
		NVLinkCRC:              gpu.Unknown[uint64](gpu.NotExported),
		NVLinkReplays:          gpu.Unknown[uint64](gpu.NotExported),
	}
	return c
}

func most(v []float64) gpu.Reading[int64] {
	if len(v) == 0 {
		return gpu.Unknown[int64](gpu.NotExported)
	}
	return whole(slices.Max(v))
}

func least(v []float64) gpu.Reading[int64] {
	if len(v) == 0 {
		return gpu.Unknown[int64](gpu.NotExported)
	}
	return whole(slices.Min(v))
}

func mean(v []float64) gpu.Reading[int64] {
	if len(v) == 0 {
		return gpu.Unknown[int64](gpu.NotExported)
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return whole(sum / float64(len(v)))
}

// events adds an event for every XID that the gauge changed to and for every XID
// that the exporter counted. Events are watched if one of these series has a point
// since then. A value at the first point came before it.
func (d *device) events(g *gpu.GPU, since time.Time, e Exported) {
	watched := func(s Series) {
		if now, _ := g.EventsWatched.Get(); !now {
			g.EventsWatched = gpu.Unknown[bool](gpu.Stale)
		}
		if !last(s).At.Before(since) {
			g.EventsWatched = gpu.Known(true)
		}
	}
	add := func(at time.Time, orBefore bool, code float64) {
		if code > 0 && !math.IsNaN(code) && !blank(code) {
			g.Events = append(g.Events, gpu.Event{At: at.UTC(), OrBefore: orBefore, Type: gpu.EventXID, Data: uint64(min(code, 1<<52))})
		}
	}
	for _, s := range d.series {
		switch s.Name {
		case XIDGauge:
			watched(s)
			before := 0.0
			for _, p := range s.Points {
				at, orBefore := p.At, false
				if !p.At.After(e.From) {
					at, orBefore = d.onset(p.Value, e)
				}
				if p.Value != before {
					add(at, orBefore, p.Value)
				}
				before = p.Value
			}
		case xidCounts:
			watched(s)
			code, err := strconv.ParseFloat(s.Labels["xid"], 64)
			for _, p := range s.Points {
				if err == nil && p.Value > 0 {
					add(p.At, !p.At.After(e.From), code)
					break
				}
			}
		}
	}
	slices.SortStableFunc(g.Events, func(a, b gpu.Event) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Data, b.Data))
	})
	g.Events = slices.CompactFunc(g.Events, func(a, b gpu.Event) bool { return a.Data == b.Data })
}

// eventsSince returns since when the XID series have a point at every step, up to
// a point after since; zero: not at all. While the gauge shows an XID that
// matters, a repetition of it would be invisible.
func (d *device) eventsSince(since time.Time) time.Time {
	at, hides := map[int64]bool{}, map[int64]bool{}
	newest := time.Time{}
	for _, s := range d.series {
		if s.Name != XIDGauge && s.Name != xidCounts {
			continue
		}
		for _, p := range s.Points {
			at[p.At.Unix()] = true
			if s.Name == XIDGauge && !(p.Value >= 0 && p.Value < 1<<52 && gpu.HarmlessXID(uint64(p.Value))) { // NaN too
				hides[p.At.Unix()] = true
			}
			if p.At.After(newest) {
				newest = p.At
			}
		}
	}
	if newest.IsZero() || newest.Before(since) || hides[newest.Unix()] {
		return time.Time{}
	}
	for {
		before := newest.Add(-Step)
		if !at[before.Unix()] || hides[before.Unix()] {
			break
		}
		newest = before
	}
	return newest.UTC()
}

// pods sets which pods hold the GPU, if the exporter maps GPUs to pods. Prometheus
// prefixes labels that its targets already have with exported_.
func (d *device) pods(g *gpu.GPU) {
	newest := time.Time{}
	for _, s := range d.series {
		if at := last(s).At; at.After(newest) {
			newest = at
		}
	}
	var pods []gpu.Pod
	for _, s := range d.series {
		p := gpu.Pod{
			Namespace: cmp.Or(s.Labels["exported_namespace"], s.Labels["namespace"]),
			Name:      cmp.Or(s.Labels["exported_pod"], s.Labels["pod"]),
			Container: cmp.Or(s.Labels["exported_container"], s.Labels["container"]),
		}
		if p.Container == "" || p.Name == "" || last(s).At.Before(newest) || slices.Contains(pods, p) || len(pods) >= gpu.MaxPods {
			continue
		}
		pods = append(pods, p)
	}
	if len(pods) > 0 && d.exported() {
		g.Pods = gpu.Known(pods)
	}
}

// exported reports whether the pod labels name the pod that holds the GPU. Without
// the prefix exported_ they may be the exporter's own.
func (d *device) exported() bool {
	return slices.ContainsFunc(d.series, func(s Series) bool { return s.Labels["exported_pod"] != "" })
}

// exclude marks every reading that the exporter never exported or no longer
// exports.
func exclude(g *gpu.GPU, ended gpu.GPU) {
	gone := map[string]bool{}
	gpu.EachReading(reflect.ValueOf(ended), func(name string, v reflect.Value) {
		r, ok := v.Interface().(interface{ IsZero() bool })
		gone[name] = ok && !r.IsZero()
	})
	gpu.EachReading(reflect.ValueOf(g).Elem(), func(name string, v reflect.Value) {
		r, ok := v.Addr().Interface().(interface{ MarkAbsent(why gpu.Absence) })
		switch {
		case ok && gone[name]:
			r.MarkAbsent(gpu.Stale)
		case ok:
			r.MarkAbsent(gpu.NotExported)
		}
	})
}

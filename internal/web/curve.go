package web

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Curve is the burn rate of the objective that a run is about, over time.
type Curve struct {
	Objective string  // its name
	Wanted    float64 // share of good requests that is wanted
	From, To  time.Time
	Began     time.Time     // when the breach began; zero: unknown
	Every     time.Duration // between two points; longer distances are gaps
	Lines     []CurveLine   // at most two: the short window, then the long one
}

// CurveLine is the burn rate over one window.
type CurveLine struct {
	Window string // its length, e.g. 5m
	Points []CurvePoint
}

// CurvePoint is one value. NaN and infinite values are gaps.
type CurvePoint struct {
	At   time.Time
	Burn float64
}

// curveOf asks for the curve of a run. why says why there is none.
func (s *Site) curveOf(ctx context.Context, run machine.State) (curve *Curve, why string) {
	if s.o.Curve == nil {
		return nil, ""
	}
	c, err := s.o.Curve(ctx, run)
	switch {
	case err != nil:
		return nil, err.Error()
	case !c.drawable():
		return nil, "Prometheus has no values of this time"
	}
	return &c, ""
}

// drawable reports whether there is at least one value within the time shown.
func (c Curve) drawable() bool {
	if !c.To.After(c.From) {
		return false
	}
	return slices.ContainsFunc(c.Lines, func(l CurveLine) bool { return len(l.stretches(c)) > 0 })
}

// stretches splits the line into those without gaps, within the time shown.
func (l CurveLine) stretches(c Curve) [][]CurvePoint {
	var out [][]CurvePoint
	var last time.Time
	for _, p := range l.Points {
		if math.IsNaN(p.Burn) || math.IsInf(p.Burn, 0) || p.At.Before(c.From) || p.At.After(c.To) {
			last = time.Time{}
			continue
		}
		if last.IsZero() || p.At.Sub(last) > c.Every*3/2 {
			out = append(out, nil)
		}
		n := len(out) - 1
		out[n], last = append(out[n], p), p.At
	}
	return out
}

// scale maps time to hundredths of the width of a chart and burn rates to its height, on
// a logarithmic scale.
type scale struct {
	from   time.Time
	span   time.Duration
	top    float64 // decade, e.g. 2 for 100
	height float64
}

// leastBurn is the bottom of the chart: a burn rate that is as good as none. Lower ones,
// zero among them, are drawn there.
const (
	leastBurn   = 0.1
	leastDecade = -1
)

func scaleOf(c Curve, height float64) scale {
	s := scale{from: c.From, span: c.To.Sub(c.From), top: 1, height: height}
	for _, l := range c.Lines {
		for _, run := range l.stretches(c) {
			for _, p := range run {
				if p.Burn > leastBurn {
					s.top = max(s.top, math.Ceil(math.Log10(p.Burn)))
				}
			}
		}
	}
	return s
}

// x returns the place of a moment, between 0 and 100.
func (s scale) x(at time.Time) float64 {
	return min(100, max(0, 100*float64(at.Sub(s.from))/float64(s.span)))
}

// y returns the distance of a burn rate from the top.
func (s scale) y(burn float64) float64 {
	v := float64(leastDecade)
	if burn > leastBurn {
		v = min(s.top, math.Log10(burn))
	}
	return s.height * (s.top - v) / (s.top - leastDecade)
}

// ticks returns the moments to label: whole steps of the clock, at most about six.
func (s scale) ticks() []time.Time {
	steps := []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
	i := slices.IndexFunc(steps, func(d time.Duration) bool { return s.span/d <= 5 })
	step := 24 * time.Hour * (1 + s.span/(5*24*time.Hour))
	if i >= 0 {
		step = steps[i]
	}
	var out []time.Time
	for at := s.from.Truncate(step).Add(step); at.Before(s.from.Add(s.span)); at = at.Add(step) {
		out = append(out, at)
	}
	return out
}

// mark is a moment of the run in the chart.
type mark struct {
	At   time.Time
	Name string
	Tone string
	Row  int // of its label, from 0
}

// maxMarks bounds the marks: those of the newest changes are kept, and the first, the alert.
const maxMarks = 12

// marksOf returns the moments of a run that are worth marking, in order, with the rows of
// their labels.
func marksOf(d *runData, c Curve, s scale) []mark {
	var out []mark
	add := func(at time.Time, name, tone string) {
		if !at.IsZero() && !at.Before(c.From) && !at.After(c.To) {
			out = append(out, mark{At: at, Name: name, Tone: tone})
		}
	}
	for _, x := range d.Changes {
		add(x.Applied, x.appliedWord(), toneBusy)
		add(x.Settled, "in effect", toneBusy)
		add(x.Judged, x.Verdict, x.Tone)
		add(x.Undone, x.undoneWord(), toneWait)
	}
	out = out[max(0, len(out)-maxMarks):]
	add(c.Began, "breach", toneBad)
	if !d.Run.Start.ByHand() {
		add(d.Run.Start.Alert.StartsAt, "alert", toneBad)
	}
	slices.SortStableFunc(out, func(a, b mark) int { return a.At.Compare(b.At) })
	stagger(out, s)
	return out
}

// letter is the share of a phone's width that one letter of a label takes, in percent.
const letter = 2.1

// stagger puts each label in the first row where it covers no other.
func stagger(marks []mark, s scale) {
	var ends []float64
	for i := range marks {
		m := &marks[i]
		left, right := labelSpan(*m, s)
		m.Row = slices.IndexFunc(ends, func(end float64) bool { return end < left })
		if m.Row < 0 {
			m.Row = len(ends)
			ends = append(ends, 0)
		}
		ends[m.Row] = right + letter
	}
}

// labelSpan returns where a label begins and ends. It is right of its line, and left of it
// where there is no room.
func labelSpan(m mark, s scale) (left, right float64) {
	width := letter * float64(len([]rune(m.Name))+1)
	x := s.x(m.At)
	if x+width > 100 {
		return x - width, x
	}
	return x, x + width
}

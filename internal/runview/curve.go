package runview

import (
	"fmt"
	"math"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// curveWidth is how many samples a chart shows; more are thinned out.
const curveWidth = 48

// Curves draws the readings of a proof over time, one line each: a bar per
// sample, scaled from 0 to the largest value or the limit, a dot where there
// was no value; then the last value against its limit. A reading that is fine
// now is marked ok.
func Curves(samples []machine.Sample) []string {
	if len(samples) == 0 {
		return nil
	}
	var names []string
	byName := map[string][]machine.Reading{}
	for _, s := range samples {
		for _, v := range s.Values {
			if _, seen := byName[v.Name]; !seen {
				names = append(names, v.Name)
			}
			byName[v.Name] = append(byName[v.Name], v)
		}
	}
	var lines []string
	for _, name := range names {
		readings := byName[name]
		last := readings[len(readings)-1]
		mark := "ok"
		if !last.OK {
			mark = "no"
		}
		lines = append(lines,
			Cut(Cell(name), 76),
			fmt.Sprintf("  %s  %s %s %s %s", bars(readings), readingValue(last), last.Op, playbook.Quantity(last.Limit, last.Unit), mark))
	}
	return lines
}

func bars(readings []machine.Reading) string {
	top := 0.0
	for _, v := range readings {
		top = max(top, finite(v.Limit))
		if v.Value != nil {
			top = max(top, finite(*v.Value))
		}
	}
	step := max(1, (len(readings)+curveWidth-1)/curveWidth)
	var b strings.Builder
	for i := 0; i < len(readings); i += step {
		b.WriteRune(bar(readings[min(i+step, len(readings))-1].Value, top))
	}
	return b.String()
}

func bar(v *float64, top float64) rune {
	const levels = "▁▂▃▄▅▆▇█"
	if v == nil || math.IsNaN(*v) {
		return '·'
	}
	runes := []rune(levels)
	if top <= 0 || *v <= 0 {
		return runes[0]
	}
	return runes[min(int(*v/top*float64(len(runes))), len(runes)-1)]
}

// finite is v, or 0 where v would spoil the scale.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

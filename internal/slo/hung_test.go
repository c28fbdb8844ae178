package slo

import (
	"math"
	"testing"
)

// What is in flight beyond what finishes counts, unless it always was so, or chance
// or a long duration explains it.
func TestHanging(t *testing.T) {
	type look struct{ flight, busy, done float64 }
	none := look{math.NaN(), math.NaN(), math.NaN()}
	for name, c := range map[string]struct {
		now, hour, six look
		want           float64
		known          bool
	}{
		"one in six hangs":             {look{250, 100, 14}, look{29, 33, 5}, look{29, 33, 5}, 150, true},
		"since more than an hour":      {look{250, 100, 14}, look{250, 100, 14}, look{30, 30, 5}, 150, true},
		"as always: clients leave":     {look{100, 40, 8}, none, look{50, 20, 4}, 0, true},
		"more leave than always":       {look{100, 20, 8}, none, look{50, 30, 4}, 40, true},
		"no earlier time to compare":   {look{250, 100, 14}, none, none, 0, false},
		"everything finishes":          {look{100, 95, 14}, look{50, 50, 7}, none, 0, true},
		"few requests":                 {look{4, 1, 0.05}, look{4, 4, 0.1}, none, 0, true},
		"they take minutes":            {look{250, 100, 1}, look{250, 250, 1}, none, 0, false},
		"nothing finishes, or is read": {look{250, 0, 0}, look{29, 33, 5}, none, 0, false},
	} {
		a := answered{parts: map[key][]Sample{}}
		for k, l := range []look{c.now, c.hour, c.six} {
			for part, v := range map[string]float64{partFlight: l.flight, partBusy: l.busy, partDone: l.done} {
				if !math.IsNaN(v) {
					a.parts[key{-3, 0, k, part}] = []Sample{{Value: v}}
				}
			}
		}
		if got, known := a.hanging(1); known != c.known || math.Abs(got-c.want) > 1 {
			t.Errorf("%s: %.1f (known: %t), want %.0f (%t)", name, got, known, c.want, c.known)
		}
	}
}

package slo

import (
	"math"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// TestFactor holds the published figures: the Workbook's for 30 days, Sloth's
// for 28.
func TestFactor(t *testing.T) {
	want := map[time.Duration][]float64{
		30 * day: {14.4, 6, 3, 1},
		28 * day: {13.44, 5.6, 2.8, 0.9333},
	}
	for period, factors := range want {
		for i, w := range Windows() {
			if got := w.Factor(period); math.Abs(got-factors[i]) > 1e-3 {
				t.Errorf("%v over %v: factor %.4f, want %.4f", w.Long, period, got, factors[i])
			}
			if w.Short*12 != w.Long {
				t.Errorf("short window %v is not a twelfth of %v", w.Short, w.Long)
			}
		}
	}
}

func TestWindowCheck(t *testing.T) {
	page := Windows()[0]
	tests := []struct {
		objective float64
		period    time.Duration
		want      string
	}{
		{0.99, 30 * day, ""},
		{0.93, 30 * day, "cannot be"}, // 14.4 x 0.07 > 1
		{0.95, 30 * day, ""},
		{1, 30 * day, "between 0 and 1"},
		{math.NaN(), 30 * day, "between 0 and 1"},
		{0.99, time.Minute, "shorter than"},
	}
	for _, tt := range tests {
		err := page.Check(tt.objective, tt.period)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("objective %v over %v: %v, want %q", tt.objective, tt.period, err, tt.want)
		}
	}
}

func TestBurnRate(t *testing.T) {
	if got := BurnRate(0.144, 0.99); math.Abs(got-14.4) > 1e-9 {
		t.Errorf("burn %v, want 14.4", got)
	}
	if got := BurnRate(0.1, 1); !math.IsNaN(got) {
		t.Errorf("burn %v of a budget of nothing, want NaN", got)
	}
}

func TestSince(t *testing.T) {
	for elapsed, want := range map[time.Duration]string{
		0: "rate(x[60s])", -time.Hour: "rate(x[60s])", 59 * time.Second: "rate(x[60s])",
		2*time.Minute + 900*time.Millisecond: "rate(x[120s])", 26 * time.Hour: "rate(x[93600s])",
	} {
		if got := Since("rate(x[${since}])", t0, t0.Add(elapsed), 15*time.Second); got != want {
			t.Errorf("%v after the fix: %s, want %s", elapsed, got, want)
		}
	}
}

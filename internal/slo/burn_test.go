package slo

import (
	"math"
	"testing"
	"time"
)

func TestBurnRate(t *testing.T) {
	if got := BurnRate(0.144, 0.99); math.Abs(got-14.4) > 1e-9 {
		t.Errorf("burn %v, want 14.4", got)
	}
	if got := BurnRate(0.1, 1); !math.IsNaN(got) {
		t.Errorf("burn %v of a budget of nothing, want NaN", got)
	}
}

func TestAlertFactor(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		long, period time.Duration
		want         float64
	}{
		{time.Hour, 30 * day, 14.4},
		{6 * time.Hour, 30 * day, 6},
		{day, 30 * day, 3},
		{3 * day, 30 * day, 1},
		{time.Hour, 28 * day, 13.44},
		{6 * time.Hour, 28 * day, 5.6},
		{2 * time.Hour, 28 * day, 0},
		{time.Hour, 0, 0},
	} {
		if got := AlertFactor(tt.long, tt.period); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v of %v: %v, want %v", tt.long, tt.period, got, tt.want)
		}
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

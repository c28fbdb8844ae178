package slo

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/fault"
)

var t0 = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func proof() Proof {
	return Proof{
		Until:    []Target{{Name: "ttft", Op: "<", Limit: 0.5}},
		Burn:     &BurnTarget{Objective: 0.99, Max: 1},
		Traffic:  &TrafficTarget{MinRate: 0.1, Share: 0.5, Before: 10},
		Hold:     5 * time.Minute,
		Interval: 15 * time.Second,
		FixedAt:  t0,
		Deadline: t0.Add(15 * time.Minute),
	}
}

func good() Readings {
	return Readings{
		Until:      []Reading{{Value: 0.2}},
		ErrorRatio: Reading{Value: 0.005},
		Traffic:    Reading{Value: 9},
	}
}

func TestJudge(t *testing.T) {
	at := t0.Add(6 * time.Minute)
	held := func(p *Proof) { p.HeldFrom, p.LastAt = t0.Add(time.Minute), at.Add(-15*time.Second) }
	tests := []struct {
		name   string
		change func(p *Proof, r *Readings)
		want   Verdict
		reason fault.Reason
		text   string
	}{
		{"first good sample starts the hold", func(*Proof, *Readings) {}, Recovering, "", "holds now, and has to hold for 5m0s"},
		{"held long enough", func(p *Proof, _ *Readings) { held(p) }, Verified, "", "held for 5m0s"},
		{"held a second too short", func(p *Proof, _ *Readings) { held(p); p.HeldFrom = p.HeldFrom.Add(time.Second) }, Recovering, "", ""},
		{"nobody looked for a minute", func(p *Proof, _ *Readings) { held(p); p.LastAt = at.Add(-time.Minute) }, Recovering, "", "holds now"},
		{"clock went back", func(p *Proof, _ *Readings) { p.HeldFrom, p.LastAt = at.Add(time.Hour), at.Add(time.Hour) }, Recovering, "", "holds now"},
		{"held before the fix does not count", func(p *Proof, _ *Readings) {
			held(p)
			p.HeldFrom = t0.Add(-time.Hour)
			p.FixedAt = t0.Add(2 * time.Minute)
		}, Recovering, "", "holds for 4m0s"},
		{"target missed", func(p *Proof, r *Readings) { held(p); r.Until[0].Value = 0.7 }, Watching, fault.NotMet, "ttft is 0.7, wanted < 0.5"},
		{"at the limit is not below it", func(p *Proof, r *Readings) { held(p); r.Until[0].Value = 0.5 }, Watching, fault.NotMet, ""},
		{"budget burns since the fix", func(p *Proof, r *Readings) { held(p); r.ErrorRatio.Value = 0.02 }, Watching, fault.Burning, "burn is 2, wanted < 1"},
		{"hold no longer fits", func(p *Proof, r *Readings) { p.Deadline = at.Add(time.Minute); r.Until[0].Value = 0.7 }, Failed, fault.NotMet, "no longer can"},
		{"recovering is never failed early", func(p *Proof, _ *Readings) { p.Deadline = at.Add(time.Minute) }, Recovering, "", ""},
		{"nan", func(p *Proof, r *Readings) { held(p); r.Until[0].Value = math.NaN() }, Inconclusive, fault.NotANumber, "not a finite number"},
		{"infinite", func(p *Proof, r *Readings) { held(p); r.Until[0].Value = math.Inf(-1) }, Inconclusive, fault.NotANumber, ""},
		{"no series", func(p *Proof, r *Readings) { held(p); r.Until[0].Reason = fault.NoData }, Inconclusive, fault.NoData, "missing is not zero"},
		{"stale", func(p *Proof, r *Readings) { held(p); r.ErrorRatio.Reason = fault.Stale }, Inconclusive, fault.Stale, ""},
		{"gap wins over a missed target", func(_ *Proof, r *Readings) { r.Until[0].Value = 0.7; r.ErrorRatio.Reason = fault.Unreachable }, Inconclusive, fault.Unreachable, ""},
		{"traffic left", func(p *Proof, r *Readings) { held(p); r.Traffic.Value = 4 }, Inconclusive, fault.NoTraffic, "at least 5 are needed"},
		{"too little traffic at all", func(p *Proof, r *Readings) { p.Traffic.Before = 0; r.Traffic.Value = 0.05 }, Inconclusive, fault.NoTraffic, ""},
		{"no traffic before, some now", func(p *Proof, _ *Readings) { held(p); p.Traffic.Before = 0 }, Verified, "", ""},
		{"traffic before not known", func(p *Proof, _ *Readings) { held(p); p.Traffic.Before = -1 }, Inconclusive, fault.NoTraffic, "before the change is not known"},
		{"traffic not asked", func(p *Proof, r *Readings) { held(p); p.Traffic = nil; r.Traffic = Reading{Reason: fault.NoData} }, Verified, "", ""},
		{"unknown comparison", func(p *Proof, _ *Readings) { p.Until[0].Op = "!=" }, Inconclusive, fault.Invalid, "is not one of"},
		{"nothing asked", func(p *Proof, r *Readings) { p.Until, p.Burn, r.Until = nil, nil, nil }, Inconclusive, fault.Invalid, "asks nothing"},
		{"no hold", func(p *Proof, _ *Readings) { p.Hold = 0 }, Inconclusive, fault.Invalid, ""},
		{"objective of one", func(p *Proof, _ *Readings) { p.Burn.Objective = 1 }, Inconclusive, fault.Invalid, ""},
		{"readings missing", func(_ *Proof, r *Readings) { r.Until = nil }, Inconclusive, fault.Invalid, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, r := proof(), good()
			tt.change(&p, &r)
			j := Judge(p, r, at)
			if j.Verdict != tt.want || j.Reason != tt.reason || !strings.Contains(j.Message, tt.text) {
				t.Errorf("got %s %q %q, want %s %q ...%q...", j.Verdict, j.Reason, j.Message, tt.want, tt.reason, tt.text)
			}
			if holds := j.Verdict == Verified || j.Verdict == Recovering; holds == j.HeldFrom.IsZero() {
				t.Errorf("%s with HeldFrom %v", j.Verdict, j.HeldFrom)
			}
		})
	}
}

// anyReading draws readings that are good, bad, missing or not numbers.
func anyReading(t *rapid.T, label string) Reading {
	return rapid.SampledFrom([]Reading{
		{Value: 0},
		{Value: 0.001},
		{Value: 0.4},
		{Value: 8},
		{Value: 100},
		{Value: -1},
		{Value: math.NaN()},
		{Value: math.Inf(1)},
		{Value: math.Inf(-1)},
		{Reason: fault.NoData},
		{Reason: fault.Stale},
		{Reason: fault.Unreachable},
		{Value: 0.1, Reason: fault.Timeout},
	}).Draw(t, label)
}

// TestJudgeNeverVerifiesWithoutProof walks random samples the way a run does
// and keeps its own account of since when everything was really there.
func TestJudgeNeverVerifiesWithoutProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := proof()
		p.Traffic.Before = rapid.SampledFrom([]float64{-1, 0, 5, 1000, math.NaN()}).Draw(t, "before")
		now := t0
		var since time.Time // our own account
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			gap := rapid.SampledFrom([]time.Duration{15 * time.Second, 45 * time.Second, 46 * time.Second, 10 * time.Minute}).Draw(t, "gap")
			now = now.Add(gap)
			r := good()
			if rapid.IntRange(0, 9).Draw(t, "disturb") == 0 {
				r = Readings{Until: []Reading{anyReading(t, "until")}, ErrorRatio: anyReading(t, "errors"), Traffic: anyReading(t, "traffic")}
			}
			j := Judge(p, r, now)
			ok := fine(p, r)
			switch {
			case !ok:
				since = time.Time{}
			case since.IsZero() || gap > 45*time.Second:
				since = now
			}
			if j.Verdict == Verified && (!ok || now.Sub(since) < p.Hold) {
				t.Fatalf("verified after %v with %+v", now.Sub(since), r)
			}
			if ok && now.Sub(since) >= p.Hold && j.Verdict != Verified {
				t.Fatalf("not verified although held for %v: %+v", now.Sub(since), j)
			}
			if !j.HeldFrom.Equal(since) {
				t.Fatalf("held from %v, want %v", j.HeldFrom, since)
			}
			p.HeldFrom, p.LastAt = j.HeldFrom, now
		}
	})
}

// fine is the property in other words than Judge's.
func fine(p Proof, r Readings) bool {
	for _, x := range []Reading{r.Until[0], r.ErrorRatio, r.Traffic} {
		if x.Reason != "" || math.IsNaN(x.Value) || math.IsInf(x.Value, 0) {
			return false
		}
	}
	return p.Traffic.Before >= 0 && r.Traffic.Value >= p.Traffic.MinRate && r.Traffic.Value >= p.Traffic.Before/2 &&
		r.Until[0].Value < 0.5 && r.ErrorRatio.Value/(1-0.99) < 1
}

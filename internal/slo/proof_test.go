package slo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/fault"
)

func TestDecide(t *testing.T) {
	before := &Counts{Bad: 500, Total: 2000} // 25 %
	tests := []struct {
		name string
		test Test
		want Verdict
		text string
	}{
		{"good again", Test{Factor: 14.4, Before: before, Now: Counts{7.4, 1830}, Bad: "slow"}, Verified, "0.404 % of 1,830 requests were slow, at most 1 % may be; before 25 %"},
		{"exactly the objective", Test{Factor: 14.4, Now: Counts{18, 1800}}, Verified, "1 % of 1,800"},
		{"too few before the deadline", Test{Factor: 14.4, Before: before, Now: Counts{0, 20}}, Watching, "too few to decide"},
		{"too few at the deadline", Test{Factor: 14.4, Before: before, Now: Counts{0, 20}, Final: true}, Inconclusive, "too few to decide"},
		{"nothing finished", Test{Factor: 14.4, Before: before, Final: true}, Inconclusive, "no requests finished"},
		{"not numbers", Test{Now: Counts{math.NaN(), 100}, Final: true}, Inconclusive, "not numbers"},
		{"infinite", Test{Now: Counts{1, math.Inf(1)}, Final: true}, Inconclusive, ""},
		{"better before the deadline", Test{Factor: 14.4, Before: before, Now: Counts{311, 1830}}, Watching, "17 % of"},
		{"better at the deadline", Test{Factor: 14.4, Before: before, Now: Counts{311, 1830}, Final: true}, Improved, "better, not yet good"},
		{"as before", Test{Factor: 14.4, Before: before, Now: Counts{450, 1830}, Final: true}, NoEffect, "not measurably better"},
		{"twice as bad", Test{Factor: 14.4, Before: before, Now: Counts{900, 1830}}, Worse, ": worse"},
		{"twice as bad while a queue drains", Test{Factor: 14.4, Before: before, Now: Counts{900, 1830}, Falling: true}, Watching, ""},
		{"twice as bad at the end of a drain", Test{Factor: 14.4, Before: before, Now: Counts{900, 1830}, Falling: true, Final: true}, Worse, ""},
		{"all bad before, all bad now", Test{Factor: 14.4, Before: &Counts{970, 1000}, Now: Counts{1000, 1000}, Final: true}, NoEffect, ""},
		{"three times as bad, within the objective", Test{Factor: 14.4, Before: &Counts{10, 10000}, Now: Counts{30, 10000}}, Verified, ""},
		{"before unknown", Test{Factor: 14.4, Now: Counts{450, 1830}, Final: true}, Inconclusive, "before is not known"},
		{"between the objective and the alert", Test{Factor: 14.4, Before: before, Now: Counts{400, 20000}, Final: true}, Improved, ""},
		{"factor unknown is not 14.4", Test{Now: Counts{6, 600}}, Watching, "too few to decide"},
		{"more bad than all", Test{Factor: 14.4, Before: before, Now: Counts{1835, 1830}}, Worse, "100 % of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.test.Objective = 0.99
			d := tt.test.Decide()
			if d.Verdict != tt.want || !strings.Contains(d.Text, tt.text) {
				t.Errorf("%s: %q, want %s: %q", d.Verdict, d.Text, tt.want, tt.text)
			}
			if (d.Reason == "") != (d.Verdict == Verified) {
				t.Errorf("%s with reason %q", d.Verdict, d.Reason)
			}
		})
	}
	if d := (Test{Objective: 1, Now: Counts{0, 100}}).Decide(); d.Verdict != Inconclusive || d.Reason != fault.Invalid {
		t.Errorf("an objective of 100 %%: %+v", d)
	}
}

func TestCombine(t *testing.T) {
	for _, tt := range []struct {
		all  []Verdict
		want Verdict
	}{
		{nil, Inconclusive},
		{[]Verdict{Verified, Verified}, Verified},
		{[]Verdict{Verified, Watching}, Watching},
		{[]Verdict{Verified, Watching, Worse}, Worse},
		{[]Verdict{Verified, Inconclusive}, Inconclusive},
		{[]Verdict{Improved, NoEffect, Inconclusive}, Inconclusive},
		{[]Verdict{Improved, NoEffect}, Improved},
		{[]Verdict{Verified, NoEffect}, NoEffect},
		{[]Verdict{Verified, "unheard of"}, Inconclusive},
	} {
		var all []Decision
		for _, v := range tt.all {
			all = append(all, Decision{Verdict: v})
		}
		if got := Combine(all); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.all, got, tt.want)
		}
	}
}

// TestCombineWeighs: a change that repairs much is not worse because something smaller
// appears beside it.
func TestCombineWeighs(t *testing.T) {
	look := func(before, now float64) Decision {
		return Test{Objective: 0.99, Factor: 14.4, Before: &Counts{before * 10, 1000}, Now: Counts{now * 10, 1000}, Final: true}.Decide()
	}
	for name, tt := range map[string]struct {
		all  []Decision
		want Verdict
	}{
		"first tokens are repaired, later ones got slow": {[]Decision{look(93, 20), look(0, 23)}, Improved},
		"one is repaired for good, another got slow":     {[]Decision{look(93, 0), look(0, 23)}, Improved},
		"one is repaired, another got as slow":           {[]Decision{look(30, 0), look(0, 60)}, Worse},
		"one is a little better, another got slow":       {[]Decision{look(30, 25), look(0, 29)}, Worse},
		"one got slow, the other is as it was":           {[]Decision{look(93, 93), look(0, 23)}, Worse},
		"one was within its objective all the time":      {[]Decision{look(0.9, 0), look(0, 23)}, Worse},
		"one is repaired, another is as it was":          {[]Decision{look(93, 0), look(22, 22)}, Improved},
		"one was always well, another is as it was":      {[]Decision{look(0, 0), look(22, 22)}, NoEffect},
	} {
		if got := Combine(tt.all); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestTails compares with sums of the binomial distribution's terms.
func TestTails(t *testing.T) {
	for _, n := range []int{1, 7, 90, 1800, 40_000} {
		for _, p := range []float64{0.002, 0.01, 0.072, 0.5, 0.93} {
			mean, sd := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
			for _, z := range []float64{-4, -1, 0, 2, 4} {
				k := max(0, min(float64(n), math.Round(mean+z*sd)))
				lower := 0.0
				for i := 0.0; i <= k; i++ {
					a, _ := math.Lgamma(float64(n) + 1)
					b, _ := math.Lgamma(i + 1)
					c, _ := math.Lgamma(float64(n) - i + 1)
					lower += math.Exp(a - b - c + i*math.Log(p) + (float64(n)-i)*math.Log1p(-p))
				}
				if got := lowerTail(k, float64(n), p); math.Abs(got-lower) > 1e-7 {
					t.Errorf("P(X <= %v), n %d, p %v: %v, want %v", k, n, p, got, lower)
				}
				if got := upperTail(k+1, float64(n), p); math.Abs(got-(1-lower)) > 1e-7 {
					t.Errorf("P(X >= %v), n %d, p %v: %v, want %v", k+1, n, p, got, 1-lower)
				}
			}
		}
	}
}

// TestMoreBadNeverVerifies: no other verdict becomes verified by more bad requests.
func TestMoreBadNeverVerifies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Float64Range(0, 50_000).Draw(t, "total")
		test := Test{
			Objective: rapid.Float64Range(0.5, 0.9999).Draw(t, "objective"),
			Factor:    rapid.SampledFrom([]float64{0, 1, 3, 5.6, 6, 14.4}).Draw(t, "factor"),
			Now:       Counts{rapid.Float64Range(0, total).Draw(t, "bad"), total},
			Final:     rapid.Bool().Draw(t, "final"),
		}
		if rapid.Bool().Draw(t, "known before") {
			test.Before = &Counts{rapid.Float64Range(0, total).Draw(t, "bad before"), total}
		}
		fewer := test.Decide()
		test.Now.Bad += rapid.Float64Range(0, total).Draw(t, "more")
		if more := test.Decide(); more.Verdict == Verified && fewer.Verdict != Verified {
			t.Fatalf("%v of %v: %s, yet fewer were %s", test.Now.Bad, test.Now.Total, more.Text, fewer.Text)
		}
	})
}

func TestWindow(t *testing.T) {
	const hold = 3 * time.Minute
	test := func(total float64) Test { return Test{Objective: 0.99, Factor: 14.4, Now: Counts{0, total}} }
	for _, tt := range []struct {
		total    float64
		inEffect time.Duration
		want     time.Duration
	}{
		{1800, 20 * time.Minute, hold},                          // enough
		{1800, time.Minute, hold},                               // the look waits
		{0, 20 * time.Minute, 20 * time.Minute},                 // nothing: all of it
		{90, 10 * time.Minute, 10 * time.Minute},                // 0.5/s
		{210, 20 * time.Minute, 5*time.Minute + 42*time.Second}, // 1.2/s
	} {
		got := test(tt.total).Window(hold, hold, tt.inEffect)
		if math.Abs(float64(got-tt.want)) > float64(15*time.Second) {
			t.Errorf("%v requests in %v, in effect for %v: %v, want about %v", tt.total, hold, tt.inEffect, got, tt.want)
		}
	}
}

// trial simulates one whole proof: requests arrive at a rate and are bad at a
// true share, before the change and after it; looks are taken every 15 s and
// their windows overlap, as in a real proof.
type trial struct {
	rate, before, after float64
	factor              float64
}

const (
	trialInterval = 15 * time.Second
	trialHold     = 3 * time.Minute
	trialWithin   = 20 * time.Minute
)

func (x trial) run(r *rand.Rand) Verdict {
	steps := int(trialWithin / trialInterval)
	before, after := x.draw(r, x.before, steps), x.draw(r, x.after, steps)
	window := trialHold
	for at := int(trialHold / trialInterval); at <= steps; at++ {
		inEffect := time.Duration(at) * trialInterval
		back := min(at, int((window+trialInterval-1)/trialInterval))
		test := Test{
			Objective: 0.99, Factor: x.factor, Final: at == steps, Looks: steps,
			Before: &before[back],
			Now:    Counts{after[at].Bad - after[at-back].Bad, after[at].Total - after[at-back].Total},
		}
		if v := test.Decide().Verdict; v != Watching {
			return v
		}
		window = test.Window(trialHold, time.Duration(back)*trialInterval, inEffect+trialInterval)
	}
	return "no verdict at the deadline"
}

// draw returns running sums of the requests of each interval. Bad and good
// requests of Poisson arrivals are Poisson themselves.
func (x trial) draw(r *rand.Rand, share float64, steps int) []Counts {
	n := x.rate * trialInterval.Seconds()
	bad, good := newPoisson(n*share), newPoisson(n*(1-share))
	sums := make([]Counts, steps+1)
	for i := range steps {
		b := bad.draw(r)
		sums[i+1] = Counts{sums[i].Bad + b, sums[i].Total + b + good.draw(r)}
	}
	return sums
}

// poisson is the distribution function at 0, 1, 2, ...
type poisson []float64

var poissons = map[float64]poisson{}

func newPoisson(mean float64) poisson {
	if p, ok := poissons[mean]; ok {
		return p
	}
	var p poisson
	for k, sum := 0.0, 0.0; sum < 1-1e-12 && k < mean+20*math.Sqrt(mean)+20; k++ {
		lg, _ := math.Lgamma(k + 1)
		sum += math.Exp(k*math.Log(mean) - mean - lg)
		p = append(p, sum)
	}
	poissons[mean] = p
	return p
}

func (p poisson) draw(r *rand.Rand) float64 {
	return float64(sort.SearchFloat64s(p, r.Float64()))
}

// TestCalibration asserts the error rates of whole proofs. Each trial draws
// requests at true shares and takes all looks of a proof; the objective is 99 %.
func TestCalibration(t *testing.T) {
	const trials = 1000
	rates := []float64{0.5, 5, 50} // requests per second: low, medium and high traffic
	for _, factor := range []float64{14.4, 6} {
		half, full := factor/2*0.01, factor*0.01
		cases := []struct {
			before, after float64
			never         []Verdict // each in fewer than 1 of 100
			want          Verdict   // in more than 99 of 100 with enough requests, in more than 85 if it is a comparison
		}{
			{full, 0.002, []Verdict{NoEffect, Worse, Improved}, Verified},
			{full, 0.008, []Verdict{NoEffect, Worse, Improved}, Verified},
			{full, 0.01, []Verdict{NoEffect, Worse, Improved}, Verified},
			{0.008, 0.008, []Verdict{NoEffect, Worse, Improved}, Verified}, // nothing was wrong
			{full, half, []Verdict{Verified, Worse}, Improved},
			{half, half, []Verdict{Verified, Worse, Improved}, NoEffect},
			{full, full, []Verdict{Verified, Worse, Improved}, NoEffect},
			{0.25, 0.25, []Verdict{Verified, Worse, Improved}, NoEffect},
			{0.25, 0.17, []Verdict{Verified, Worse}, Improved},
			{0.25, 0.6, []Verdict{Verified, Improved, NoEffect}, Worse},
			{0.008, half, []Verdict{Verified, Improved}, Worse},
		}
		for i, c := range cases {
			for _, rate := range rates {
				name := fmt.Sprintf("factor %v, %.2g%% to %.2g%%, %v requests/s", factor, 100*c.before, 100*c.after, rate)
				r := rand.New(rand.NewPCG(uint64(i), uint64(1000*factor+10*rate)))
				said := map[Verdict]float64{}
				for range trials {
					said[trial{rate, c.before, c.after, factor}.run(r)] += 1.0 / trials
				}
				for _, v := range c.never {
					most := 0.01
					if v == Improved {
						most = 0.015 // its error is 0.5 % of one look: three standard errors of the trials above that
					}
					if said[v] >= most {
						t.Errorf("%s: %s in %.2f %% of proofs, wanted under %v: %v", name, v, 100*said[v], most, said)
					}
				}
				least := 0.85
				if c.want == Verified {
					least = 0.99
				}
				if enough := rate >= 5 || factor > 10 && c.want == Verified; enough && said[c.want] <= least {
					t.Errorf("%s: %s in %.2f %% of proofs, wanted over %v: %v", name, c.want, 100*said[c.want], least, said)
				}
				if left := said["no verdict at the deadline"]; left > 0 {
					t.Errorf("%s: no verdict at the deadline in %.2f %% of proofs", name, 100*left)
				}
				t.Logf("%s: %.3v", name, said)
			}
		}
	}
}

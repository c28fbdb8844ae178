package sandbox

import (
	"math"
	"time"
)

// patience is how many seconds a client waits for the first token. A request that
// is given up leaves no sample, as in the real engine.
const patience = 2.5

// engine is the serving engine of one pod: a queue before a prefill of fixed
// capacity, and decoding that slows down as the batch grows.
type engine struct {
	profile profile
	tokens  float64 // generated per request

	arrived   float64 // requests so far
	waiting   float64 // of them, in the queue
	running   float64 // requests being served
	cache     float64 // share of the KV cache in use
	completed float64
	prompted  float64 // tokens
	generated float64 // tokens
	preempted float64

	ttft, tpot, itl, e2e, queue, prefill, decode *distribution
}

func newEngine(p profile, tokens float64) *engine {
	return &engine{
		profile: p, tokens: tokens,
		ttft: newDistribution(ttftBounds), tpot: newDistribution(tpotBounds), itl: newDistribution(tpotBounds),
		e2e: newDistribution(requestBounds), queue: newDistribution(requestBounds),
		prefill: newDistribution(requestBounds), decode: newDistribution(requestBounds),
	}
}

// work lets rate requests per second arrive for d. Prefills take slow times as
// long as the profile says.
func (e *engine) work(rate, slow float64, d time.Duration) {
	seconds := d.Seconds()
	e.arrived += rate * seconds
	e.waiting += rate * seconds
	served := math.Min(e.waiting, e.profile.capacity*seconds)
	e.waiting = math.Min(e.waiting-served, e.profile.capacity*patience)

	load := served / seconds / e.profile.capacity
	prefill := e.profile.prefill * slow
	wait := e.waiting/e.profile.capacity + congestion(load)*e.profile.prefill
	token := e.profile.decode * (1 + 0.35*load)
	decoding := token * e.tokens

	e.ttft.observe(served, lognormal{prefill, e.profile.spread, wait})
	e.prefill.observe(served, lognormal{prefill, e.profile.spread, 0})
	e.queue.observe(served, lognormal{math.Max(wait, 1e-3), 0.5, 0})
	e.tpot.observe(served, lognormal{token, 0.18, 0})
	e.itl.observe(served*(e.tokens-1), lognormal{token, 0.22, 0})
	e.decode.observe(served, lognormal{decoding, 0.5, 0})
	e.e2e.observe(served, lognormal{decoding, 0.5, wait + prefill})

	e.completed += served
	e.prompted += served * 620 * slow
	e.generated += served * e.tokens
	e.running = served / seconds * (prefill + decoding)
	e.cache = math.Min(0.97, 0.08+0.55*load+0.1*math.Min(1, e.waiting/(e.profile.capacity*patience)))
	if e.cache > 0.95 {
		e.preempted += served * 0.02
	}
}

// namedDistribution is a distribution under the name it is scraped by.
type namedDistribution struct {
	name string
	d    *distribution
}

func (e *engine) histograms() []namedDistribution {
	return []namedDistribution{
		{"vllm:time_to_first_token_seconds", e.ttft},
		{"vllm:request_time_per_output_token_seconds", e.tpot},
		{"vllm:inter_token_latency_seconds", e.itl},
		{"vllm:e2e_request_latency_seconds", e.e2e},
		{"vllm:request_queue_time_seconds", e.queue},
		{"vllm:request_prefill_time_seconds", e.prefill},
		{"vllm:request_decode_time_seconds", e.decode},
	}
}

// congestion is how many prefill times a request waits on average because
// arrivals come in bunches, before there is a lasting queue.
func congestion(load float64) float64 {
	load = math.Min(load, 0.95)
	return math.Pow(load, 6) / (1 - load) / 2
}

// The bounds of vLLM's histograms, as its source has them.
var (
	ttftBounds    = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	tpotBounds    = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBounds = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// distribution is a growing histogram. It holds the expected number of events
// between two bounds each. A scrape shows whole events, so that the counts of good
// and bad ones only grow, as in a real histogram.
type distribution struct {
	bounds []float64
	mass   []float64 // events up to each bound and above the one before; the last: above all
	sum    float64
	shown  []float64 // cumulative whole events as of the last show; the last: all

	shape lognormal // of the last observation, with
	share []float64 // its share of each mass: it rarely changes
	mean  float64
}

func newDistribution(bounds []float64) *distribution {
	n := len(bounds) + 1
	return &distribution{bounds: bounds, mass: make([]float64, n), shown: make([]float64, n), share: make([]float64, n)}
}

// observe adds n observations of that shape.
func (d *distribution) observe(n float64, shape lognormal) {
	if n <= 0 {
		return
	}
	if shape != d.shape {
		d.shape, d.mean = shape, shape.mean()
		before := 0.0
		for i, b := range d.bounds {
			below := shape.below(b)
			d.share[i], before = below-before, below
		}
		d.share[len(d.bounds)] = 1 - before
	}
	for i, s := range d.share {
		d.mass[i] += n * s
	}
	d.sum += n * d.mean
}

// show updates what a scrape sees.
func (d *distribution) show() {
	total := 0.0
	for i, m := range d.mass {
		total += math.Floor(m)
		d.shown[i] = total
	}
}

// lognormal is a log-normal distribution, moved to the right by shift.
type lognormal struct{ median, sigma, shift float64 }

// below is the share of values up to x.
func (l lognormal) below(x float64) float64 {
	if x <= l.shift {
		return 0
	}
	return 0.5 * math.Erfc(-math.Log((x-l.shift)/l.median)/(l.sigma*math.Sqrt2))
}

func (l lognormal) mean() float64 { return l.shift + l.median*math.Exp(l.sigma*l.sigma/2) }

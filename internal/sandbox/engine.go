package sandbox

import (
	"math"
	"time"
)

// patience is how many seconds a client waits for the first token. A request that
// is given up leaves no sample, as in the real engine.
const patience = 2.5

// engine is the serving engine of one pod: a queue before a prefill of fixed
// capacity, and decoding that slows down as the batch grows. Requests for which the
// KV cache has no room are preempted and computed again, which costs capacity.
type engine struct {
	profile profile
	tokens  float64 // generated per request

	arrived   float64 // requests so far
	waiting   float64 // of them, in the queue
	running   float64 // requests being served
	hung      float64 // of them, those that never finish
	cache     float64 // share of the KV cache in use
	completed float64
	failed    float64
	aborted   float64 // given up by their clients
	steps     float64
	prompted  float64 // tokens
	generated float64 // tokens
	preempted float64

	ttft, tpot, itl, e2e, queue, prefill, decode *distribution
}

// strain is what slows an engine down that is not its profile's fault.
type strain struct {
	prompts float64 // factor on the time of a prefill, and on the length of prompts
	slow    float64 // factor on the time of a prefill
	decode  float64 // factor on the time of a token
	stuck   bool    // it takes requests and no step
	hangs   float64 // share of requests that never finish
}

func newEngine(p profile, tokens float64) *engine {
	return &engine{
		profile: p, tokens: tokens,
		ttft: newDistribution(ttftBounds), tpot: newDistribution(tpotBounds), itl: newDistribution(tpotBounds),
		e2e: newDistribution(requestBounds), queue: newDistribution(requestBounds),
		prefill: newDistribution(requestBounds), decode: newDistribution(requestBounds),
	}
}

// work lets rate requests per second arrive for d.
func (e *engine) work(rate float64, by strain, d time.Duration) {
	seconds := d.Seconds()
	e.arrived += rate * seconds
	e.hang(rate, by, seconds)
	if by.stuck {
		return
	}
	rate *= 1 - by.hangs
	prefill := e.profile.prefill * by.prompts * by.slow
	capacity := e.profile.capacity
	if short := e.lacks(rate, prefill, by); short > 0 {
		capacity /= 1 + short
		e.preempted += rate * seconds * min(1, short)
	}
	e.waiting += rate * seconds
	served := math.Min(e.waiting, capacity*seconds)
	e.waiting = math.Min(e.waiting-served, capacity*patience)

	load := served / seconds / capacity
	wait := e.waiting/capacity + congestion(load)*e.profile.prefill
	token := e.profile.token(load) * by.decode
	decoding := token * e.tokens
	e.failed += served * e.profile.failures
	served *= 1 - e.profile.failures

	e.ttft.observe(served, lognormal{prefill, e.profile.spread, wait})
	e.prefill.observe(served, lognormal{prefill, e.profile.spread, 0})
	e.queue.observe(served, lognormal{math.Max(wait, 1e-3), 0.5, 0})
	e.tpot.observe(served, lognormal{token, 0.18, 0})
	e.itl.observe(served*(e.tokens-1), lognormal{token, 0.22, 0})
	e.decode.observe(served, lognormal{decoding, 0.5, 0})
	e.e2e.observe(served, lognormal{decoding, 0.5, wait + prefill})

	e.completed += served
	if served > 0 {
		e.steps += seconds / token
	}
	e.prompted += served * promptTokens * by.prompts * by.slow
	e.generated += served * e.tokens
	e.running = served/seconds*(prefill+decoding) + e.hung
	if e.profile.cache == 0 {
		e.cache = math.Min(0.97, 0.08+0.55*load+0.1*math.Min(1, e.waiting/(capacity*patience)))
	}
}

const (
	promptTokens = 620
	// giveUp is how many seconds a client waits for a request that never finishes.
	giveUp = 60.0
)

// hang keeps the requests that never finish, until their clients give up.
func (e *engine) hang(rate float64, by strain, seconds float64) {
	left := e.hung * math.Min(1, seconds/giveUp)
	e.hung -= left
	e.aborted += left
	if by.stuck {
		e.hung += rate * seconds
		e.running = max(1, e.hung)
		return
	}
	e.hung += rate * seconds * by.hangs
}

// lacks returns by how much the requests exceed the KV cache, as a share of it; 0:
// they fit.
func (e *engine) lacks(rate, prefill float64, by strain) float64 {
	if e.profile.cache == 0 {
		return 0
	}
	held := rate * (prefill + e.profile.token(0.5)*by.decode*e.tokens) * (promptTokens*by.prompts + e.tokens/2)
	e.cache = math.Min(0.99, held/e.profile.cache)
	return math.Max(0, held/e.profile.cache-0.95)
}

// token returns the median time of an output token at a load.
func (p profile) token(load float64) float64 {
	batch := p.batch
	if batch == 0 {
		batch = 0.35
	}
	return p.decode * (1 + batch*load)
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

	noise hash   // what draws the events; 0: they are spread as expected
	drawn uint64 // observations

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
		expected := n * s
		if d.noise != 0 && expected > 0 { // a rare bucket is hit now and then
			d.drawn++
			whole, rest := math.Modf(expected)
			if expected = whole; d.noise.unit("event", d.drawn) < rest {
				expected++
			}
		}
		d.mass[i] += expected
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

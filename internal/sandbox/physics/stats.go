package physics

import "sort"

// Stats is what an engine has counted since it started. Numbers of events are whole.
type Stats struct {
	Arrived   float64
	Finished  float64 // with all their tokens
	Corrupted float64 // of them, those with logits that were not numbers
	Endless   float64 // of them, those that the model should have ended, and the limit did
	Failed    float64 // with an error of the server
	Aborted   float64 // hung, and given up by their clients
	Lost      float64 // that never got a token: they hang, or their clients left the queue
	Rejected  float64 // too long for the engine
	Preempted float64 // times that a request lost its blocks
	Steps     float64

	Prompted  float64 // tokens of prompts whose first token came
	Generated float64 // tokens
	Queried   float64 // tokens looked up in the prefix cache
	Hit       float64 // of them, found

	TTFT, TPOT, ITL, E2E, Queue, Prefill, Decode Histogram // seconds
	Prompts, Outputs                             Histogram // tokens
}

// Bounds are the upper bounds of an engine's histograms.
type Bounds struct {
	FirstToken []float64 // TTFT
	Token      []float64 // TPOT and ITL
	Request    []float64 // E2E, Queue, Prefill and Decode
	Length     []float64 // Prompts and Outputs
}

func newStats(b Bounds) Stats {
	return Stats{
		TTFT: newHistogram(b.FirstToken), TPOT: newHistogram(b.Token), ITL: newHistogram(b.Token),
		E2E: newHistogram(b.Request), Queue: newHistogram(b.Request), Prefill: newHistogram(b.Request), Decode: newHistogram(b.Request),
		Prompts: newHistogram(b.Length), Outputs: newHistogram(b.Length),
	}
}

// Histogram is a growing histogram.
type Histogram struct {
	Bounds []float64
	Counts []float64 // events up to each bound and above the one before; the last: above all
	Sum    float64
}

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]float64, len(bounds)+1)}
}

// Observe adds n events of that value.
func (h *Histogram) Observe(v, n float64) {
	h.Counts[sort.SearchFloat64s(h.Bounds, v)] += n
	h.Sum += n * v
}

// UpTo returns the number of events up to the bound of that index, of all events for
// the index after the last.
func (h *Histogram) UpTo(i int) float64 {
	n := 0.0
	for _, c := range h.Counts[:i+1] {
		n += c
	}
	return n
}

// Above returns the number of events above the first bound that is at least v.
func (h *Histogram) Above(v float64) float64 {
	return h.UpTo(len(h.Bounds)) - h.UpTo(sort.SearchFloat64s(h.Bounds, v))
}

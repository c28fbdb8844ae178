package physics

import (
	"math"
	"slices"
)

// Request is one request as its client sends it. Times are seconds since a moment
// that all requests of an engine share.
type Request struct {
	Arrival float64
	Prompt  int // tokens
	Output  int // tokens that it will generate, at least 1
	Prefix  int // which shared prefix the prompt begins with; 0: none
	Shared  int // tokens of it
}

// Patience of clients, in seconds. A client that leaves before the first token leaves
// no sample of a latency, as in vLLM.
const (
	FirstToken = 2.5  // for the scheduler to take the request
	GiveUp     = 60.0 // for one that hangs
)

// Engine is one replica. It is not safe for concurrent use.
type Engine struct {
	Stats

	hardware  Hardware
	flags     Flags
	condition Condition
	pace      pace
	now       float64

	coming  []Request   // not arrived yet, by arrival
	waiting []*sequence // the next one first
	running []*sequence // in the order of admission
	hung    []float64   // when those arrived that never reach the scheduler
	unused  []*sequence

	cache cache
	fails float64 // what is due of the share that fails
	hangs float64 // and of the one that hangs
	nans  float64 // and of the one whose logits are not numbers
	ends  float64 // and of the one that the model does not end
	batch batch   // of the step to take

	outOfMemory bool
	paused      float64 // seconds since requests in decode got their last token
	ratio       float64 // of the tokens that running requests may still generate, kept free; SGLang
}

// sequence is a request in the engine.
type sequence struct {
	Request
	goal      int // tokens to compute before the next token can be generated
	computed  int // of them
	decoding  bool
	generated int
	blocks    int // its own, without those of its prefix
	room      int // tokens that they hold, with those of its prefix
	prefix    *prefix
	admitted  float64 // for the first time; negative: never
	first     float64 // when its first token came
	preempted float64 // when it lost its blocks last
}

// tokens returns the length of its context.
func (s *sequence) tokens() int { return s.Prompt + s.generated }

// batch is what a step computes.
type batch struct {
	decoding int // requests in decode
	context  int // tokens of their contexts
	soonest  int // steps until the first of them ends
	prefill  int // tokens of prompts
	evicted  bool
	alone    bool // prompts only: requests in decode wait
}

// New returns an idle engine at that moment, with histograms of these bounds.
func New(h Hardware, f Flags, b Bounds, now float64) *Engine {
	f = f.WithDefaults()
	e := &Engine{hardware: h, flags: f, now: now, Stats: newStats(b)}
	e.cache = cache{size: f.BlockSize, blocks: h.Blocks(f.GPUMemoryUtilization, f.BlockSize), off: f.NoPrefixCaching}
	e.Set(Condition{})
	return e
}

// Flags returns the flags in force.
func (e *Engine) Flags() Flags { return e.flags }

// Blocks returns the number of blocks of the KV cache.
func (e *Engine) Blocks() int { return e.cache.blocks }

// Usage returns the share of the KV cache that running requests use.
func (e *Engine) Usage() float64 { return float64(e.cache.used) / float64(max(1, e.cache.blocks)) }

// Set changes what is wrong with the replica from now on.
func (e *Engine) Set(c Condition) {
	if c != e.condition || e.pace == (pace{}) {
		e.condition, e.pace = c, e.hardware.pace(c)
	}
}

// Running returns the number of requests being computed, those that hang included.
func (e *Engine) Running() int { return len(e.running) + len(e.hung) }

// Waiting returns the number of requests in the queue.
func (e *Engine) Waiting() int { return len(e.waiting) }

// Arrive adds a request. Requests come in the order of their arrival, and before the
// engine is advanced beyond it.
func (e *Engine) Arrive(r Request) { e.coming = append(e.coming, r) }

// Advance simulates the engine up to a moment. A step that is under way then is
// finished, and the next call begins after it.
func (e *Engine) Advance(to float64) {
	for e.now < to {
		e.receive()
		e.expire()
		switch {
		case e.outOfMemory:
			e.wait(to)
		case e.condition.Stuck:
			if len(e.running) == 0 {
				e.admit()
			}
			e.wait(to)
		case len(e.running) == 0 && len(e.waiting) == 0:
			e.wait(to)
		default:
			e.step(to)
		}
	}
}

// Crash ends the process: whatever it holds fails.
func (e *Engine) Crash() {
	for _, s := range e.running {
		e.cache.release(s, e.now)
	}
	e.Failed += float64(len(e.running) + len(e.waiting) + len(e.coming))
	e.Arrived += float64(len(e.coming))
	e.running, e.waiting, e.coming, e.hung = nil, nil, nil, nil
}

// OutOfMemory reports whether an allocation on the GPU has failed, which ends the process.
func (e *Engine) OutOfMemory() bool { return e.outOfMemory }

// wait advances the time to the next arrival.
func (e *Engine) wait(to float64) {
	e.now = to
	if len(e.coming) > 0 {
		e.now = min(to, e.coming[0].Arrival)
	}
}

// receive queues the requests that have arrived.
func (e *Engine) receive() {
	n := 0
	for ; n < len(e.coming) && e.coming[n].Arrival <= e.now; n++ {
		r := e.coming[n]
		e.Arrived++
		e.hangs += e.condition.Hangs
		room := min(e.flags.MaxModelLen, e.cache.blocks*e.cache.size) - r.Prompt
		switch {
		case room < 1:
			e.Rejected++
			continue
		case e.hangs >= 1:
			e.hangs--
			e.hung, e.Lost = append(e.hung, r.Arrival), e.Lost+1
			continue
		}
		r.Output = max(1, min(r.Output, room))
		s := &sequence{}
		if k := len(e.unused); k > 0 {
			s, e.unused = e.unused[k-1], e.unused[:k-1]
		}
		*s = sequence{Request: r, goal: r.Prompt, admitted: -1}
		e.waiting = append(e.waiting, s)
	}
	e.coming = slices.Delete(e.coming, 0, n)
}

// expire drops the requests whose clients have given up.
func (e *Engine) expire() {
	for i := 0; i < len(e.waiting); {
		s := e.waiting[i]
		if s.admitted >= 0 {
			i++ // preempted: its client reads already
			continue
		}
		if e.now-s.Arrival <= FirstToken {
			break // those behind it came later
		}
		e.Lost++
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.unused = append(e.unused, s)
	}
	n := 0
	for ; n < len(e.hung) && e.now-e.hung[n] > GiveUp; n++ {
		e.Aborted++
	}
	e.hung = slices.Delete(e.hung, 0, n)
}

// step takes one step, or a row of them in which nothing but decoding can happen.
func (e *Engine) step(to float64) {
	e.schedule()
	b := e.batch
	if len(e.running) == 0 {
		e.wait(to) // all that waited have failed
		return
	}
	if e.hardware.exceeds(e.flags.GPUMemoryUtilization, b.prefill+b.decoding, e.flags.MaxNumBatchedTokens) {
		e.outOfMemory = true
		return
	}
	steps := 1
	if b.prefill == 0 {
		steps = e.row(to)
	}
	n := float64(steps)
	took := n*e.pace.step(b.decoding+b.prefill, b.decoding, b.context) + e.pace.context*float64(b.decoding)*(n-1)*n/2
	e.now += took
	e.Steps += n
	switch {
	case b.alone:
		e.paused += took
	case b.decoding > 0:
		e.ITL.Observe(took/n+e.paused, float64(b.decoding))
		e.ITL.Observe(took/n, (n-1)*float64(b.decoding))
		e.paused = 0
	}
	e.settle(steps)
}

// schedule chooses the batch of the next step: running requests first, and waiting
// ones as long as there is room.
func (e *Engine) schedule() {
	if e.flags.Retracts {
		e.scheduleRetracting()
		return
	}
	e.reserve()
	b := &e.batch
	for _, s := range e.running {
		if !s.decoding {
			e.chunk(s)
		}
	}
	for !b.evicted && len(e.running) < e.flags.MaxNumSeqs && b.decoding+b.prefill < e.flags.MaxNumBatchedTokens {
		s := e.admit()
		if s == nil {
			return
		}
		e.chunk(s)
	}
}

// reserve takes the blocks that the requests in decode need in the next step. Where
// none is free, the request admitted last makes room.
func (e *Engine) reserve() {
	e.batch = batch{soonest: math.MaxInt}
	b := &e.batch
	for i := 0; i < len(e.running); i++ {
		s := e.running[i]
		if !s.decoding {
			continue
		}
		tokens := s.tokens()
		for tokens > s.room && !e.cache.grow(s, 1) {
			b.evicted = true
			last := e.running[len(e.running)-1]
			e.preempt(last)
			if last == s {
				return
			}
		}
		b.decoding++
		b.context += tokens
		b.soonest = min(b.soonest, s.Output-s.generated)
	}
}

// preempt puts the running request admitted last back to the head of the queue; it
// will be computed again.
func (e *Engine) preempt(s *sequence) {
	e.running = e.running[:len(e.running)-1]
	e.cache.release(s, e.now)
	s.goal, s.computed, s.decoding, s.preempted = s.tokens(), 0, false, e.now
	e.waiting = slices.Insert(e.waiting, 0, s)
	e.Preempted++
}

// admit moves the first waiting request to the running ones; nil: there is none, or
// no room for its whole prompt.
func (e *Engine) admit() *sequence {
	for len(e.waiting) > 0 {
		s := e.waiting[0]
		hit, fits := e.cache.admit(s, e.now)
		if !fits {
			return nil
		}
		e.waiting = slices.Delete(e.waiting, 0, 1)
		if s.admitted < 0 {
			s.admitted = e.now
			e.Queried += float64(s.Prompt)
			e.Hit += float64(hit)
			if e.fails += e.condition.Fails; e.fails >= 1 {
				e.fails--
				e.Failed++
				e.cache.release(s, e.now)
				e.unused = append(e.unused, s)
				continue
			}
		}
		s.computed = min(hit, s.goal-1)
		e.running = append(e.running, s)
		return s
	}
	return nil
}

// chunk adds the next part of a prompt to the batch.
func (e *Engine) chunk(s *sequence) {
	n := min(s.goal-s.computed, e.flags.MaxNumBatchedTokens-e.batch.decoding-e.batch.prefill)
	if e.flags.LongPrefillThreshold > 0 {
		n = min(n, e.flags.LongPrefillThreshold)
	}
	s.computed += max(0, n)
	e.batch.prefill += max(0, n)
}

// row returns how many steps of pure decode can be taken at once, and takes their
// blocks: until the first request ends, the cache is full, or a request arrives that
// finds room.
func (e *Engine) row(to float64) int {
	b := e.batch
	if len(e.waiting) == 0 && len(e.coming) > 0 && len(e.running) < e.flags.MaxNumSeqs {
		to = min(to, e.coming[0].Arrival)
	}
	once := e.pace.step(b.decoding, b.decoding, b.context)
	steps := max(1, min(b.soonest, int(math.Ceil((to-e.now)/once))))
	for ; steps > 1; steps /= 2 {
		need := 0
		for _, s := range e.running {
			need += e.cache.lacks(s, steps)
		}
		if e.cache.used+need > e.cache.blocks {
			continue
		}
		for _, s := range e.running {
			if n := e.cache.lacks(s, steps); n > 0 {
				e.cache.grow(s, n)
			}
		}
		break
	}
	return steps
}

// settle accounts for the steps that were taken: first tokens, further tokens, ends.
func (e *Engine) settle(steps int) {
	kept := e.running[:0]
	for _, s := range e.running {
		switch {
		case s.decoding && e.batch.alone:
		case s.decoding:
			s.generated += steps
			e.Generated += float64(steps)
		case s.computed == s.goal:
			s.decoding = true
			s.generated++
			e.Generated++
			if s.generated == 1 {
				s.first = e.now
				e.Prompted += float64(s.Prompt)
				e.TTFT.Observe(e.now-s.Arrival, 1)
			} else {
				e.ITL.Observe(e.now-s.preempted, 1)
			}
		}
		if s.generated >= s.Output {
			e.finish(s)
			continue
		}
		kept = append(kept, s)
	}
	clear(e.running[len(kept):])
	e.running = kept
}

// finish ends a request and counts its times.
func (e *Engine) finish(s *sequence) {
	e.cache.release(s, e.now)
	e.Finished++
	if e.nans += e.condition.Corrupts; e.nans >= 1 {
		e.nans--
		e.Corrupted++
	}
	if e.ends += e.condition.Endless; e.ends >= 1 {
		e.ends--
		e.Endless++
	}
	e.E2E.Observe(e.now-s.Arrival, 1)
	e.Queue.Observe(s.admitted-s.Arrival, 1)
	e.Prefill.Observe(s.first-s.admitted, 1)
	e.Decode.Observe(e.now-s.first, 1)
	each := 0.0 // a single token: vLLM records 0
	if s.Output > 1 {
		each = (e.now - s.first) / float64(s.Output-1)
	}
	e.TPOT.Observe(each, 1)
	e.Prompts.Observe(float64(s.Prompt), 1)
	e.Outputs.Observe(float64(s.Output), 1)
	e.unused = append(e.unused, s)
}

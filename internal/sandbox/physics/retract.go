package physics

import (
	"math"
	"slices"
)

// The scheduler of SGLang, as of 0.5: python/sglang/srt/managers/scheduler.py,
// schedule_policy.py (PrefillAdder) and schedule_batch.py (retract_decode). Defaults are
// those of environ.py with --schedule-conservativeness 1.
const (
	firstRatio   = 0.7        // SGLANG_INIT_NEW_TOKEN_RATIO
	leastRatio   = 0.7 * 0.14 // SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR
	ratioSteps   = 600.0      // SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS
	mostNew      = 4096       // SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION
	retractSteps = 20         // for how many steps a retraction makes room
)

// scheduleRetracting chooses the batch of the next step: prompts alone as long as there
// are any that find room, else one token for each request in decode.
func (e *Engine) scheduleRetracting() {
	e.batch = batch{soonest: math.MaxInt, alone: true}
	if len(e.running) == 0 {
		e.ratio = firstRatio
	}
	b := &e.batch
	for _, s := range e.running {
		if !s.decoding {
			e.chunk(s)
		}
	}
	for len(e.running) < e.flags.MaxNumSeqs && b.prefill < e.flags.MaxNumBatchedTokens && e.fitsNext() {
		s := e.admit()
		if s == nil {
			break
		}
		e.chunk(s)
	}
	if b.prefill > 0 {
		return
	}
	b.alone = false
	e.retract()
	for _, s := range e.running {
		for s.tokens() > s.room && e.cache.grow(s, 1) {
			continue
		}
		b.decoding++
		b.context += s.tokens()
		b.soonest = min(b.soonest, s.Output-s.generated)
	}
	if len(e.waiting) > 0 {
		b.soonest = min(b.soonest, retractSteps) // meanwhile more may fit
	}
}

// fitsNext reports whether the first waiting request fits beside what the running ones are
// estimated to generate still. An engine that runs nothing takes it in any case.
func (e *Engine) fitsNext() bool {
	if len(e.waiting) == 0 {
		return false
	}
	if len(e.running) == 0 {
		return true
	}
	kept := 0.0
	for _, s := range e.running {
		kept += e.ratio * float64(min(mostNew, s.Output-s.generated))
	}
	next := e.waiting[0]
	need := next.goal + min(mostNew, next.Output-next.generated)
	free := (e.cache.blocks - e.cache.used) * e.cache.size
	return float64(need) < float64(free)-kept
}

// retract takes requests out while the next step does not fit: those with the fewest
// tokens generated first, of equals the one with the longest prompt. They queue again, at
// the end, and are computed anew.
func (e *Engine) retract() {
	lacks := func(steps int) (n int) {
		for _, s := range e.running {
			n += e.cache.lacks(s, steps)
		}
		return n
	}
	e.ratio = max(leastRatio, e.ratio-(firstRatio-leastRatio)/ratioSteps)
	if e.cache.used+lacks(1) <= e.cache.blocks {
		return
	}
	for len(e.running) > 1 && e.cache.used+lacks(retractSteps) > e.cache.blocks {
		i := 0
		for k, s := range e.running {
			v := e.running[i]
			if s.generated < v.generated || s.generated == v.generated && s.Prompt > v.Prompt {
				i = k
			}
		}
		s := e.running[i]
		e.running = slices.Delete(e.running, i, i+1)
		e.cache.release(s, e.now)
		s.goal, s.computed, s.decoding, s.preempted = s.tokens(), 0, false, e.now
		e.waiting = append(e.waiting, s)
		e.Preempted++
	}
	decoded, wanted := 0, 0
	for _, s := range e.running {
		decoded += s.generated
		wanted += s.Output
	}
	e.ratio = min(1, float64(decoded+retractSteps*len(e.running))/float64(wanted+1))
}

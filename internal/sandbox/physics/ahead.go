package physics

// Ahead estimates how many seconds a request whose prompt has that many tokens waits for
// its first token if it arrives now, and then for each further one. It changes nothing.
func (e *Engine) Ahead(prompt int) (first, each float64) {
	decoding, context, left, backlog := 0, 0, 0, prompt
	for _, s := range e.running {
		left += s.Output - s.generated
		if !s.decoding {
			backlog += s.goal - s.computed
			continue
		}
		decoding++
		context += s.tokens()
	}
	for _, s := range e.waiting {
		backlog += s.goal
	}
	room := max(1, e.flags.MaxNumBatchedTokens-decoding)
	steps := (backlog + room - 1) / room
	if most := e.flags.LongPrefillThreshold; most > 0 {
		steps = max(steps, (prompt+most-1)/most)
	}
	steps = max(1, steps)
	first = float64(steps) * e.pace.step(backlog/steps+decoding, decoding, context)
	each = e.pace.step(decoding+1, decoding+1, context+prompt)
	if queue := len(e.waiting) + 1 + len(e.running) - e.flags.MaxNumSeqs; queue > 0 && len(e.running) > 0 {
		n := float64(len(e.running)) // whose places come free while they generate what is left
		first += each * float64(left) / n * float64(queue) / n
	}
	if len(e.running) > 0 {
		first += each / 2 // of the step that is under way
	}
	return first, each
}

package physics

import "testing"

// TestRetracting compares the two schedulers on the same load: SGLang lets decoding wait for
// prompts, and keeps room for what running requests will generate.
func TestRetracting(t *testing.T) {
	sglang := func(c *trial) { c.flags.Retracts = true }
	long := func(c *trial) {
		c.load.Rate, c.load.Prompt.Mean, c.load.Output.Mean = 5, 3000, 240
		c.flags.MaxNumBatchedTokens = 8192
	}
	scarce := func(c *trial) {
		c.flags.GPUMemoryUtilization = (float64(2200)*16*c.hardware.KVToken + c.hardware.Parameters*c.hardware.Width + c.hardware.Workspace) / c.hardware.Memory
	}
	both := func(a, b func(*trial)) func(*trial) { return func(c *trial) { a(c); b(c) } }
	v, s := llama8B(long).run(t), llama8B(both(long, sglang)).run(t)
	within(t, "long prompts: tokens/s after/before", s.Generated/v.Generated, 0.95, 1.05)
	within(t, "long prompts: TTFT p50 after/before", s.ttft(0.5)/v.ttft(0.5), 0.5, 1.05)
	if s.itl(0.99) < v.itl(0.99) {
		t.Errorf("long prompts: ITL p99 is %.3g where decoding waits for prompts, %.3g where it rides along", s.itl(0.99), v.itl(0.99))
	}
	v, s = llama8B(scarce).run(t), llama8B(both(scarce, sglang)).run(t)
	within(t, "scarce memory: taken out", s.Preempted/v.Preempted, 0, 0.5)
	within(t, "scarce memory: tokens/s after/before", s.Generated/v.Generated, 0.8, 1.3)
	if s.usage >= v.usage {
		t.Errorf("scarce memory: %.3g of the cache is in use where room is kept, %.3g where it is not", s.usage, v.usage)
	}
}

// Whoever generated least is retracted, of equals the one with the longest prompt, and
// comes back with all its tokens.
func TestWhoIsRetracted(t *testing.T) {
	e := New(Llama8B(), Flags{Retracts: true, BlockSize: 1, GPUMemoryUtilization: 0.3}, bounds, 0)
	e.cache.blocks = 1000
	for _, r := range []Request{{Prompt: 300, Output: 350}, {Prompt: 100, Output: 350}, {Prompt: 150, Output: 350}} {
		s := &sequence{Request: r, goal: r.Prompt}
		if _, fits := e.cache.admit(s, 0); !fits {
			t.Fatal("they do not fit")
		}
		s.decoding, s.generated = true, 149
		e.cache.grow(s, 149)
		e.running = append(e.running, s)
	}
	e.running[0].generated = 160
	e.cache.grow(e.running[0], 11)
	e.ratio = 0.1
	e.retract()
	if e.Preempted != 1 || len(e.running) != 2 || len(e.waiting) != 1 || e.waiting[0].Prompt != 150 || e.waiting[0].goal != 299 {
		t.Fatalf("%.0f were retracted, %d run, the one that waits has a prompt of %d and %d to compute", e.Preempted, len(e.running), e.waiting[0].Prompt, e.waiting[0].goal)
	}
	if e.ratio < 0.4 || e.ratio > 0.6 {
		t.Errorf("the ratio is %.2f after half of the tokens", e.ratio)
	}
	e.Advance(120)
	if e.Finished != 3 || e.cache.used != 0 {
		t.Errorf("%.0f finished, %d blocks are used", e.Finished, e.cache.used)
	}
}

package physics

import (
	"math"
	"testing"
)

var bounds = Bounds{
	FirstToken: []float64{0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 2.5, 5, 10},
	Token:      []float64{0.005, 0.0075, 0.01, 0.0125, 0.015, 0.0175, 0.02, 0.0225, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5},
	Request:    []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60},
	Length:     []float64{100, 1000, 10000},
}

// trial is a service under a steady load.
type trial struct {
	replicas  int
	hardware  Hardware
	flags     Flags
	load      Load
	condition Condition
}

// outcome is what ten minutes of it look like, of all replicas together.
type outcome struct {
	Stats
	waiting, usage float64 // means per replica
}

func (o outcome) ttft(q float64) float64 { return quantile(o.TTFT, q) }
func (o outcome) itl(q float64) float64  { return quantile(o.ITL, q) }
func (o outcome) tpot(q float64) float64 { return quantile(o.TPOT, q) }

// run plays a trial for twelve minutes and returns what happened in the last ten.
func (c trial) run(t testing.TB) outcome {
	t.Helper()
	engines := make([]*Engine, c.replicas)
	for i := range engines {
		engines[i] = New(c.hardware, c.flags, bounds, 0)
		engines[i].Set(c.condition)
	}
	out, turn := outcome{Stats: newStats(bounds)}, 0
	const warm, end, tick = 120, 720, 5
	for at := 0; at < end; at += tick {
		if at == warm {
			for _, e := range engines {
				e.Stats = newStats(bounds)
			}
		}
		for _, r := range c.load.Requests(uint64(at), float64(at), float64(at+tick)) {
			engines[turn%c.replicas].Arrive(r)
			turn++
		}
		for _, e := range engines {
			e.Advance(float64(at + tick))
			if at >= warm {
				n := float64(c.replicas) * (end - warm) / tick
				out.waiting += float64(e.Waiting()) / n
				out.usage += e.Usage() / n
			}
		}
	}
	for _, e := range engines {
		out.add(e.Stats)
	}
	return out
}

func (s *Stats) add(o Stats) {
	s.Arrived += o.Arrived
	s.Finished += o.Finished
	s.Failed += o.Failed
	s.Lost += o.Lost
	s.Rejected += o.Rejected
	s.Preempted += o.Preempted
	s.Prompted += o.Prompted
	s.Generated += o.Generated
	s.Queried += o.Queried
	s.Hit += o.Hit
	for _, h := range []struct{ to, from *Histogram }{
		{&s.TTFT, &o.TTFT}, {&s.TPOT, &o.TPOT}, {&s.ITL, &o.ITL}, {&s.E2E, &o.E2E}, {&s.Queue, &o.Queue}, {&s.Prefill, &o.Prefill}, {&s.Decode, &o.Decode},
	} {
		for i, n := range h.from.Counts {
			h.to.Counts[i] += n
		}
		h.to.Sum += h.from.Sum
	}
}

// quantile interpolates in the bucket as Prometheus does.
func quantile(h Histogram, q float64) float64 {
	rank, seen, below := q*h.UpTo(len(h.Bounds)), 0.0, 0.0
	for i, b := range h.Bounds {
		if n := h.Counts[i]; seen+n >= rank && n > 0 {
			return below + (b-below)*(rank-seen)/n
		}
		seen += h.Counts[i]
		below = b
	}
	return math.Inf(1)
}

func mean(h Histogram) float64 { return h.Sum / h.UpTo(len(h.Bounds)) }

// llama8B is the service of the published trials: Llama 3.1 8B on one H100.
func llama8B(change func(*trial)) trial {
	c := trial{
		replicas: 1, hardware: Llama8B(), flags: Flags{MaxNumSeqs: 256, MaxNumBatchedTokens: 2048},
		load: Load{Rate: 12, Prompt: Length{512, 0.5}, Output: Length{420, 0.5}},
	}
	change(&c)
	return c
}

// chat is a service of four replicas at a third of what they can do.
func chat(change func(*trial)) trial {
	c := trial{
		replicas: 4, hardware: Llama70B(), flags: Flags{MaxNumSeqs: 19},
		load: Load{Rate: 5.8, Prompt: Length{900, 0.25}, Output: Length{220, 0.3}, Prefixes: 4, Shared: 280, Share: 1},
	}
	change(&c)
	return c
}

// TestLevers compares a service with itself after one change. The trials of Llama 8B
// follow those that were played in BLIS, a discrete-event model of vLLM, whose numbers
// are in the comments.
func TestLevers(t *testing.T) {
	same := func(*trial) {}
	seqs := func(n int) func(*trial) { return func(c *trial) { c.flags.MaxNumSeqs = n } }
	long := func(budget int) func(*trial) {
		return func(c *trial) {
			c.load.Rate, c.load.Prompt.Mean, c.load.Output.Mean = 5, 3000, 240
			c.flags.MaxNumBatchedTokens = budget
		}
	}
	blocks := func(n, seqs int) func(*trial) {
		return func(c *trial) {
			c.flags.MaxNumSeqs = seqs
			c.flags.GPUMemoryUtilization = (float64(n)*16*c.hardware.KVToken + c.hardware.Parameters*c.hardware.Width + c.hardware.Workspace) / c.hardware.Memory
		}
	}
	scaled := func(n int, then func(*trial)) func(*trial) {
		return func(c *trial) {
			then(c)
			c.replicas = n
		}
	}
	burst := func(c *trial) { c.load.Rate *= 3.1 }
	slow := func(c *trial) { c.flags.LongPrefillThreshold = 12 }
	for _, tt := range []struct {
		name          string
		before, after trial
		check         func(t *testing.T, before, after outcome)
	}{
		{"replicas under saturation", chat(burst), chat(scaled(6, burst)), func(t *testing.T, b, a outcome) {
			within(t, "TTFT p99", b.ttft(0.99), 2, 10)
			within(t, "TTFT p99 after", a.ttft(0.99), 0.05, 0.5)
			within(t, "queue after", a.waiting, 0, 0.2)
		}},
		{"replicas for a bad revision", chat(slow), chat(scaled(6, slow)), func(t *testing.T, b, a outcome) {
			within(t, "TTFT p50", b.ttft(0.5), 0.75, 1)
			within(t, "TTFT p50 after/before", a.ttft(0.5)/b.ttft(0.5), 0.95, 1.05)
		}},
		// BLIS: 42 ms, 3.5 s and 24.1 s at 128, 64 and 32; ITL 14.5, 13.4 and 10.8 ms. Clients
		// without patience end at FirstToken here.
		{"max-num-seqs lowered without need", llama8B(seqs(128)), llama8B(seqs(64)), func(t *testing.T, b, a outcome) {
			within(t, "TTFT p50", b.ttft(0.5), 0.02, 0.06)
			within(t, "TTFT p50 after", a.ttft(0.5), 1, 4)
			within(t, "ITL p50", b.itl(0.5), 0.012, 0.017)
			within(t, "ITL p50 after/before", a.itl(0.5)/b.itl(0.5), 0.6, 0.95)
			within(t, "tokens/s after/before", a.Generated/b.Generated, 0.7, 0.95)
		}},
		// BLIS: no change from 256 to 64, since the cache bounds the batch; at 32 no preemption,
		// and TTFT 24.1 s for 16.3 s.
		{"max-num-seqs above what fits", llama8B(blocks(2200, 256)), llama8B(blocks(2200, 64)), func(t *testing.T, b, a outcome) {
			within(t, "preempted", b.Preempted, 300, 5000)
			within(t, "preempted after/before", a.Preempted/b.Preempted, 0.99, 1.01)
		}},
		{"max-num-seqs against thrashing", llama8B(blocks(2200, 256)), llama8B(blocks(2200, 32)), func(t *testing.T, b, a outcome) {
			within(t, "KV usage", b.usage, 0.95, 1)
			within(t, "KV usage after", a.usage, 0.6, 0.9)
			within(t, "preempted after", a.Preempted, 0, 0)
			within(t, "ITL p99 after/before", a.itl(0.99)/b.itl(0.99), 0.2, 0.95)
			within(t, "clients lost after/before", a.Lost/b.Lost, 1.02, 2)
		}},
		// BLIS: preemptions end from 4000 to 6000 blocks, TTFT p99 2.2 s to 42 ms.
		{"more blocks", llama8B(blocks(3000, 256)), llama8B(blocks(9000, 256)), func(t *testing.T, b, a outcome) {
			within(t, "preempted", b.Preempted, 300, 5000)
			within(t, "preempted after", a.Preempted, 0, 0)
			within(t, "TTFT p99 after/before", a.ttft(0.99)/b.ttft(0.99), 0, 0.1)
		}},
		// BLIS, long prompts: TTFT p99 59, 91 and 362 ms at 8192, 2048 and 512; ITL p99 29.0,
		// 21.2 and 17.7 ms.
		{"max-num-batched-tokens", llama8B(long(8192)), llama8B(long(512)), func(t *testing.T, b, a outcome) {
			within(t, "TTFT p50 after/before", a.ttft(0.5)/b.ttft(0.5), 1.1, 8)
			within(t, "ITL p99 after/before", a.itl(0.99)/b.itl(0.99), 0.05, 0.5)
		}},
		{"longer prompts", chat(same), chat(func(c *trial) { c.load.Prompt.Mean *= 6 }), func(t *testing.T, b, a outcome) {
			within(t, "TTFT p50 after/before", a.ttft(0.5)/b.ttft(0.5), 5, 12)
			within(t, "TPOT p50 after/before", a.tpot(0.5)/b.tpot(0.5), 1.5, 4)
			within(t, "hit rate after", a.Hit/a.Queried, 0.03, 0.08)
		}},
		{"prefix cache off", chat(func(c *trial) { c.load.Shared = 600 }), chat(func(c *trial) { c.load.Shared, c.flags.NoPrefixCaching = 600, true }), func(t *testing.T, b, a outcome) {
			within(t, "hit rate", b.Hit/b.Queried, 0.55, 0.75)
			within(t, "hits after", a.Hit, 0, 0)
			within(t, "prefill after/before", mean(a.Prefill)/mean(b.Prefill), 1.7, 3)
		}},
		{
			"more prefixes than fit", chat(func(c *trial) { c.load.Shared, c.flags.GPUMemoryUtilization = 600, 0.52 }),
			chat(func(c *trial) { c.load.Shared, c.flags.GPUMemoryUtilization, c.load.Prefixes = 600, 0.52, 400 }), func(t *testing.T, b, a outcome) {
				within(t, "hit rate", b.Hit/b.Queried, 0.55, 0.75)
				within(t, "hit rate after", a.Hit/a.Queried, 0.01, 0.2)
				within(t, "prefill after/before", mean(a.Prefill)/mean(b.Prefill), 1.5, 3)
			},
		},
		{"throttled", chat(same), chat(func(c *trial) { c.condition = Throttled(5) }), func(t *testing.T, b, a outcome) {
			within(t, "prefill after/before", mean(a.Prefill)/mean(b.Prefill), 4, 7)
			within(t, "TPOT p50 after/before", a.tpot(0.5)/b.tpot(0.5), 1.3, 3)
		}},
		{"errors", chat(same), chat(func(c *trial) { c.condition.Fails = 0.25 }), func(t *testing.T, _, a outcome) {
			within(t, "failed", a.Failed/a.Arrived, 0.24, 0.26)
			within(t, "TTFT p99 after", a.ttft(0.99), 0, 0.3)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.check(t, tt.before.run(t), tt.after.run(t))
		})
	}
}

func within(t *testing.T, what string, got, from, to float64) {
	t.Helper()
	if !(got >= from && got <= to) {
		t.Errorf("%s is %.4g, want %.4g to %.4g", what, got, from, to)
	}
}

// vLLM logs the size of the cache of Llama 3.1 8B on an 80 GB GPU at 0.9 as about 430,000
// to 450,000 tokens.
func TestBlocks(t *testing.T) {
	within(t, "tokens of Llama 8B", float64(Llama8B().Blocks(0.9, 16)*16), 4e5, 4.6e5)
	if a, b := Llama70B().Blocks(0.9, 16), Llama70B().Blocks(0.92, 16); b <= a {
		t.Errorf("%d blocks at 0.92, %d at 0.9", b, a)
	}
	if n := Llama70B().Blocks(0.3, 16); n != 0 {
		t.Errorf("%d blocks where the weights alone do not fit", n)
	}
}

// Every block comes back, whatever happened to its request.
func TestBlocksAreGivenBack(t *testing.T) {
	e := New(Llama8B(), Flags{GPUMemoryUtilization: 0.285, MaxModelLen: 4096}, bounds, 0)
	e.Set(Condition{Fails: 0.1, Hangs: 0.1})
	load := Load{Rate: 15, Prompt: Length{900, 0.9}, Output: Length{300, 0.9}, Prefixes: 30, Shared: 300, Share: 0.7}
	for at := 0.0; at < 600; at += 5 {
		for _, r := range load.Requests(uint64(at), at, at+5) {
			e.Arrive(r)
		}
		e.Advance(at + 5)
		if e.cache.used+e.cache.idle > e.cache.blocks {
			t.Fatalf("%d blocks used and %d idle of %d", e.cache.used, e.cache.idle, e.cache.blocks)
		}
	}
	e.Advance(1200)
	e.Advance(1201)
	held := 0
	for _, p := range e.cache.prefixes {
		held += p.blocks
	}
	if e.cache.used != 0 || e.cache.idle != held || e.Running() != 0 || e.Waiting() != 0 {
		t.Errorf("when all is over %d blocks are used, %d idle of prefixes with %d; %d run, %d wait", e.cache.used, e.cache.idle, held, e.Running(), e.Waiting())
	}
	if e.Preempted == 0 || e.Rejected == 0 || e.Failed == 0 || e.Aborted == 0 || e.Lost <= e.Aborted {
		t.Errorf("not everything happened: %.0f preempted, %.0f rejected, %.0f failed, %.0f aborted, %.0f lost", e.Preempted, e.Rejected, e.Failed, e.Aborted, e.Lost)
	}
	if all := e.Finished + e.Failed + e.Lost + e.Rejected; all != e.Arrived {
		t.Errorf("%.0f requests arrived, %.0f ended", e.Arrived, all)
	}
}

// A stuck engine looks alive: it runs requests, and none of its counters moves.
func TestStuck(t *testing.T) {
	e := New(Llama8B(), Flags{}, bounds, 0)
	e.Set(Condition{Stuck: true})
	for at := range 30 {
		e.Arrive(Request{Arrival: float64(at), Prompt: 100, Output: 10})
	}
	e.Advance(60)
	e.Advance(61)
	if e.Running() != 1 || e.Steps != 0 || e.Generated != 0 || e.Lost != 29 {
		t.Errorf("%d run after %.0f steps, %.0f tokens, %.0f clients left", e.Running(), e.Steps, e.Generated, e.Lost)
	}
}

// The memory that gpu-memory-utilization leaves decides whether an engine survives a
// batch full of prompts; with little in the batch it lives on.
func TestOutOfMemory(t *testing.T) {
	for _, c := range []struct {
		utilization float64
		prompt      int
		want        bool
	}{{0.92, 8192, false}, {0.98, 8192, true}, {0.98, 100, false}} {
		e := New(Llama70B(), Flags{GPUMemoryUtilization: c.utilization}, bounds, 0)
		for range 4 {
			e.Arrive(Request{Prompt: c.prompt, Output: 5})
		}
		e.Advance(60)
		if e.OutOfMemory() != c.want {
			t.Errorf("at %g, a prompt of %d tokens: out of memory is %t, want %t", c.utilization, c.prompt, e.OutOfMemory(), c.want)
		}
		if finished := e.Finished == 4; finished == c.want {
			t.Errorf("at %g, a prompt of %d tokens: %.0f finished", c.utilization, c.prompt, e.Finished)
		}
		if e.Crash(); c.want && (e.Failed != 4 || e.Running() != 0 || e.Usage() != 0) {
			t.Errorf("after the end %.0f have failed, %d run, %g of the cache is in use", e.Failed, e.Running(), e.Usage())
		}
	}
}

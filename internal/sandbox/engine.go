package sandbox

import (
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// image is what a revision's image does to an engine beyond the options in its pod
// template. The zero value is a good one.
type image struct {
	compute  float64 // factor on the time of computation; 0: 1
	memory   float64 // factor on the time of reading weights and KV cache; 0: 1
	failures float64 // share of requests that end with an error of the server
	dies     death   // why it ends at each start; empty: it starts
	wrong    wrong   // how its completions differ; empty: they do not
	chunk    int     // tokens of a prompt that its scheduler takes in one step at most; 0: as the options say
}

// newEngine returns the engine of a pod that has just loaded its model.
func (f *fleet) newEngine(set *replicaSet, at time.Time) *physics.Engine {
	d := f.dialect()
	flags := d.flags(args{d.name, set.fields})
	if set.image.chunk > 0 {
		flags.LongPrefillThreshold = set.image.chunk
	}
	return physics.New(f.spec.hardware, flags, d.bounds, float64(at.Unix()))
}

// dialect is how one engine names its options and its series.
type dialect struct {
	name       string // of the engine and its container
	flags      func(args) physics.Flags
	bounds     physics.Bounds
	labels     []string // of all its series, name and value in turn
	metrics    func(*physics.Engine) []metric
	histograms func(*physics.Engine) []namedHistogram
}

// dialect returns that of the service's engine.
func (f *fleet) dialect() dialect {
	if f.spec.service.Engine == "sglang" {
		return sglang()
	}
	return vllm()
}

// metric is a series that is no part of a histogram, and where its value comes from.
type metric struct {
	name   string
	read   func() float64
	labels []string // name and value in turn
}

// namedHistogram is a histogram under the name it is scraped by.
type namedHistogram struct {
	name string
	h    *physics.Histogram
}

func count(v *float64) func() float64 { return func() float64 { return *v } }

func whole(of func() int) func() float64 { return func() float64 { return float64(of()) } }

// args are the options in a flattened pod template. An option that is missing or is no
// number has the engine's default, which is 0 here.
type args struct {
	container string
	fields    map[string]string
}

func (a args) text(name string) (value string, there bool) {
	value, there = a.fields["containers["+a.container+"].args["+name+"]"]
	return value, there
}

func (a args) has(name string) bool {
	_, there := a.text(name)
	return there
}

func (a args) number(name string) float64 {
	text, _ := a.text(name)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return v
}

func (a args) whole(name string) int { return int(a.number(name)) }

// condition returns what is wrong with a pod's engine.
func (p *pod) condition(b image, decode float64) physics.Condition {
	c := physics.Throttled(max(1, p.drag))
	times := func(v, by float64) float64 {
		if by == 0 {
			return v
		}
		return v * by
	}
	c.Compute = times(times(c.Compute, p.slow), b.compute)
	c.Memory = times(times(c.Memory, b.memory), decode)
	c.Stuck, c.Hangs, c.Fails = p.stuck, p.hangs, b.failures
	switch how, _ := p.differs(); how {
	case wrongOutput:
		c.Corrupts = corrupted
	case wrongPrompt:
		c.Endless = endless
	}
	return c
}

package physics

import (
	"math"
	"math/rand/v2"
)

// Load is what clients send to a service.
type Load struct {
	Rate   float64 // requests per second, as a Poisson process
	Prompt Length
	Output Length

	Prefixes int     // shared prefixes, all used alike
	Shared   int     // tokens of each
	Share    float64 // of the requests that begin with one of them

	Odd     float64 // share of the requests that have prompts of another length
	OddOnes int     // tokens of each
}

// Length is a log-normal distribution of tokens.
type Length struct {
	Mean  float64
	Sigma float64 // of the logarithm
}

func (l Length) draw(r *rand.Rand) int {
	return max(1, int(math.Round(l.Mean*math.Exp(l.Sigma*r.NormFloat64()-l.Sigma*l.Sigma/2))))
}

// Requests returns the requests that arrive in [from, to). The same seed gives the
// same requests.
func (l Load) Requests(seed uint64, from, to float64) []Request {
	if l.Rate <= 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a simulation has to be repeatable
	out := make([]Request, 0, int(1.5*l.Rate*(to-from))+4)
	for at := from + r.ExpFloat64()/l.Rate; at < to; at += r.ExpFloat64() / l.Rate {
		q := Request{Arrival: at, Prompt: l.Prompt.draw(r), Output: l.Output.draw(r)}
		if l.Odd > 0 && r.Float64() < l.Odd {
			q.Prompt = l.OddOnes
		}
		if l.Prefixes > 0 && r.Float64() < l.Share {
			q.Prefix, q.Shared = 1+r.IntN(l.Prefixes), l.Shared
			q.Prompt = max(q.Prompt, q.Shared+1)
		}
		out = append(out, q)
	}
	return out
}

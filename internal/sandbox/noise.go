package sandbox

import (
	"hash/fnv"
	"math"
)

// hash is the source of everything that looks random: a function of the
// scenario's seed, a subject and a moment, so that what happens does not depend
// on who asked first.
type hash uint64

// of returns 64 bits for the subject and the number.
func (h hash) of(subject string, n uint64) uint64 {
	x := uint64(h) ^ nameHash(subject) ^ n*0x9e3779b97f4a7c15
	// The finalizer of SplitMix64.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit returns a number in [0, 1).
func (h hash) unit(subject string, n uint64) float64 {
	return float64(h.of(subject, n)>>11) / (1 << 53)
}

// normal returns a number around 0 with deviation 1, never beyond 3.
func (h hash) normal(subject string, n uint64) float64 {
	u, v := h.unit(subject, 2*n+1), h.unit(subject, 2*n+2)
	x := math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v)
	return math.Max(-3, math.Min(3, x))
}

// text returns n characters as Kubernetes' generated names have them.
func (h hash) text(subject string, seed uint64, n int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	x := h.of(subject, seed)
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[x%uint64(len(alphabet))]
		x /= uint64(len(alphabet))
	}
	return string(out)
}

func nameHash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

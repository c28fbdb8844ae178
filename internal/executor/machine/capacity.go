package machine

import (
	"fmt"
	"math"
	"strconv"
)

// Capacity is what a lever does to the replicas that serve. Unknown is true
// when it cannot be said; guards then refuse.
type Capacity struct {
	Unknown     bool `json:"unknown,omitempty"`
	ReadyNow    int  `json:"readyNow"`
	LowestReady int  `json:"lowestReady"` // fewest ready replicas while it is under way
	ReadyAfter  int  `json:"readyAfter"`

	// TokensPerSecond is what the service generated of late, as measured when
	// the lever was planned: >= 0; nil: unknown.
	TokensPerSecond *float64 `json:"tokensPerSecond,omitempty"`
}

// Affected is what a lever does to the replicas of a service that is not the
// run's own, such as its neighbour on a node.
type Affected struct {
	Service  string   `json:"service"`            // by its name, or the workload where no service is known
	MinReady int      `json:"minReady,omitempty"` // replicas that must stay ready; 0: the guard's own number
	Capacity Capacity `json:"capacity"`
}

// NodePool is how many nodes of a pool take no pods, for whatever reason and
// whoever took them out, before a lever takes another one out.
type NodePool struct {
	Name string   `json:"name"`
	Size int      `json:"size"`          // nodes that count, the lever's own included
	Out  []string `json:"out,omitempty"` // those that are out, with the reason; without the lever's own
}

// Lost is how many of the ready replicas are missing at worst while the lever
// is under way, >= 0. It says nothing where the capacity is unknown.
func (c Capacity) Lost() int { return max(0, c.ReadyNow-c.LowestReady) }

// LostTokens is how many tokens per second go with the lost replicas, at what
// each yields now. It reports false when that is unknown.
func (c Capacity) LostTokens() (float64, bool) {
	switch {
	case c.Unknown:
		return 0, false
	case c.Lost() == 0:
		return 0, true
	case c.TokensPerSecond == nil || !(*c.TokensPerSecond >= 0): // NaN too
		return 0, false
	}
	return *c.TokensPerSecond * float64(c.Lost()) / float64(c.ReadyNow), true
}

// TokensText says for people what a lever costs in tokens per second; empty
// where that was not measured.
func (c Capacity) TokensText() string {
	gone, known := c.LostTokens()
	switch {
	case !known || c.TokensPerSecond == nil:
		return ""
	case c.Lost() == 0:
		return fmt.Sprintf("none of about %s tokens/s gone while it is under way", rounded(*c.TokensPerSecond))
	default:
		return fmt.Sprintf("about %s of %s tokens/s gone while it is under way", rounded(gone), rounded(*c.TokensPerSecond))
	}
}

// rounded writes a number >= 0 with three digits that count and commas: 7,400.
func rounded(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	digits := strconv.FormatFloat(math.Round(v/unit)*unit, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

package machine

import (
	"fmt"
	"math"
	"strconv"
)

// Capacity is the effect of a lever on the serving replicas. Unknown is set if
// the effect cannot be determined; guards then refuse.
type Capacity struct {
	Unknown     bool `json:"unknown,omitempty"`
	ReadyNow    int  `json:"readyNow"`
	LowestReady int  `json:"lowestReady"` // fewest ready replicas while it is in progress
	ReadyAfter  int  `json:"readyAfter"`

	// TokensPerSecond is the recent throughput of the service, as measured when
	// the lever was planned: >= 0; nil: unknown.
	TokensPerSecond *float64 `json:"tokensPerSecond,omitempty"`
}

// Affected is the effect of a lever on the replicas of another service, such as
// a neighbour on a node.
type Affected struct {
	Service   string   `json:"service"`             // name of the service, or the workload if the service is unknown
	Namespace string   `json:"namespace,omitempty"` // of a workload of no service
	MinReady  int      `json:"minReady,omitempty"`  // replicas that must stay ready; 0: the guard's own limit
	Capacity  Capacity `json:"capacity"`
}

// NodePool counts the nodes of a pool that accept no pods, for whatever reason,
// before a lever takes out another one.
type NodePool struct {
	Name string   `json:"name"`
	Size int      `json:"size"`          // counted nodes, including the lever's own
	Out  []string `json:"out,omitempty"` // nodes that are out, with the reason; without the lever's own
}

// Share counts the replicas of services, in one namespace or in the catalog, before a
// lever costs some of them.
type Share struct {
	Namespace string `json:"namespace,omitempty"` // empty: of the whole catalog
	Unknown   string `json:"unknown,omitempty"`   // why they could not be counted; rules about them then refuse
	Wanted    int    `json:"wanted"`              // replicas that should be there
	Missing   int    `json:"missing"`             // of those, not ready now, whoever took them
	Lost      int    `json:"lost"`                // ready ones that the lever costs at worst, > 0
}

// Lost returns how many of the ready replicas are missing at worst while the
// lever is in progress, >= 0. It is meaningless if the capacity is unknown.
func (c Capacity) Lost() int { return max(0, c.ReadyNow-c.LowestReady) }

// LostTokens returns the tokens per second of the lost replicas, at the current
// throughput of each. It returns false if that is unknown.
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

// TokensText describes for people the cost of a lever in tokens per second;
// empty if it was not measured.
func (c Capacity) TokensText() string {
	gone, known := c.LostTokens()
	switch {
	case !known || c.TokensPerSecond == nil:
		return ""
	case c.Lost() == 0:
		return fmt.Sprintf("none of about %s tokens/s lost while it is in progress", rounded(*c.TokensPerSecond))
	default:
		return fmt.Sprintf("about %s of %s tokens/s lost while it is in progress", rounded(gone), rounded(*c.TokensPerSecond))
	}
}

// rounded formats a number >= 0 with three significant digits and commas:
// 7,400.
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

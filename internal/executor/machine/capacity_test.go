package machine

import (
	"math"
	"testing"
)

func TestCapacityTokens(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	for name, tt := range map[string]struct {
		c     Capacity
		gone  float64
		known bool
		text  string
	}{
		"one of four":         {Capacity{ReadyNow: 4, LowestReady: 3, TokensPerSecond: n(7398)}, 1849.5, true, "about 1,850 of 7,400 tokens/s lost while it is in progress"},
		"millions":            {Capacity{ReadyNow: 2, TokensPerSecond: n(1234567)}, 1234567, true, "about 1,230,000 of 1,230,000 tokens/s lost while it is in progress"},
		"few":                 {Capacity{ReadyNow: 2, LowestReady: 1, TokensPerSecond: n(99.96)}, 49.98, true, "about 50 of 100 tokens/s lost while it is in progress"},
		"rounded to one more": {Capacity{ReadyNow: 1, TokensPerSecond: n(999.6)}, 999.6, true, "about 1,000 of 1,000 tokens/s lost while it is in progress"},
		"none lost":           {Capacity{ReadyNow: 4, LowestReady: 4, TokensPerSecond: n(7398)}, 0, true, "none of about 7,400 tokens/s lost while it is in progress"},
		"none lost, unknown":  {Capacity{ReadyNow: 4, LowestReady: 5}, 0, true, ""},
		"lost, unknown":       {Capacity{ReadyNow: 4, LowestReady: 3}, 0, false, ""},
		"not a number":        {Capacity{ReadyNow: 4, LowestReady: 3, TokensPerSecond: n(math.NaN())}, 0, false, ""},
		"capacity unknown":    {Capacity{Unknown: true, TokensPerSecond: n(10)}, 0, false, ""},
	} {
		gone, known := tt.c.LostTokens()
		if gone != tt.gone || known != tt.known || tt.c.TokensText() != tt.text {
			t.Errorf("%s: %v %v %q, want %v %v %q", name, gone, known, tt.c.TokensText(), tt.gone, tt.known, tt.text)
		}
	}
}

package playbook

import "testing"

func TestQuantity(t *testing.T) {
	for _, tt := range []struct {
		v          float64
		unit, want string
	}{
		{0.96834, "", "0.9683"},
		{0.96834, "ratio", "96.83%"},
		{0.01, "ratio of requests", "1% of requests"},
		{0.01, "ratios", "0.01 ratios"},
		{12345, "requests", "1.234e+04 requests"},
		{2.5, "s", "2.5 s"},
	} {
		if got := Quantity(tt.v, tt.unit); got != tt.want {
			t.Errorf("Quantity(%v, %q) = %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}

package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"list", "show", "watch", "cancel"}
	for got, want := range map[string]string{
		"lst": "list", "cancle": "cancel", "Watch": "watch", "frobnicate": "", "": "", "ls": "",
		strings.Repeat("list", 100): "",
	} {
		if n := Nearest(got, names); n != want {
			t.Errorf("Nearest(%q) = %q, want %q", got, n, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"show", "show"}: 0, {"lst", "list"}: 1, {"cancle", "cancel"}: 1, {"kitten", "sitting"}: 3,
	} {
		if d := Distance(pair[0], pair[1]); d != want {
			t.Errorf("Distance(%q, %q) = %d, want %d", pair[0], pair[1], d, want)
		}
	}
}

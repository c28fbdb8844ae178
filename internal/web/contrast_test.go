package web

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// luminance is the relative luminance of a colour like #1b1f24 or #fff, as
// WCAG 2 defines it.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	hex := colour[1:]
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.03928 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// Text is readable in both schemes: WCAG AA asks for a contrast of 4.5.
func TestContrast(t *testing.T) {
	css, err := assets.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllSubmatch(css, -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes, want light and dark", len(schemes))
	}
	for i, scheme := range schemes {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--(\w+): (#\w+)`).FindAllSubmatch(scheme[1], -1) {
			colours[string(m[1])] = string(m[2])
		}
		for _, pair := range [][2]string{
			{"fg", "bg"},
			{"fg", "soft"},
			{"quiet", "bg"},
			{"quiet", "soft"},
			{"link", "bg"},
			{"bad", "soft"},
			{"good", "bg"},
			{"wait", "bg"},
			{"bad", "bg"},
			{"busy", "bg"},
			{"good", "goodbg"},
			{"wait", "waitbg"},
			{"bad", "badbg"},
			{"busy", "busybg"},
			{"fg", "busybg"},
			{"fg", "waitbg"},
			{"fg", "badbg"},
			{"bg", "fg"},
			{"act", "bg"},
		} {
			a, b := luminance(t, colours[pair[0]]), luminance(t, colours[pair[1]])
			if contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05); contrast < 4.5 {
				t.Errorf("scheme %d: %s on %s has a contrast of %.1f", i, pair[0], pair[1], contrast)
			}
		}
	}
}

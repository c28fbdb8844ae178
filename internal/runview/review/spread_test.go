package review

import "testing"

func TestMedianAndP90(t *testing.T) {
	for _, c := range []struct {
		of          spread
		median, p90 float64
		ok          bool
	}{
		{nil, 0, 0, false},
		{spread{7}, 7, 7, true},
		{spread{9, 1}, 5, 9, true},
		{spread{3, 1, 2}, 2, 3, true},
		{spread{4, 1, 3, 2}, 2.5, 4, true},
		{spread{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5.5, 9, true},
		{spread{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 6, 10, true},
		{spread{0, 0, 100}, 0, 100, true},
	} {
		was := append(spread{}, c.of...)
		median, ok := c.of.median()
		p90, ok90 := c.of.p90()
		if median != c.median || p90 != c.p90 || ok != c.ok || ok90 != c.ok {
			t.Errorf("%v: median %v, p90 %v, %v; want %v, %v, %v", was, median, p90, ok, c.median, c.p90, c.ok)
		}
		for i := range was {
			if was[i] != c.of[i] {
				t.Errorf("%v was reordered to %v", was, c.of)
				break
			}
		}
	}
}

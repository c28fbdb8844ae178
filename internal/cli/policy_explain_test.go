package cli

import (
	"testing"
	"time"
)

// Tonight at 23:00 is the next 23:00 there is, on this machine's clock.
func TestParseMoment(t *testing.T) {
	zone := time.FixedZone("UTC+2", 2*60*60)
	now := time.Date(2026, 2, 28, 22, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"":                          "2026-02-28T22:30:00+02:00",
		"23:00":                     "2026-02-28T23:00:00+02:00",
		"22:30":                     "2026-02-28T22:30:00+02:00",
		"22:29":                     "2026-03-01T22:29:00+02:00",
		"2026-12-24T00:00:00+01:00": "2026-12-24T00:00:00+01:00",
	} {
		got, err := parseMoment(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v; want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"noon", "24:00", "2026-12-24"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

package cli

import (
	"testing"
	"time"
)

// A date begins at midnight where the reader is; a time says its own zone.
func TestMomentIsTheReaders(t *testing.T) {
	now := time.Date(2026, 11, 8, 2, 0, 0, 0, time.FixedZone("", 5*3600+1800))
	for text, want := range map[string]string{
		"2026-11-01":                "2026-10-31T18:30:00Z",
		"2026-11-01T12:00:00Z":      "2026-11-01T12:00:00Z",
		"2026-11-01T12:00:00+01:00": "2026-11-01T11:00:00Z",
		"7d":                        "2026-10-31T20:30:00Z",
	} {
		if got, err := moment("--since", text, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s is %s, %v, want %s", text, got.UTC().Format(time.RFC3339), err, want)
		}
	}
}

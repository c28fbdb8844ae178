package yamldoc

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// ParseDuration parses a duration as Prometheus writes it: 30s, 5m, 1h30m, 2d.
// Negative durations are errors. Fractions are written in the next smaller
// unit.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errors.New("empty duration: write it like 30s, 5m, 1h30m or 2d")
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("not a duration: %q: write it like 30s, 5m, 1h30m or 2d", Clip(text))
	}
	return time.Duration(d), nil
}

// FormatDuration formats a duration for [ParseDuration] and PromQL, rounded
// down to milliseconds.
func FormatDuration(d time.Duration) string { return model.Duration(d).String() }

// Clip shortens untrusted text for messages.
func Clip(text string) string {
	const most = 80
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "..."
}

// Plausible returns an error for durations that are not positive or too long.
func Plausible(d, most time.Duration) error {
	switch {
	case d <= 0:
		return fmt.Errorf("is %s, must be longer than 0", d)
	case d < time.Millisecond:
		return fmt.Errorf("is %s, must be at least 1ms", d)
	case d > most:
		return fmt.Errorf("is %s, must be at most %s", FormatDuration(d), FormatDuration(most))
	default:
		return nil
	}
}

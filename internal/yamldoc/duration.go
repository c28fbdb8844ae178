package yamldoc

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// ParseDuration reads a duration as people and Prometheus write it: 30s,
// 5m, 1h30m, 2d. Negative durations do not exist here, fractions
// are written in the next smaller unit.
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

// FormatDuration writes a duration as [ParseDuration] and PromQL read it,
// rounded down to milliseconds.
func FormatDuration(d time.Duration) string { return model.Duration(d).String() }

// Clip shortens text of strangers for messages.
func Clip(text string) string {
	const most = 80
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "..."
}

// Plausible refuses durations that are nothing or absurdly long.
func Plausible(d, most time.Duration) error {
	switch {
	case d <= 0:
		return fmt.Errorf("is %s; it must be longer than 0", d)
	case d < time.Millisecond:
		return fmt.Errorf("is %s, shorter than a millisecond", d)
	case d > most:
		return fmt.Errorf("is %s, longer than %s", FormatDuration(d), FormatDuration(most))
	default:
		return nil
	}
}

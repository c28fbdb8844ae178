package playbook

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// ParseDuration reads a duration as playbooks and Prometheus write it: 30s,
// 5m, 1h30m, 2d. Negative durations do not exist in the language, fractions
// are written in the next smaller unit.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errors.New("empty duration: write it like 30s, 5m, 1h30m or 2d")
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("not a duration: %q: write it like 30s, 5m, 1h30m or 2d", clip(text))
	}
	return time.Duration(d), nil
}

// FormatDuration writes a duration as [ParseDuration] and PromQL read it,
// rounded down to milliseconds.
func FormatDuration(d time.Duration) string { return model.Duration(d).String() }

// clip shortens text of strangers for messages.
func clip(text string) string {
	const most = 80
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "..."
}

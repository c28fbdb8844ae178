package api

import (
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// each converts every element. The result is never nil.
func each[A, B any](in []A, convert func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, convert(a))
	}
	return out
}

// some is [each], and returns nil for an empty list, which is absent in JSON.
func some[A, B any](in []A, convert func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	return each(in, convert)
}

// one converts a value by its pointer. It returns nil for nil.
func one[A, B any](in *A, convert func(A) B) *B {
	if in == nil {
		return nil
	}
	out := convert(*in)
	return &out
}

// list returns a list that is written as [] when it is empty.
func list(in []string) []string { return each(in, func(s string) string { return s }) }

// duration writes a duration as text; zero is "".
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return playbook.FormatDuration(d)
}

// parseDuration reads what duration writes. What it cannot read is zero.
func parseDuration(text string) time.Duration {
	d, err := playbook.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// parseAutonomy reads a level. What it cannot read is observe, the lowest.
func parseAutonomy(text string) playbook.Autonomy {
	level, err := playbook.ParseAutonomy(text)
	if err != nil {
		return playbook.Observe
	}
	return level
}

// utc keeps the zero time zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

package web

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of one shown value, in characters.
const (
	maxShort = 60
	maxLine  = 300     // of names, labels, messages
	maxLong  = 4000    // of expressions
	maxValue = 100_000 // of one side of a diff, which is shown in full
)

// clip shortens a text to n characters and appends how much is missing.
func clip(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return fmt.Sprintf("%s … (%d more characters)", string(r[:n]), len(r)-n)
}

// short returns the beginning of a text.
func short(s string) string {
	if r := []rune(clip(s, maxLine)); len(r) > maxShort {
		return string(r[:maxShort]) + "…"
	}
	return s
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// span formats a duration in its one or two largest units.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh %02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

func until(d time.Duration) string {
	if d <= 0 {
		return "now"
	}
	return "in " + span(d)
}

// link returns an address that may be linked: http or https, with a host, not
// too long; else nothing. All others are shown as text.
func link(address string) string {
	if len(address) > 8192 || strings.ContainsFunc(address, unicode.IsControl) {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}

// segment escapes an identifier as one segment of our own addresses. A colon is
// escaped too, so that no identifier is read as a scheme.
func segment(id string) string {
	return strings.ReplaceAll(url.PathEscape(id), ":", "%3A")
}

// runOf returns the run of a stream of the journal; empty if it belongs to
// none.
func runOf(stream string) string {
	id, ok := strings.CutPrefix(stream, "run/")
	if !ok || strings.Contains(id, "/") {
		return ""
	}
	return id
}

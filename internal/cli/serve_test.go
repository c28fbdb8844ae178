package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/config"
)

// A value of a log line begins no line of its own, in either format.
func TestLogLines(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, br := range []string{"\n", "\r", "\v", "\u0085", "\u2028", "\u2029"} {
			var b bytes.Buffer
			newLogger(&b, config.Log{Level: "info", Format: format}).Info("run started", "alert", "x"+br+"level=INFO msg=approved", "k"+br+"k", "v")
			ends := "\n\r\v\u2028\u2029" // of a line; in JSON, a collector knows only the first
			if format == "text" {
				ends += "\u0085"
			}
			if text := strings.TrimSuffix(b.String(), "\n"); text == "" || strings.ContainsAny(text, ends) {
				t.Errorf("%s: %q is left in %q", format, br, b.String())
			}
		}
	}
}

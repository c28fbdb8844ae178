package api

import (
	"net/url"
	"strconv"
	"time"
)

// Header returns the value of [SandboxHeader].
func (s Sandbox) Header() string {
	return url.Values{
		"scenario": {s.Scenario}, "now": {s.Now.UTC().Format(time.RFC3339)}, "pace": {strconv.FormatFloat(s.Pace, 'g', -1, 64)},
	}.Encode()
}

// ParseSandboxHeader reads what [Sandbox.Header] wrote. What cannot be read is zero.
func ParseSandboxHeader(text string) Sandbox {
	var s Sandbox
	if v, err := url.ParseQuery(text); err == nil {
		s.Scenario = v.Get("scenario")
		s.Now, _ = time.Parse(time.RFC3339, v.Get("now")) // zero: not known
		s.Pace, _ = strconv.ParseFloat(v.Get("pace"), 64) // likewise
	}
	return s
}

package web

import (
	"strings"
	"testing"
)

// The times in a message are elements, so that a browser shows them in local time; what is no
// time stays text.
func TestTimesInText(t *testing.T) {
	for in, want := range map[string]string{
		"no time": "no time",
		"from 2026-11-22 00:11:24Z to 2026-11-22T00:12:00Z.":               `from <time datetime="2026-11-22T00:11:24Z">2026-11-22 00:11:24Z</time> to <time datetime="2026-11-22T00:12:00Z">2026-11-22T00:12:00Z</time>.`,
		"2026-11-22 00:11:24 UTC <b>":                                      `<time datetime="2026-11-22T00:11:24Z">2026-11-22 00:11:24 UTC</time> &lt;b&gt;`,
		"on 2026-02-31 00:11:24Z":                                          "on 2026-02-31 00:11:24Z",
		"in no zone 2026-11-22 00:11:24, v2026-11-22 00:11:24Zx":           "in no zone 2026-11-22 00:11:24, v2026-11-22 00:11:24Zx",
		"2026-02-31 00:00:00Z and then 2026-11-22 00:11:24Z, which is one": `2026-02-31 00:00:00Z and then <time datetime="2026-11-22T00:11:24Z">2026-11-22 00:11:24Z</time>, which is one`,
	} {
		var b strings.Builder
		if err := text(in).Render(&b); err != nil || b.String() != want {
			t.Errorf("%q: %v\n%s\nwant\n%s", in, err, b.String(), want)
		}
	}
}

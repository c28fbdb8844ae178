package playbook

import (
	"strings"
	"testing"
)

// TestNearest: the playbook that an alert misses by least is named, with what it misses
// by, and none where all are about something else.
func TestNearest(t *testing.T) {
	set := &Set{}
	for name, match := range map[string][]string{
		"breach": {`{alertname=~"Inference(TTFT|TPOT)FastBurn"}`},
		"paged":  {`{alertname="Down", severity="page"}`, `{alertname="Gone", severity="page", team="ml"}`},
		"all":    {`{job=~".+engine.*"}`},
	} {
		p := &Playbook{Name: name}
		for _, text := range match {
			ms, err := parseMatchers(text)
			if err != nil {
				t.Fatal(err)
			}
			p.match = append(p.match, ms)
		}
		set.all = append(set.all, p)
	}
	for name, tt := range map[string]struct {
		labels map[string]string
		want   string
		failed []string
	}{
		"a typo":            {map[string]string{"alertname": "InferenceTTFTFastBrun"}, "breach", []string{`alertname is "InferenceTTFTFastBrun" (did you mean "InferenceTTFTFastBurn"?)`}},
		"one of two":        {map[string]string{"alertname": "Down", "severity": "ticket"}, "paged", []string{`severity is "ticket"`}},
		"a label is absent": {map[string]string{"alertname": "Gone", "severity": "page"}, "paged", []string{"the alert has no label team"}},
		"nothing alike":     {map[string]string{"alertname": "Watchdog"}, "", nil},
		"a long value":      {map[string]string{"alertname": strings.Repeat("InferenceTTFTFastBurn", 1000)}, "", nil},
		"no labels":         {nil, "", nil},
	} {
		got, failed := set.Nearest(Alert{Labels: tt.labels})
		ok := got == tt.want && len(failed) == len(tt.failed)
		for i := range tt.failed {
			ok = ok && strings.Contains(failed[i], tt.failed[i])
		}
		if !ok {
			t.Errorf("%s: %q %q", name, got, failed)
		}
	}
}

package git

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
)

// TestWhatARevisionRan: the deployment that made the next revision is told from that of
// the revision itself, also where syncs take long.
func TestWhatARevisionRan(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	sha := func(c string) string { return strings.Repeat(c, 40) }
	at := func(c string, started, ended time.Duration) gitops.Deployment {
		d := gitops.Deployment{Revisions: []string{sha(c)}, At: noon.Add(ended)}
		if started != 0 {
			d.Started = noon.Add(started)
		}
		return d
	}
	const from, until = 10 * time.Minute, 20 * time.Minute
	for name, tt := range map[string]struct {
		history []gitops.Deployment
		want    string
	}{
		"each in a moment":                                   {[]gitops.Deployment{at("a", 0, from), at("b", 0, until)}, sha("a")},
		"ended right before the revision":                    {[]gitops.Deployment{at("a", 0, from), at("b", 0, until-5*time.Second)}, sha("a")},
		"replicas in between":                                {[]gitops.Deployment{at("a", 0, from), at("c", 0, 15*time.Minute), at("b", 0, until)}, sha("c")},
		"the sync of the revision itself took long":          {[]gitops.Deployment{at("a", from-time.Second, until-time.Second), at("b", until-time.Second, until+time.Minute)}, sha("a")},
		"one in between took long":                           {[]gitops.Deployment{at("a", from-time.Second, from), at("c", 15*time.Minute, until-time.Second), at("b", until-time.Second, until)}, sha("c")},
		"the next was not made by a sync, and one still ran": {[]gitops.Deployment{at("o", time.Minute, 2*time.Minute), at("a", from-time.Second, until+time.Minute)}, ""},
		"not kept":         {[]gitops.Deployment{at("b", 0, until)}, ""},
		"not deployed yet": {[]gitops.Deployment{at("a", 0, from)}, ""},
		"no time is known": {[]gitops.Deployment{{Revisions: []string{sha("a")}}}, ""},
	} {
		s := site{app: gitops.Application{History: tt.history}}
		if got := s.ran(noon.Add(from), noon.Add(until)); got != tt.want {
			t.Errorf("%s: %.9s, want %.9s", name, got, tt.want)
		}
	}
}

package service

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
)

// TestLaterReleases: what came later is named once, and is neither what is taken back
// nor what is gone back to, although both came back with a new number.
func TestLaterReleases(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	at := func(number int64, ago ...time.Duration) kube.Revision { // created, and when it came back
		r := kube.Revision{Number: number, Created: noon.Add(-ago[0])}
		if len(ago) > 1 {
			r.Active = noon.Add(-ago[1])
		}
		return r
	}
	for _, tt := range []struct {
		name        string
		revisions   []kube.Revision
		first, last int
		want        string
	}{
		{"a rollback and its undo", []kube.Revision{at(6, 48*time.Hour, 30*time.Minute), at(7, 50*time.Minute, 10*time.Minute)}, 1, 1, ""},
		{"a rollback, its undo, and another release", []kube.Revision{at(6, 48*time.Hour, 30*time.Minute), at(7, 50*time.Minute, 20*time.Minute), at(8, 5*time.Minute)}, 1, 1, "revision 8"},
		{"two more", []kube.Revision{at(6, 48*time.Hour), at(7, 50*time.Minute), at(8, 40*time.Minute), at(9, 5*time.Minute)}, 1, 1, "revisions 8 and 9"},
		{"nothing", []kube.Revision{at(6, 48*time.Hour), at(7, 50*time.Minute)}, 1, 1, ""},
	} {
		tt.revisions[len(tt.revisions)-1].Current = true
		r := releasesOf(tt.revisions, noon, time.Hour)
		r.weigh(tt.first, tt.last)
		if got := r.later(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

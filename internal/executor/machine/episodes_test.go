package machine

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestEpisodes: episodes hold what a map would, and values that were kept never
// change.
func TestEpisodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type kept struct {
			e    Episodes
			want map[string]*Episode
		}
		now := kept{Episodes{}, map[string]*Episode{}}
		var all []kept
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			id := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id"))
			ep := &Episode{Alert: playbook.Alert{Fingerprint: id}, Since: time.Unix(int64(i), 0)}
			now = kept{now.e.With(id, ep), maps.Clone(now.want)}
			now.want[id] = ep
			all = append(all, now)
		}
		for _, k := range all {
			if diff := cmp.Diff(k.want, maps.Collect(k.e.All())); diff != "" || k.e.Len() != len(k.want) || len(k.e.IDs()) != len(k.want) {
				t.Fatalf("%d episodes, want %d: %s", k.e.Len(), len(k.want), diff)
			}
			if !k.e.Equal(EpisodesOf(k.want)) {
				t.Fatal("not equal to the same episodes")
			}
		}
	})
}

// BenchmarkJoin folds alerts that join one run.
func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				s := State{Phase: PhaseWaiting}
				for i := range n {
					a := playbook.Alert{Fingerprint: fmt.Sprintf("%016x", i), Status: playbook.Firing, StartsAt: time.Unix(1e9, 0)}
					s = Evolve(s, Event{Kind: EpisodeJoined, Alert: &a, At: time.Unix(1e9, 0)})
				}
			}
		})
	}
}

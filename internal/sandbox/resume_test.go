package sandbox

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/kube"
)

// A service that is killed and started again must find its changes as it left
// them, or resuming a run could not be rehearsed.
func TestResumedWorldIsTheOneThatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "sandbox.json")
		w, err := Resume(file, "bad-rollout", 30)
		if err != nil {
			t.Fatal(err)
		}
		_, ref := chat(w)
		time.Sleep(3100 * time.Millisecond)
		now := workload(t, w, ref)
		if _, err := w.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: 2, Pre: pre(now), Run: "r-1", Key: "k-1"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the rollout is half done
		if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: 5, Pre: pre(workload(t, w, ref)), Run: "r-1", Key: "k-2"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)

		again, err := Resume(file, "bad-rollout", 30)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(workload(t, w, ref), workload(t, again, ref)); diff != "" {
			t.Errorf("the workload after the restart (-left +found):\n%s", diff)
		}
		sameSeries(t, w, again)
		time.Sleep(10 * time.Second)
		if a, b := w.Clock().Now(), again.Clock().Now(); a.Sub(b).Abs() > time.Millisecond {
			t.Errorf("the restarted world's clock shows %s, the other's %s", b, a)
		}
		if now := workload(t, again, ref); now.Ready != 5 || now.Updated != 5 {
			t.Errorf("the rollout did not go on after the restart: %d ready, %d updated of 5", now.Ready, now.Updated)
		}
	})
}

// The time that passed at another pace is the same after a restart, also while
// nobody simulated it.
func TestResumedWorldKnowsItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "sandbox.json")
		w, err := Resume(file, "bad-rollout", 10)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if err := w.SetPace(1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute)
		again, err := Resume(file, "bad-rollout", 10)
		if err != nil {
			t.Fatal(err)
		}
		want := w.Started().Add(time.Minute + 15*time.Minute)
		if got := again.Clock().Now(); !got.Equal(want) || !w.Clock().Now().Equal(want) {
			t.Errorf("the restarted world's clock shows %s and the other's %s, want %s", got, w.Clock().Now(), want)
		}
		if pace := again.Clock().Pace(); pace != 1 {
			t.Errorf("the pace is %g while nobody knows whether the question is still open", pace)
		}
	})
}

// Another scenario follows in the same file, a day later, and is the one that a
// restart opens, by whatever command the first was begun.
func TestScenarioThatFollowsIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "sandbox.json")
		w, err := Resume(file, "bad-rollout", 10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Follow("no-such"); err == nil {
			t.Error("a scenario that nobody knows followed")
		}
		opens, err := w.Follow("traffic-burst")
		if want := w.Clock().Now().Add(24 * time.Hour); err != nil || !opens.Equal(want) {
			t.Fatalf("the next one opens at %s, %v; want %s", opens, err, want)
		}
		if _, err := w.Follow("gpu-fault"); err == nil {
			t.Error("two scenarios followed one")
		}
		_, ref := chat(w)
		if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: 5, Pre: pre(workload(t, w, ref)), Run: "r-1", Key: "k"}); err == nil {
			t.Error("a cluster that is gone was changed")
		}
		if err := w.SetPace(1); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"bad-rollout", "traffic-burst"} {
			next, err := Resume(file, name, 10)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if next.Scenario().Name != "traffic-burst" || !next.Started().Equal(opens) || next.Clock().Pace() != 10 {
				t.Errorf("%s: %s of %s was opened at pace %v", name, next.Scenario().Name, next.Started(), next.Clock().Pace())
			}
		}
		if _, err := Resume(file, "gpu-fault", 10); err == nil {
			t.Error("a file of another scenario was opened")
		}
		if _, err := mustOpen(t, "bad-rollout").Follow("traffic-burst"); err == nil {
			t.Error("a world that nothing stores was followed")
		}
	})
}

func mustOpen(t *testing.T, name string) *World {
	t.Helper()
	w, _ := open(t, name)
	return w
}

func sameSeries(t *testing.T, a, b *World) {
	t.Helper()
	of := func(w *World) map[string]*series {
		out := map[string]*series{}
		for _, list := range w.store.byName {
			for _, s := range list {
				out[s.labels.String()] = s
			}
		}
		return out
	}
	left, found := of(a), of(b)
	if len(left) != len(found) {
		t.Fatalf("%d series were left, %d are found", len(left), len(found))
	}
	for name, l := range left {
		f := found[name]
		if f == nil || l.first != f.first || !slices.EqualFunc(l.values, f.values, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }) {
			t.Fatalf("%s is another series after the restart", name)
		}
	}
}

func TestResumeRefusesWhatIsNotItsOwn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sandbox.json")
	if _, err := Resume(file, "bad-rollout", 10); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(file, "traffic-burst", 10); err == nil || !strings.Contains(err.Error(), "bad-rollout") {
		t.Errorf("another scenario was resumed: %v", err)
	}
	for _, data := range []string{"", "{}", "no json", `{"version":9,"scenario":"bad-rollout"}`} {
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(file, "bad-rollout", 10); err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%q was resumed: %v", data, err)
		}
	}
	if _, err := Resume(filepath.Join(dir, "none", "sandbox.json"), "bad-rollout", 10); err == nil {
		t.Error("a world that cannot be kept was opened")
	}
}

// A world that runs for days must not grow, and must still answer its longest
// window.
func TestOldSamplesAreForgotten(t *testing.T) {
	w, clock := open(t, "traffic-burst")
	s, _ := chat(w)
	clock.Advance(30 * time.Hour)
	w.advance()
	longest := 0
	for _, list := range w.store.byName {
		for _, sr := range list {
			longest = max(longest, len(sr.values))
		}
	}
	if limit := int((retention + 2*time.Hour) / scrape); longest > limit {
		t.Errorf("a series has %d samples after 30 hours, want at most %d", longest, limit)
	}
	if got := one(t, w, "sum(rate(vllm:time_to_first_token_seconds_count{"+s.Selector+"}[6h]))", clock.Now()); got < 15 || got > 17 {
		t.Errorf("requests per second over six hours after 30: %.2f, want those the pods can take", got)
	}
}

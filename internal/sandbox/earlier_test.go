package sandbox

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/kube"
)

// TestEarlierWorld: after another scenario has followed, the series of the one before are
// still there, with what was changed in it.
func TestEarlierWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "sandbox.json")
		w, err := Resume(file, "bad-rollout", 60)
		if err != nil {
			t.Fatal(err)
		}
		svc, ref := chat(w)
		if _, err := w.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: 2, Pre: pre(workload(t, w, ref)), Run: "r-1", Key: "k-1"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		from, to := w.Started().Add(-30*time.Minute), w.Clock().Now().Add(time.Minute)
		want, err := w.Range(t.Context(), ttftErrors(svc, "5m"), from, to, time.Minute)
		if err != nil || len(want.Series) != 1 {
			t.Fatalf("%d series, %v", len(want.Series), err)
		}
		if _, err := w.Follow("thermal-emergency"); err != nil {
			t.Fatal(err)
		}
		next, err := Resume(file, "bad-rollout", 60)
		if err != nil {
			t.Fatal(err)
		}
		got, err := next.Range(t.Context(), ttftErrors(svc, "5m"), from, to, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the series of the scenario before (-then +now):\n%s", diff)
		}
		for at, want := range map[time.Time]string{w.Started(): "bad-rollout", next.Started(): "thermal-emergency", next.Clock().Now(): "thermal-emergency"} {
			if name, past := next.ScenarioAt(at); name != want || past != (want == "bad-rollout") {
				t.Errorf("%s is of %q, past %v; want %s", at, name, past, want)
			}
		}
		if name, past := next.ScenarioAt(w.Started().Add(-48 * time.Hour)); name != "" || !past {
			t.Errorf("what was before the first scenario is of %q", name)
		}
	})
}

// TestEarlierWorldsAreBounded: the file does not grow with every scenario.
func TestEarlierWorldsAreBounded(t *testing.T) {
	k := kept{Scenario: "bad-rollout", Start: morning}
	for range mostPast + 2 {
		k = kept{Scenario: k.Scenario, Start: k.Start.Add(quiet), Earlier: k.after(k.Start.Add(time.Hour))}
	}
	if len(k.Earlier) != mostPast || !k.Earlier[0].Start.Equal(morning.Add(2*quiet)) || !k.Earlier[mostPast-1].End.Equal(k.Start.Add(time.Hour-quiet)) {
		t.Errorf("kept of what was before: %+v", k.Earlier)
	}
}

package sandbox

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// action is something done about an incident.
type action string

const (
	nothing  action = "nothing"
	rollback action = "rollback"
	scaleOut action = "scale out"
)

func (a action) do(t *testing.T, w *World) {
	t.Helper()
	_, ref := chat(w)
	now := workload(t, w, ref)
	var err error
	switch a {
	case rollback:
		_, err = w.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: now.Revision - 1, Pre: pre(now)})
	case scaleOut:
		_, err = w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: now.Replicas + 2, Pre: pre(now)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Without the right lever an incident stays; with it, and only with it, the
// service recovers and the alert clears.
func TestOnlyTheRightLeverRepairs(t *testing.T) {
	for _, c := range []struct {
		scenario string
		action   action
		repairs  bool
	}{
		{"bad-rollout", nothing, false},
		{"bad-rollout", rollback, true},
		{"bad-rollout", scaleOut, false},
		{"traffic-burst", nothing, false},
		{"traffic-burst", rollback, false},
		{"traffic-burst", scaleOut, true},
		{"no-help", nothing, false},
		{"no-help", rollback, false},
		{"no-help", scaleOut, false},
	} {
		t.Run(c.scenario+"/"+string(c.action), func(t *testing.T) {
			t.Parallel()
			w, clock := open(t, c.scenario)
			s, ref := chat(w)
			if got, err := w.Firing(t.Context(), clock.Now()); err != nil || len(got) != 1 || got[0].Labels["service"] != "inference-chat" {
				t.Fatalf("at the start %v fires (%v), want one alert of inference-chat", got, err)
			}
			c.action.do(t, w)
			clock.Advance(4 * time.Minute) // to take effect
			if now := workload(t, w, ref); now.Ready != now.Replicas || now.Updated != now.Replicas {
				t.Fatalf("four minutes after the change %d of %d are ready, %d updated", now.Ready, now.Replicas, now.Updated)
			}
			fixed := clock.Now()
			clock.Advance(10 * time.Minute)
			ratio := one(t, w, ttftErrors(s, "10m"), clock.Now())
			if good := ratio < 0.01; good != c.repairs {
				t.Errorf("error ratio since the change %.4f: repaired is %t, want %t", ratio, good, c.repairs)
			}
			if long := one(t, w, ttftErrors(s, "1h"), clock.Now()); long < 0.1344 {
				t.Errorf("the one-hour window is green (%.3f) %s after the fix: recovering could not be told from recovered", long, clock.Now().Sub(fixed))
			}
			firing, err := w.Firing(t.Context(), clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			if cleared := len(firing) == 0; cleared != c.repairs {
				t.Errorf("%d alerts fire at the end; cleared is %t, want %t", len(firing), cleared, c.repairs)
			}
		})
	}
}

// TestScenariosOpenWithTheirAlert: Alertmanager has something to tell when a world
// opens, whatever the time of day: rules are evaluated on a grid of 30 s.
func TestScenariosOpenWithTheirAlert(t *testing.T) {
	for _, sc := range Scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			for _, after := range []time.Duration{0, 7 * time.Second, 16 * time.Second, 29 * time.Second} {
				clock := NewManualClock(morning.Add(after))
				w, err := New(sc.Name, clock)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := w.Notification(t.Context(), clock.Now()); err != nil || len(body) == 0 {
					t.Errorf("opened %s after the minute, nothing fires: %v", after, err)
				}
			}
		})
	}
}

func TestTheNeighbourStaysHealthy(t *testing.T) {
	for _, sc := range Scenarios() {
		w, clock := open(t, sc.Name)
		clock.Advance(30 * time.Minute)
		if got := one(t, w, ttftErrors(w.Services()[1], "30m"), clock.Now()); got > 0.005 {
			t.Errorf("%s: the neighbour's error ratio is %.4f", sc.Name, got)
		}
	}
}

func TestRevisionsTellWhetherSomethingChanged(t *testing.T) {
	for name, recent := range map[string]bool{"bad-rollout": true, "no-help": true, "no-traffic": true, "traffic-burst": false} {
		w, _ := open(t, name)
		_, ref := chat(w)
		revisions, err := w.Revisions(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		last := revisions[len(revisions)-1]
		if got := morning.Sub(last.Active) < time.Hour; got != recent || !last.Current {
			t.Errorf("%s: the current revision became active %s ago", name, morning.Sub(last.Active))
		}
	}
}

func TestNotificationsAreAlertmanagersOwn(t *testing.T) {
	w, clock := open(t, "bad-rollout")
	decode := func() playbook.Notification {
		t.Helper()
		body, err := w.Notification(t.Context(), clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		n, err := playbook.DecodeNotification(body)
		if err != nil {
			t.Fatalf("the body is refused: %v\n%s", err, body)
		}
		return n
	}
	first := decode()
	if first.Status != playbook.Firing || len(first.Alerts) != 1 || first.Version != "4" {
		t.Fatalf("first notification: %+v", first)
	}
	a := first.Alerts[0]
	if a.Labels["alertname"] != "InferenceTTFTFastBurn" || a.Labels["model_name"] != "llama-70b" || a.Labels["severity"] != "critical" {
		t.Errorf("labels %v", a.Labels)
	}
	if age := clock.Now().Sub(a.StartsAt); age < 0 || age > 5*time.Minute {
		t.Errorf("the alert began %s before the world opened; the rule cannot have been true for that long", age)
	}
	rollback.do(t, w)
	clock.Advance(30 * time.Minute)
	last := decode()
	if last.Status != playbook.Resolved || len(last.Alerts) != 1 || last.Alerts[0].Status != playbook.Resolved || !last.Alerts[0].EndsAt.After(a.StartsAt) {
		t.Fatalf("after the repair: %+v", last)
	}
	if last.Alerts[0].Episode() != a.Episode() {
		t.Errorf("the resolved alert is episode %s, the firing one %s", last.Alerts[0].Episode(), a.Episode())
	}
}

// A replica that is added after the rollout was complete may load for long: the
// Deployment controller calls no rollout stuck for it.
func TestAddedReplicaIsNoStuckRollout(t *testing.T) {
	w, clock := open(t, "cold-start")
	_, ref := chat(w)
	clock.Advance(time.Minute)
	if now := workload(t, w, ref); now.Ready >= now.Replicas || now.Stuck != "" {
		t.Errorf("%d of %d ready, stuck %q", now.Ready, now.Replicas, now.Stuck)
	}
}

// A rollback that loads its model longer than the progress deadline is called
// stuck, and comes into effect later.
func TestSlowLoadOutlastsTheProgressDeadline(t *testing.T) {
	w, clock := open(t, "slow-load")
	_, ref := chat(w)
	rollback.do(t, w)
	for _, step := range []struct {
		after   time.Duration
		stuck   bool
		updated int // and ready, of the old or the new
	}{{9 * time.Minute, false, 0}, {2 * time.Minute, true, 0}, {2 * time.Minute, false, 4}} {
		clock.Advance(step.after)
		now := workload(t, w, ref)
		fresh := 0
		for _, p := range now.Pods {
			if p.Ready && p.Revision == now.Revision {
				fresh++
			}
		}
		if (now.Stuck != "") != step.stuck || fresh != step.updated || now.Ready < now.Replicas {
			t.Errorf("at %s: stuck %q, %d of the new ready, %d of all; want stuck %t, %d, at least %d", clock.Now().Format("15:04:05"), now.Stuck, fresh, now.Ready, step.stuck, step.updated, now.Replicas)
		}
	}
}

package kinds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestReleasesOfTheWindow: the releases of the window are weighed as one. What came
// after the breach began is not its cause and goes back all the same; the target is the
// newest revision that was good before it.
func TestReleasesOfTheWindow(t *testing.T) {
	const image, logs = "containers[vllm].image", "containers[vllm].args[--log-level]"
	fields := func(image_, logs_ string) map[string]string { return map[string]string{image: image_, logs: logs_} }
	at := func(number int64, ago time.Duration, f map[string]string) kube.Revision {
		return kube.Revision{Number: number, Name: fmt.Sprintf("chat-%d", number), Created: noon.Add(-ago), Active: noon.Add(-ago), Fields: f}
	}
	const day, breach = 24 * time.Hour, 13 * time.Minute // the first replicas of the bad release served 12m ago
	back := at(8, 2*day, fields("v1", "info"))
	back.Active = noon.Add(-6 * time.Minute)
	again := at(9, breach, fields("v2", "info"))
	again.Active, again.PutBack = noon.Add(-3*time.Minute), true
	tried := again
	tried.Acquitted = true
	ours := at(8, 2*day, fields("v1", "info"))
	ours.Active, ours.Ours = noon.Add(-6*time.Minute), true
	served := func(pod string, r kube.Revision) kube.Revision {
		r.Name = pod[:strings.LastIndexByte(pod, '-')]
		return r
	}
	tests := []struct {
		name         string
		revisions    func(pods []string) []kube.Revision // pods: of the world, of before the release
		pods         func([]kube.Pod) []kube.Pod
		suspect      bool
		target, base int64
		why, missing string
	}{
		{"a bad one, and a log level on top of it", func([]string) []kube.Revision {
			return []kube.Revision{at(6, 2*day, fields("v1", "info")), at(7, breach, fields("v2", "info")), at(8, 5*time.Minute, fields("v2", "warn"))}
		}, nil, true, 6, 6, "after revision 7 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before; revision 8, which came later, would go back with it; revision 6 was current before", ""},
		{"a bad one, and a fix of it that does not help", func([]string) []kube.Revision {
			return []kube.Revision{at(6, 2*day, fields("v1", "info")), at(7, breach, fields("v2", "info")), at(8, 5*time.Minute, fields("v3", "info"))}
		}, nil, true, 6, 6, "after revision 7 took effect, which changed image", ""},
		{"a log level, and a bad one", func(pods []string) []kube.Revision {
			return []kube.Revision{at(6, 2*day, fields("v1", "info")), served(pods[0], at(7, 50*time.Minute, fields("v1", "warn"))), at(8, breach, fields("v2", "warn"))}
		}, nil, true, 7, 6, "after revision 8 took effect, which changed image;", ""},
		{"nobody knows how the one before served", func([]string) []kube.Revision {
			return []kube.Revision{at(6, 2*day, fields("v1", "info")), at(7, 50*time.Minute, fields("v1", "warn")), at(8, breach, fields("v2", "warn"))}
		}, nil, true, 6, 6, "after revisions 7 and 8 took effect, which changed --log-level, image;", ""},
		{"both log levels", func([]string) []kube.Revision {
			return []kube.Revision{at(6, 2*day, fields("v1", "info")), at(7, 14*time.Minute, fields("v1", "warn")), at(8, breach, fields("v1", "error"))}
		}, nil, false, 6, 6, "revisions 7 and 8 changed --log-level only, which cannot", ""},
		{"a log level, and an image after the breach began", func([]string) []kube.Revision {
			return []kube.Revision{at(6, 2*day, fields("v1", "info")), at(7, breach, fields("v1", "warn")), at(8, 4*time.Minute, fields("v2", "warn"))}
		}, nil, false, 6, 6, "revision 7 changed --log-level only, which cannot change how requests are served; revision 8 came later", ""},
		{"one that is not known to be good is the oldest that is kept", func([]string) []kube.Revision {
			return []kube.Revision{at(6, 30*time.Minute, fields("v0", "info")), at(7, breach, fields("v2", "info")), at(8, 5*time.Minute, fields("v2", "warn"))}
		}, nil, true, 6, 0, "after revision 7 took effect, which changed image", "whether revision 6 is good is not known"},
		{"the oldest that is kept was good", func(pods []string) []kube.Revision {
			return []kube.Revision{served(pods[0], at(6, 30*time.Minute, fields("v0", "info"))), at(7, breach, fields("v2", "info")), at(8, 5*time.Minute, fields("v2", "warn"))}
		}, nil, true, 6, 0, "after revision 7 took effect, which changed image", ""},
		{"our rollback of it", func([]string) []kube.Revision {
			return []kube.Revision{at(7, breach, fields("v2", "info")), ours}
		}, nil, false, 0, 0, "revision 8 is a repair by Responder", ""},
		{"our rollback of it was undone", func([]string) []kube.Revision {
			return []kube.Revision{back, again}
		}, nil, true, 8, 8, "after revision 9 took effect, which changed image; traffic, in requests or prompt tokens, is 1.0 times that before; revision 8 was current before", ""},
		{"our rollback of it did not help, and was undone", func([]string) []kube.Revision {
			return []kube.Revision{back, tried}
		}, nil, false, 8, 8, "revision 9 was taken back, which did not help, and was put back 3m ago: it is not what is to be taken back", ""},
		{"somebody went back, and it did not help", func([]string) []kube.Revision {
			return []kube.Revision{at(7, breach, fields("v2", "info")), back}
		}, nil, false, 0, 0, "revision 8 is there again, as before revision 7: there is nothing left to take back", ""},
		{"none of its pods serves, nor of the one before", func([]string) []kube.Revision {
			return []kube.Revision{at(6, 2*day, fields("v1", "info")), at(7, 40*time.Minute, fields("v2", "info")), at(8, 20*time.Minute, fields("v2", "warn"))}
		}, func(pods []kube.Pod) []kube.Pod {
			for i := range pods {
				pods[i].Revision = 6
			}
			return append(pods, kube.Pod{Name: "chat-8-x", Revision: 8}, kube.Pod{Name: "chat-7-x", Revision: 7})
		}, false, 6, 6, "no pod of revisions 7 and 8 is ready, and as many of revision 6 serve as are wanted", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clock := sandbox.NewManualClock(noon)
			w, err := sandbox.New("bad-rollout", clock)
			if err != nil {
				t.Fatal(err)
			}
			svc := w.Services()[0]
			revisions := tt.revisions(former(t, w, svc))
			revisions[len(revisions)-1].Current = true
			got := changesOf(t, kinds.New(step.Deps{Querier: w, Workloads: alike{w, revisions, tt.pods}, Now: clock.Now}), svc)
			if !got.Changed || got.Suspect != tt.suspect || !strings.Contains(got.Why, tt.why) || !strings.Contains(got.Missing, tt.missing) || (got.Missing == "") != (tt.missing == "") {
				t.Errorf("%+v", got)
			}
			if got.Target != tt.target || got.Base != tt.base {
				t.Errorf("target %d, base %d, want %d and %d", got.Target, got.Base, tt.target, tt.base)
			}
			if tt.name == "our rollback of it was undone" && (got.Ours || got.WorkedAt == nil || !got.WorkedAt.Equal(noon.Add(-breach))) {
				t.Errorf("ours %t, worked at %v: the undo is nobody's work", got.Ours, got.WorkedAt)
			}
		})
	}
}

// TestReleasesUnmeasured: without Prometheus all of the window that came before the alert
// is weighed, and goes back. Of a release that cannot start the one that serves is the
// target, also where the release is older than the window.
func TestReleasesUnmeasured(t *testing.T) {
	const image, logs = "containers[vllm].image", "containers[vllm].args[--log-level]"
	revision := func(number int64, ago time.Duration, image_, logs_ string) kube.Revision {
		return kube.Revision{Number: number, Created: noon.Add(-ago), Active: noon.Add(-ago), Fields: map[string]string{image: image_, logs: logs_}}
	}
	const day, unread = 24 * time.Hour, "no Prometheus is configured"
	for _, tt := range []struct {
		name         string
		revisions    []kube.Revision
		suspect      bool
		target, base int64
		why, missing string
	}{
		{
			"a bad one, and a log level",
			[]kube.Revision{revision(6, day, "v1", "info"), revision(7, 20*time.Minute, "v2", "info"), revision(8, 6*time.Minute, "v2", "warn")},
			true, 6, 6, "after revisions 7 and 8 took effect, which changed --log-level, image", unread,
		},
		{
			"an image after the alert",
			[]kube.Revision{revision(6, day, "v1", "info"), revision(7, 20*time.Minute, "v1", "warn"), revision(8, 2*time.Minute, "v2", "warn")},
			false, 6, 6, "revision 7 changed --log-level only", unread,
		},
		{
			"all after the alert",
			[]kube.Revision{revision(6, day, "v1", "info"), revision(7, 2*time.Minute, "v2", "info"), revision(8, time.Minute, "v2", "warn")},
			false, 6, 6, "before revision 7 took effect", unread,
		},
		{
			"none of before the window is kept",
			[]kube.Revision{revision(6, 30*time.Minute, "v1", "info"), revision(7, 20*time.Minute, "v2", "info"), revision(8, 6*time.Minute, "v2", "warn")},
			true, 7, 0, "revisions 7 and 8 took effect", "whether revision 6 is good is not known",
		},
		{
			"it cannot start, and is older than the window",
			[]kube.Revision{revision(3, day, "v1", "info"), revision(8, 5*time.Hour, "v2", "info"), revision(9, 4*time.Hour, "v2", "warn")},
			false, 3, 3, "no release within 1h", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := sandbox.New("bad-rollout", sandbox.NewManualClock(noon))
			if err != nil {
				t.Fatal(err)
			}
			tt.revisions[2].Current = true
			got := changesOf(t, kinds.New(step.Deps{Workloads: alike{w, tt.revisions, nil}, Now: func() time.Time { return noon }}), w.Services()[0])
			if got.Suspect != tt.suspect || !strings.Contains(got.Why, tt.why) || !strings.Contains(got.Missing, tt.missing) || got.Target != tt.target || got.Base != tt.base {
				t.Errorf("%+v", got)
			}
		})
	}
}

// former returns the pods that served half an hour ago.
func former(t *testing.T, w *sandbox.World, svc playbook.Service) []string {
	t.Helper()
	v, err := w.Instant(t.Context(), "sum by (pod) (rate(vllm:request_success_total{"+svc.Selector+"}[5m]))", noon.Add(-30*time.Minute))
	if err != nil || len(v.Samples) == 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	var out []string
	for _, s := range v.Samples {
		out = append(out, s.Labels["pod"])
	}
	return out
}

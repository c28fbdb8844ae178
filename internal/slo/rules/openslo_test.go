package rules

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// OpenSLO's forms of an objective are the same objective: they record and alert
// as the Sloth document does.
func TestOpenSLOMeansTheSame(t *testing.T) {
	objectives, notes := read(t, Options{}, "openslo.yaml")
	if len(notes) > 0 {
		t.Errorf("notes: %v", notes)
	}
	of, _ := groups(t, objectives)
	open := parsed(t, of...)
	objectives, _ = read(t, Options{Period: 28 * 24 * time.Hour}, "sloth.yaml")
	of, _ = groups(t, objectives)
	sloth := parsed(t, of...)
	a, b := newPrometheus(t), newPrometheus(t)
	replicas(a, days6)
	replicas(b, days6)
	fired := map[string]bool{}
	for m := 120; m < days6; m += 120 {
		at := start.Add(time.Duration(m) * scrape)
		want, got := alerts(a.evaluate(sloth, at)), alerts(b.evaluate(open, at))
		for _, s := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"} {
			for slo, other := range map[string]string{"chat-first-token": "chat-first-token", "chat-availability": "chat-availability-0"} {
				x, y := recordings(a, "slo_id")[slo+" "+s], recordings(b, "slo_id")[other+" "+s]
				if !cmp.Equal(x, y, near()) {
					t.Fatalf("after %dm %s over %s: Sloth's %v, OpenSLO's %v", m, slo, s, x, y)
				}
			}
		}
		// The Sloth document has no tickets for availability, and OpenSLO's a second, looser objective.
		for _, id := range []string{"chat-first-token InferenceTTFTFastBurn", "chat-first-token InferenceTTFTSlowBurn", "chat-first-token InferenceTTFTBudgetBurn"} {
			if want[id] != got[id] {
				t.Fatalf("after %dm %s: Sloth's %v, OpenSLO's %v", m, id, want[id], got[id])
			}
		}
		if want["chat-availability InferenceErrorsFastBurn"] != got["chat-availability-0 InferenceErrorsFastBurn"] {
			t.Fatalf("after %dm: availability differs: %v, %v", m, want, got)
		}
		maps.Copy(fired, got)
	}
	for _, id := range []string{
		"chat-first-token InferenceTTFTSlowBurn", "chat-first-token InferenceTTFTBudgetBurn", "chat-availability-0 InferenceErrorsSlowBurn",
		"chat-satisfied InferenceGoodputSlowBurn",
	} {
		if !fired[id] {
			t.Errorf("%s never fired: %v", id, fired)
		}
	}
}

func alerts(firing []map[string]string) map[string]bool {
	out := map[string]bool{}
	for _, l := range firing {
		out[l["slo_id"]+" "+l["alertname"]] = true
	}
	return out
}

// A threshold metric has no value while nobody asks anything: that time counts as
// neither good nor bad.
func TestThresholdMetricOfNothing(t *testing.T) {
	objectives, _ := read(t, Options{}, "openslo.yaml")
	p := newPrometheus(t)
	p.scrape(`chat_satisfaction_ratio{service="chat"}`, 60, func(m int) float64 {
		switch {
		case m < 20:
			return 0.5
		case m < 40:
			return nan // 0 / 0
		default:
			return 1
		}
	})
	ratio := objectives[len(objectives)-1].Ratio
	v := p.query(over(ratio, time.Hour), start.Add(59*time.Minute))
	if len(v) != 1 || v[0].F < 0.45 || v[0].F > 0.55 {
		t.Errorf("share of bad minutes: %v, want half of those that have a value", v)
	}
}

// Labels of documents stay, and so does their runbook; notes of other programs are
// no annotations of alerts.
func TestLabelsStay(t *testing.T) {
	objectives, _ := read(t, Options{}, "openslo.yaml")
	g, _, err := objectives[0].Group()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"namespace": "serving", "service": "chat", "owner": "ml-platform", "slo": "first-token", "slo_id": "chat-first-token"}
	if diff := cmp.Diff(want, g.Rules[0].Labels); diff != "" {
		t.Errorf("recording (-want +got):\n%s", diff)
	}
	alert := g.Rules[len(g.Rules)-1]
	if alert.Annotations["runbook_url"] != "https://runbooks.example/first-token" || len(alert.Annotations) != 2 {
		t.Errorf("annotations %v", alert.Annotations)
	}
}

package rules

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/rulefmt"
)

// incident returns the share of bad requests at a minute of six days that cross
// every threshold of every pair, up and down.
func incident(m int) float64 {
	const hour, day = 60, 24 * 60
	switch {
	case m < 5*hour:
		return 0
	case m < 5*hour+80:
		return 0.2 // fast
	case m < 12*hour:
		return 0.001
	case m < 21*hour:
		return 0.075 // slow
	case m < 30*hour:
		return 0
	case m < 54*hour:
		return 0.034 // a ticket within a day
	case m < 5*day:
		return 0.0125 // and one within three
	default:
		return 0.0001
	}
}

// replicas writes two replicas of vLLM: one restarts, one is not scraped for a
// while, and for an hour nobody asks anything.
func replicas(p *prometheus, minutes int) {
	for _, pod := range []string{"a", "b"} {
		var total, slow, failed float64
		rows := make([][3]float64, minutes)
		for m := range minutes {
			rate := 300.0
			if m >= 24*60 && m < 25*60 {
				rate = 0
			}
			if pod == "b" && m == 8*60 {
				total, slow, failed = 0, 0, 0
			}
			total, slow, failed = total+rate, slow+rate*incident(m), failed+rate*incident(m)/10
			rows[m] = [3]float64{total, slow, failed}
		}
		at := func(f func(total, slow, failed float64) float64) func(int) float64 {
			return func(m int) float64 {
				if pod == "a" && m >= 14*60 && m < 14*60+20 {
					return math.NaN()
				}
				return f(rows[m][0], rows[m][1], rows[m][2])
			}
		}
		of := func(name, more string) string {
			return name + `{namespace="serving",service="chat",pod="` + pod + `",model_name="llama"` + more + `}`
		}
		all := at(func(total, _, _ float64) float64 { return total })
		p.scrape(of("vllm:time_to_first_token_seconds_count", ""), minutes, all)
		p.scrape(of("vllm:time_to_first_token_seconds_bucket", `,le="0.5"`), minutes, at(func(total, slow, _ float64) float64 { return total - slow }))
		p.scrape(of("vllm:time_to_first_token_seconds_bucket", `,le="+Inf"`), minutes, all)
		p.scrape(of("vllm:request_success_total", `,finished_reason="stop"`), minutes, at(func(total, _, failed float64) float64 { return total - failed }))
		p.scrape(of("vllm:request_success_total", `,finished_reason="error"`), minutes, at(func(_, _, failed float64) float64 { return failed }))
		p.scrape(of("chat_satisfaction_ratio", ""), minutes, func(m int) float64 { return 1 - 5*incident(m) })
	}
}

const days6 = 6 * 24 * 60

// The rules of a Sloth document fire when, and only when, Sloth's own rules do.
func TestRulesMeanWhatSlothsMean(t *testing.T) {
	data, err := os.ReadFile("testdata/sloth.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sloths := parseRules(t, data)
	objectives, _ := read(t, Options{Period: 28 * 24 * time.Hour}, "sloth.yaml")
	of, notes := groups(t, objectives)
	if len(notes) > 0 {
		t.Errorf("notes: %v", notes)
	}
	ours := parsed(t, of...)
	a, b := newPrometheus(t), newPrometheus(t)
	replicas(a, days6)
	replicas(b, days6)
	edges := map[string]int{}
	var before []string
	for m := 30; m < days6; m += 30 {
		at := start.Add(time.Duration(m) * scrape)
		want, got := severities(a, sloths, at), severities(b, ours, at)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after %s (-Sloth's +ours):\n%s", time.Duration(m)*scrape, diff)
		}
		if diff := cmp.Diff(recordings(a, "sloth_id"), recordings(b, "sloth_id"), near()); diff != "" {
			t.Fatalf("after %s (-Sloth's +ours):\n%s", time.Duration(m)*scrape, diff)
		}
		for _, s := range want {
			if !slices.Contains(before, s) {
				edges[s]++
			}
		}
		before = want
	}
	// It is a proof only if all of them have fired, and have ended and fired again.
	for _, s := range []string{"chat-first-token page", "chat-first-token ticket", "chat-availability page", "chat-satisfaction page", "chat-satisfaction ticket"} {
		if edges[s] == 0 {
			t.Errorf("%s never fired: %v", s, edges)
		}
	}
	if edges["chat-first-token page"] < 2 {
		t.Errorf("pages fired %d times, want an incident for each pair of windows", edges["chat-first-token page"])
	}
}

// severities returns the objectives whose alerts fire, by severity.
func severities(p *prometheus, rules *rulefmt.RuleGroups, at time.Time) []string {
	var out []string
	for _, l := range p.evaluate(rules, at) {
		out = append(out, l["sloth_id"]+" "+l["sloth_severity"])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// recordings returns the newest values of the recorded shares.
func recordings(p *prometheus, id string) map[string]float64 {
	out := map[string]float64{}
	for _, w := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"} {
		for _, s := range p.byName["slo:sli_error:ratio_rate"+w] {
			out[s.labels.Get(id)+" "+w] = s.samples[len(s.samples)-1].F()
		}
	}
	return out
}

func near() cmp.Option {
	return cmp.Comparer(func(a, b float64) bool {
		return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-12
	})
}

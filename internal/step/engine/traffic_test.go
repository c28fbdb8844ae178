package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// TestTraffic: what changed of the requests since the breach began eighteen minutes
// ago; what is not known says so.
func TestTraffic(t *testing.T) {
	replicas := func(v vllm, of ...string) func(*store) {
		return func(s *store) {
			v.labels = map[string]string{}
			for i := 0; i < len(of); i += 2 {
				v.labels[of[i]] = of[i+1]
			}
			for i := range 3 {
				v.add(s, podName(i), nil)
			}
		}
	}
	more := changed(func(v *vllm) { v.requests = 5 })
	long := changed(func(v *vllm) { v.prompt = 2000 })
	both := changed(func(v *vllm) { v.prompt, v.requests = 2000, 3.5 })
	arrives := vllm{requests: 1, prompt: 600, output: 200, was: &vllm{}}
	yesterday := func(s *store) {
		s.ago = 24 * time.Hour
		replicas(vllm{requests: 5, prompt: 600, output: 200})(s)
		s.ago = 0
	}
	queued := func(s *store) { // it finishes no more than before, and the rest piles up
		usual().add(s, "a", func(name string, i, v float64) float64 {
			if name == "vllm:num_requests_waiting" {
				return max(0, i-changedAt) * 60
			}
			return v
		})
	}
	for name, tt := range map[string]struct {
		world []func(*store)
		shape string
		said  []string
	}{
		"as before":          {[]func(*store){replicas(usual())}, "none", []string{"1 times the requests, prompts 1 times as long", "a day ago: not known", "a week ago: not known", "no series has the label route"}},
		"burst":              {[]func(*store){replicas(more)}, "burst", []string{"15 requests per second arrive, before the breach 6"}},
		"usual at this time": {[]func(*store){replicas(more), yesterday}, "burst", []string{"against a day ago: 1 times the requests"}},
		"what piles up":      {[]func(*store){queued}, "burst", []string{"6 requests per second arrive, before the breach 2"}},
		"long prompts":       {[]func(*store){replicas(long)}, "long_prompts", []string{"2000 tokens on average", "before 600 tokens on average (p95 1700)"}},
		"more and longer":    {[]func(*store){replicas(both)}, "long_prompts", nil},
		"a new model":        {[]func(*store){replicas(usual()), replicas(arrives, "model_name", `lora "b"`)}, "burst", []string{`new since the breach began: model_name "lora \"b\"" (33.3 % of the requests)`}},
		"a new route": {
			[]func(*store){replicas(vllm{requests: 6, prompt: 600, output: 200}, "route", "/a"), replicas(arrives, "route", "/b")},
			"new_label",
			[]string{`14.3 % of the requests have route "/b", none had it before the breach`},
		},
		"no traffic":       {[]func(*store){replicas(vllm{})}, "unknown", []string{"fewer than 20 requests are known to have arrived within 5m"}},
		"no series":        {nil, "unknown", []string{"none of these series exists"}},
		"no time before":   {[]func(*store){func(s *store) { usual().add(s, "a", lastScrapes(40)) }}, "unknown", []string{"nothing was measured before the breach", "which values the label model_name had before is not known"}},
		"scraped unevenly": {[]func(*store){replicas(usual()), func(s *store) { v := usual(); v.labels = map[string]string{"job": "pods"}; v.add(s, podName(0), nil) }}, "unknown", []string{"some replicas are scraped more often"}},
	} {
		s := &store{}
		for _, add := range tt.world {
			add(s)
		}
		in := step.Input{Alert: playbook.Alert{StartsAt: end.Add(-18 * time.Minute)}}
		out, facts := find[trafficOut](t, s, NewTraffic, in)
		if out.Shape != tt.shape || !out.Since.Equal(in.Alert.StartsAt) {
			t.Errorf("%s: %s since %s: %q", name, out.Shape, out.Since, facts)
		}
		for _, said := range tt.said {
			if !strings.Contains(strings.Join(facts, "\n"), said) {
				t.Errorf("%s: %q is not in %q", name, said, facts)
			}
		}
		if s.queries > 5 {
			t.Errorf("%s: %d queries", name, s.queries)
		}
	}
}

// TestTrafficPartial: a part of an answer shows no shape.
func TestTrafficPartial(t *testing.T) {
	s := &store{}
	for _, route := range []string{"/a", "/b"} {
		v := usual()
		v.labels = map[string]string{"route": route}
		v.requests = 8
		v.add(s, "on"+route, nil)
	}
	in := step.Input{Service: chat(), Now: end, Alert: playbook.Alert{StartsAt: end.Add(-18 * time.Minute)}}
	find[trafficOut](t, s, NewTraffic, in)
	last := s.queries
	for n := last - 2; n <= last; n++ { // the view, the load, the values of labels
		s.queries = 0
		f, err := NewTraffic(step.Deps{Querier: partly{s, n}}).Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := f.Out.(trafficOut); out.Shape != shapeUnknown || len(out.New) > 0 {
			t.Errorf("query %d of %d: %s %q", n, last, out.Shape, f.Facts)
		}
	}
}

package kinds_test

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/slo/slotest"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// A change that does harm is called worse as soon as enough requests show it. Requests
// that waited for a change that helps finish late, too, while the queue gets shorter.
func TestWorseIsSaidEarly(t *testing.T) {
	level := func(time.Duration) float64 { return 0 }
	const fixed = 30 * time.Minute // after the first sample; every second request was slow for all of it
	for name, c := range map[string]struct {
		slow   float64 // share of the requests since the change
		queue  func(since time.Duration) float64
		change func(e *machine.Effect)
		worse  time.Duration
	}{
		"without a queue":              {1, level, nil, 2 * time.Minute},
		"the queue grows":              {1, func(d time.Duration) float64 { return d.Seconds() }, nil, 2 * time.Minute},
		"the queue gets shorter":       {1, func(d time.Duration) float64 { return 900 - d.Seconds() }, nil, 0},
		"no gauge of the queue":        {1, nil, nil, 0},
		"warming up":                   {0.8, level, nil, 0},
		"as before":                    {0.5, level, nil, 0},
		"better":                       {0.3, level, nil, 0},
		"all replicas started anew":    {1, level, func(e *machine.Effect) { e.Proof.Anew = true }, 0},
		"the router's queue is hidden": {1, level, func(e *machine.Effect) { e.Service.Engine = "dynamo" }, 0},
		"told when a request ends":     {1, level, func(e *machine.Effect) { e.Service.SLOs[0].Indicator = "e2e" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := slotest.Store{}
			var fast, all, waiting, running []slo.Point
			good, total := 0.0, 0.0
			for at := time.Duration(0); at <= fixed+5*time.Minute; at += 15 * time.Second {
				since, slow := at-fixed, 0.5
				if since > 0 {
					slow = c.slow
				}
				total, good = total+150, good+150*(1-slow)
				when := noon.Add(since)
				fast, all = append(fast, slo.Point{At: when, Value: good}), append(all, slo.Point{At: when, Value: total})
				running = append(running, slo.Point{At: when, Value: 8})
				if c.queue != nil {
					waiting = append(waiting, slo.Point{At: when, Value: c.queue(max(since, 0))})
				}
			}
			labels := func(le string) map[string]string {
				return map[string]string{"namespace": "serving", "pod": "chat-1", "instance": "chat-1", "model_name": "m", "le": le}
			}
			const ttft = "vllm:time_to_first_token_seconds_"
			store.Add(ttft+"bucket", labels("0.5"), fast)
			store.Add(ttft+"bucket", labels("+Inf"), all)
			store.Add(ttft+"count", labels(""), all)
			const whole = "vllm:e2e_request_latency_seconds_"
			store.Add(whole+"bucket", labels("0.5"), fast)
			store.Add(whole+"bucket", labels("+Inf"), all)
			store.Add(whole+"count", labels(""), all)
			store.Add("vllm:request_success_total", labels(""), all)
			store.Add("vllm:num_requests_running", labels(""), running)
			if c.queue != nil {
				store.Add("vllm:num_requests_waiting", labels(""), waiting)
			}
			worse := time.Duration(0)
			for since := 15 * time.Second; since < 3*time.Minute && worse == 0; since += 15 * time.Second {
				now := noon.Add(since)
				e := proofOf(machine.Proof{})
				e.Service = playbook.Service{Name: "chat", Engine: "vllm", Selector: `namespace="serving"`, SLOs: []playbook.SLO{{Name: "ttft", Threshold: 0.5, Objective: 0.99, Window: 28 * 24 * time.Hour}}}
				e.Proof.Spec = machine.VerifySpec{SLO: true, Hold: 3 * time.Minute, Within: 20 * time.Minute, Interval: 15 * time.Second}
				e.Proof.FixedAt, e.Proof.Planned = noon, noon.Add(-time.Minute)
				e.Key, e.Run = "r-1/s#1/x#1", "r-1"
				if c.change != nil {
					c.change(&e)
				}
				o := kinds.New(step.Deps{Querier: store, Workloads: fleet{}, Now: func() time.Time { return now }}).Do(t.Context(), e)
				if o.Status != machine.StatusOK {
					t.Fatalf("%+v", o)
				}
				switch o.Sample.Verdict {
				case machine.VerdictWorse:
					worse = since
				case machine.VerdictWatching:
				default:
					t.Errorf("after %s: %s: %s", since, o.Sample.Verdict, o.Sample.Message)
				}
			}
			if worse != c.worse {
				t.Errorf("worse after %s, want %s (0s: not before the hold time)", worse, c.worse)
			}
		})
	}
}

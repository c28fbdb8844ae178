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

// served is what a replica shows of requests that end every 15 s, from a time before a
// change took effect at noon until 20 minutes after it.
func served(before time.Duration, each func(since time.Duration) (requests, slow float64), queue func(since time.Duration) float64) slotest.Store {
	store := slotest.Store{}
	var fast, all, waiting, running []slo.Point
	good, total := 0.0, 0.0
	for since := -before; since <= 20*time.Minute; since += 15 * time.Second {
		requests, slow := each(since)
		total, good = total+requests, good+requests*(1-slow)
		when := noon.Add(since)
		fast, all = append(fast, slo.Point{At: when, Value: good}), append(all, slo.Point{At: when, Value: total})
		running = append(running, slo.Point{At: when, Value: 8})
		if queue != nil {
			waiting = append(waiting, slo.Point{At: when, Value: queue(max(since, 0))})
		}
	}
	labels := func(le string) map[string]string {
		return map[string]string{"namespace": "serving", "pod": "chat-1", "instance": "chat-1", "model_name": "m", "le": le}
	}
	for _, name := range []string{"vllm:time_to_first_token_seconds_", "vllm:e2e_request_latency_seconds_"} {
		store.Add(name+"bucket", labels("0.5"), fast)
		store.Add(name+"bucket", labels("+Inf"), all)
		store.Add(name+"count", labels(""), all)
	}
	store.Add("vllm:request_success_total", labels(""), all)
	store.Add("vllm:num_requests_running", labels(""), running)
	if queue != nil {
		store.Add("vllm:num_requests_waiting", labels(""), waiting)
	}
	return store
}

// proofOfTTFT is the proof of a change that took effect at noon.
func proofOfTTFT() machine.Effect {
	e := proofOf(machine.Proof{})
	e.Service = playbook.Service{Name: "chat", Engine: "vllm", Selector: `namespace="serving"`, SLOs: []playbook.SLO{{Name: "ttft", Threshold: 0.5, Objective: 0.99, Window: 28 * 24 * time.Hour}}}
	e.Proof.Spec = machine.VerifySpec{SLO: true, Hold: 3 * time.Minute, Within: 20 * time.Minute, Interval: 15 * time.Second}
	e.Proof.FixedAt, e.Proof.Planned = noon, noon.Add(-time.Minute)
	e.Key, e.Run = "r-1/s#1/x#1", "r-1"
	return e
}

// A burst during the proof of a rollback says nothing of the release: the rollback is
// neither called worse nor without effect, and the release is not acquitted.
func TestMoreTrafficHidesARollback(t *testing.T) {
	for name, c := range map[string]struct {
		times, slow float64 // requests in multiples of before, and the share that is slow now
		change      string
		now, ends   machine.Verdict
	}{
		"worse":                       {1, 1, "release", machine.VerdictWorse, machine.VerdictWorse},
		"worse under a burst":         {2.5, 1, "release", machine.VerdictInconclusive, machine.VerdictInconclusive},
		"worse in a larger burst":     {1.2, 1, "release", machine.VerdictInconclusive, machine.VerdictInconclusive},
		"no effect in a larger burst": {1.2, 0.5, "release", machine.VerdictWatching, machine.VerdictNoEffect},
		"no effect":                   {1, 0.5, "release", machine.VerdictWatching, machine.VerdictNoEffect},
		"no effect under a burst":     {2.5, 0.5, "release", machine.VerdictWatching, machine.VerdictInconclusive},
		"well under a burst":          {2.5, 0, "release", machine.VerdictVerified, machine.VerdictImproved},
		"replicas, worse":             {1, 1, "added", machine.VerdictWorse, machine.VerdictWorse},
		"replicas, in a larger burst": {1.2, 1, "added", machine.VerdictInconclusive, machine.VerdictInconclusive},
		"replicas, no effect":         {1.2, 0.5, "added", machine.VerdictWatching, machine.VerdictNoEffect},
		"another lever in a burst":    {2.5, 1, "", machine.VerdictWorse, machine.VerdictWorse},
	} {
		store := served(30*time.Minute, func(since time.Duration) (requests, slow float64) {
			if since > 0 {
				return 150 * c.times, c.slow
			}
			return 150, 0.5
		}, func(time.Duration) float64 { return 40 })
		now := noon.Add(4 * time.Minute)
		e := proofOfTTFT()
		e.Proof.Release, e.Proof.Anew, e.Proof.Added = c.change == "release", c.change == "release", c.change == "added"
		o := kinds.New(step.Deps{Querier: store, Workloads: fleet{}, Now: func() time.Time { return now }}).Do(t.Context(), e)
		if o.Status != machine.StatusOK || o.Sample.Verdict != c.now || o.Sample.Ends != c.ends {
			t.Errorf("%s: %s, ends %s, want %s, ends %s: %+v", name, o.Sample.Verdict, o.Sample.Ends, c.now, c.ends, o)
		}
	}
}

// Requests that fail end at once. More of them are no larger load, and do not hide that
// replicas were added to a release that fails.
func TestFailuresAreNoLargerLoad(t *testing.T) {
	for name, c := range map[string]struct {
		succeed, fail float64 // requests every 15 s since the change; 150 and none before
		want          machine.Verdict
	}{
		"they take the place of those that succeed": {100, 150, machine.VerdictWorse},
		"in a larger burst, of which more succeed":  {200, 50, machine.VerdictInconclusive},
	} {
		store := slotest.Store{}
		for reason, each := range map[string][2]float64{"stop": {150, c.succeed}, "error": {0, c.fail}} {
			var all []slo.Point
			total := 0.0
			for since := -30 * time.Minute; since <= 5*time.Minute; since += 15 * time.Second {
				if total += each[0]; since > 0 {
					total += each[1] - each[0]
				}
				all = append(all, slo.Point{At: noon.Add(since), Value: total})
			}
			store.Add("vllm:request_success_total", map[string]string{"namespace": "serving", "pod": "chat-1", "instance": "chat-1", "model_name": "m", "finished_reason": reason}, all)
		}
		now := noon.Add(4 * time.Minute)
		e := proofOfTTFT()
		e.Service.SLOs = []playbook.SLO{{Name: "errors", Indicator: "errors", Objective: 0.99, Window: 28 * 24 * time.Hour}}
		e.Proof.Added = true
		o := kinds.New(step.Deps{Querier: store, Workloads: fleet{}, Now: func() time.Time { return now }}).Do(t.Context(), e)
		if o.Status != machine.StatusOK || o.Sample.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, o.Sample.Verdict, c.want, o)
		}
	}
}

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
			store := served(fixed, func(since time.Duration) (requests, slow float64) {
				if since > 0 {
					return 150, c.slow
				}
				return 150, 0.5
			}, c.queue)
			worse := time.Duration(0)
			for since := 15 * time.Second; since < 3*time.Minute && worse == 0; since += 15 * time.Second {
				now := noon.Add(since)
				e := proofOfTTFT()
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

// A proof that is missed and would be missed at its deadline, too, ends: the run is
// needed for what burns. One that gets better, or may yet, has the time it was given.
func TestWhatLastsEndsTheProof(t *testing.T) {
	level := func(time.Duration) float64 { return 40 }
	always := func(share float64) func(time.Duration) float64 {
		return func(time.Duration) float64 { return share }
	}
	for name, c := range map[string]struct {
		slow   func(since time.Duration) float64 // share of the requests since the change; 0.5 before
		queue  func(since time.Duration) float64
		change func(e *machine.Effect)
		after  time.Duration // 0: not before the deadline
		ends   machine.Verdict
	}{
		"as before":                    {always(0.5), level, nil, 6 * time.Minute, machine.VerdictNoEffect},
		"better, and not good":         {always(0.2), level, nil, 6 * time.Minute, machine.VerdictImproved},
		"the queue grows":              {always(0.5), func(d time.Duration) float64 { return 40 + d.Seconds() }, nil, 6 * time.Minute, machine.VerdictNoEffect},
		"in a larger burst":            {always(0.5), level, func(e *machine.Effect) { e.Proof.Release = true }, 6 * time.Minute, machine.VerdictInconclusive},
		"falling":                      {func(d time.Duration) float64 { return 0.5 - 0.3*d.Minutes()/20 }, level, nil, 0, ""},
		"the queue gets shorter":       {always(0.5), func(d time.Duration) float64 { return 1200 - d.Seconds() }, nil, 0, ""},
		"no gauge of the queue":        {always(0.5), nil, nil, 0, ""},
		"the router's queue is hidden": {always(0.5), level, func(e *machine.Effect) { e.Service.Engine = "dynamo" }, 0, ""},
		"hardly outside":               {always(0.012), level, nil, 0, ""},
		"better after four minutes":    {func(d time.Duration) float64 { return map[bool]float64{true: 0.5, false: 0.2}[d < 4*time.Minute] }, level, nil, 9*time.Minute + 30*time.Second, machine.VerdictImproved},
		"a hold time of five minutes":  {always(0.5), level, func(e *machine.Effect) { e.Proof.Spec.Hold = 5 * time.Minute }, 10 * time.Minute, machine.VerdictNoEffect},
	} {
		t.Run(name, func(t *testing.T) {
			store := served(30*time.Minute, func(since time.Duration) (requests, slow float64) {
				switch {
				case since <= 0:
					return 200, 0.5
				case name == "in a larger burst":
					return 500, c.slow(since)
				}
				return 200, c.slow(since)
			}, c.queue)
			after, ends := time.Duration(0), machine.Verdict("")
			for since := 3 * time.Minute; since < 20*time.Minute && after == 0; since += 15 * time.Second {
				now := noon.Add(since)
				e := proofOfTTFT()
				if c.change != nil {
					c.change(&e)
				}
				o := kinds.New(step.Deps{Querier: store, Workloads: fleet{}, Now: func() time.Time { return now }}).Do(t.Context(), e)
				if o.Status != machine.StatusOK {
					t.Fatalf("%+v", o)
				}
				if o.Sample.Verdict == machine.VerdictFailed {
					after, ends = since, o.Sample.Ends
				}
			}
			if after != c.after || ends != c.ends {
				t.Errorf("ends %s after %s, want %s after %s (0s: not before the deadline)", ends, after, c.ends, c.after)
			}
		})
	}
}

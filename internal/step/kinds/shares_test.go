package kinds_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

type wholeFleet map[string]kube.ReplicaCount

// Replicas implements [step.Fleet].
func (c wholeFleet) Replicas(_ context.Context, refs []kube.Ref) (map[kube.Ref]kube.ReplicaCount, error) {
	out := map[kube.Ref]kube.ReplicaCount{}
	for _, r := range refs {
		n, ok := c[r.Namespace+"/"+r.Name]
		if !ok {
			return nil, errors.New("there is no " + r.Namespace + "/" + r.Name)
		}
		out[r] = n
	}
	return out, nil
}

// TestShares: a lever that costs ready replicas says what they are a share of, in the
// namespace and in all; what cannot be counted is unknown.
func TestShares(t *testing.T) {
	own := service("Deployment")
	place := own.Namespace
	at := func(namespace, name string) playbook.Service {
		s := own
		s.Namespace, s.Name, s.Workload.Name = namespace, namespace+"/"+name, name
		return s
	}
	gateway := at(place, "gateway")
	gateway.Workload = playbook.Workload{} // it has no replicas of its own
	services := []playbook.Service{own, at(place, "embed"), at("other", "rank"), gateway}
	all := wholeFleet{place + "/" + own.Workload.Name: {Wanted: 3, Ready: 2}, place + "/embed": {Wanted: 4, Ready: 5}, "other/rank": {Wanted: 5, Ready: 0}}
	shares := func(f step.Fleet, by int64, of ...playbook.Service) []machine.Share {
		t.Helper()
		o := do(t, step.Deps{Workloads: fleet{}, Changer: fleet{}, Fleet: f, Services: func() []playbook.Service { return of }}, machine.Effect{
			Action: machine.ActionPlan, Step: "kube.scale", With: map[string]any{"by": by},
		})
		if o.Plan == nil {
			t.Fatalf("%s: %s", o.Status, o.Message)
		}
		return o.Plan.Shares
	}
	for name, tt := range map[string]struct{ got, want []machine.Share }{
		"loses one":     {shares(all, -2, services...), []machine.Share{{Wanted: 12, Missing: 6, Lost: 1}, {Namespace: place, Wanted: 7, Missing: 1, Lost: 1}}},
		"adds one":      {shares(all, 1, services...), nil},
		"nobody counts": {shares(nil, -2, services...), nil},
		"one is not there": {shares(all, -2, append(services, at("other", "gone"))...), []machine.Share{
			{Unknown: "replicas of services: there is no other/gone", Lost: 1}, {Namespace: place, Wanted: 7, Missing: 1, Lost: 1},
		}},
		"the catalog has lost it": {shares(all, -2), []machine.Share{{Wanted: 3, Missing: 1, Lost: 1}, {Namespace: place, Wanted: 3, Missing: 1, Lost: 1}}},
	} {
		if d := cmp.Diff(tt.want, tt.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

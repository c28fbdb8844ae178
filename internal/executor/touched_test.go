package executor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// onNode is the world with a lever that acts on others too.
type onNode struct {
	*world

	touches []machine.Touched
}

// Do implements Steps.
func (w onNode) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	out := w.world.Do(ctx, e)
	if out.Plan != nil {
		plan := *out.Plan
		plan.Touches, out.Plan = w.touches, &plan
	}
	return out
}

var neighbours = []machine.Touched{
	{Namespace: "kube-system"},
	{Service: "b", Namespace: "serving", Owners: []string{"user:bob"}},
}

// touching starts a rig with a lever of service a that touches service b, and pods of
// no service. known is the catalog.
func touching(h *rig, known func() ([]playbook.Service, error), policy guard.Policy) {
	h.options = func(o *Options) {
		o.Steps, o.Catalog, o.Policy = onNode{h.world, neighbours}, known, policy
	}
	h.start()
}

func catalogOf(b playbook.Autonomy) func() ([]playbook.Service, error) {
	return func() ([]playbook.Service, error) {
		return []playbook.Service{{Name: "a", Autonomy: playbook.Auto}, {Name: "b", Namespace: "serving", Autonomy: b, Owners: []string{"user:bob"}}}, nil
	}
}

// A lever of a service at auto that acts on another service, too, goes no further than
// that one allows.
func TestTouchedServiceLimitsAutonomy(t *testing.T) {
	for name, tt := range map[string]struct {
		level   playbook.Autonomy
		applied int
		asks    string
	}{
		"auto":    {playbook.Auto, 1, ""},
		"suggest": {playbook.Suggest, 0, "user:bob, group:sre (owners of service b, with pods on the node, who are among user:bob)"},
		"observe": {playbook.Observe, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				touching(h, catalogOf(tt.level), nil)
				h.post(alertOf("Slow", "a"))
				h.pass(14 * time.Minute)
				s := h.only()
				if n := h.world.count("apply"); n != tt.applied {
					t.Errorf("%d applied, want %d: %s", n, tt.applied, s.Phase)
				}
				if (s.Gate != nil) != (tt.asks != "") || s.Gate != nil && !strings.Contains(s.Gate.Who(), tt.asks) {
					t.Errorf("it asks %+v, want %q", s.Gate, tt.asks)
				}
				if tt.level == playbook.Observe && (s.Ending == nil || !strings.Contains(s.Ending.Message, "service b, with pods on the node")) {
					t.Errorf("it ended %+v, without the service that made it so", s.Ending)
				}
			})
		})
	}
}

// Each service that a lever touches is asked by its own owners.
func TestTouchedServicesOwnersAreAsked(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		touching(h, catalogOf(playbook.Suggest), nil)
		h.post(alertOf("Slow", "a"))
		h.pass(time.Second)
		id := h.only().Start.Run
		if err := h.e.Command(t.Context(), id, yes("ada")); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Minute)
		if n := h.world.count("apply"); n != 0 {
			t.Fatalf("%d applied with a yes of the owner of one service of two", n)
		}
		lacking := yes("bob")
		lacking.Decision.Lacks = []string{"b"}
		if err := h.e.Command(t.Context(), id, lacking); !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "user:bob lacks the right approve on service b") {
			t.Fatalf("a yes without the right on their service: %v", err)
		}
		if err := h.e.Command(t.Context(), id, yes("bob")); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Minute)
		if n := h.world.count("apply"); n != 1 {
			t.Errorf("%d applied with a yes of both", n)
		}
	})
}

// A pause of a touched service holds the lever, before it is applied and at each step of
// it, until it is lifted.
func TestPauseOfATouchedServiceHolds(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		touching(h, catalogOf(playbook.Auto), nil)
		pause := func() {
			t.Helper()
			if err := h.e.Pause(t.Context(), Scope{Service: "b"}, "user:bob", "release"); err != nil {
				t.Fatal(err)
			}
		}
		pause()
		h.post(alertOf("Slow", "a"))
		h.pass(5 * time.Minute)
		if s := h.only(); h.world.count("apply") != 0 || !strings.Contains(s.Paused, "service b is paused by user:bob: release") {
			t.Fatalf("%d applied, paused by %q", h.world.count("apply"), s.Paused)
		}
		if err := h.e.Unpause(t.Context(), Scope{Service: "b"}, "user:bob", "done"); err != nil {
			t.Fatal(err)
		}
		h.pass(5 * time.Second)
		if n := h.world.count("apply"); n != 1 {
			t.Fatalf("%d applied after the pause: %s", n, h.only().Phase)
		}
		pause()
		if s := h.only(); s.Phase != machine.PhaseSettling || s.Paused == "" {
			t.Errorf("a change under way is not told: %s, paused by %q", s.Phase, s.Paused)
		}
	})
}

// A touched service that the catalog no longer has, or a catalog that cannot say whose
// pods they are, is no yes.
func TestUnknownTouchedServiceRefuses(t *testing.T) {
	for name, known := range map[string]func() ([]playbook.Service, error){
		"gone": func() ([]playbook.Service, error) {
			return []playbook.Service{{Name: "a", Autonomy: playbook.Auto}}, nil
		},
		"unsure": func() ([]playbook.Service, error) {
			all, err := catalogOf(playbook.Auto)()
			return all, errors.Join(err, errors.New("discover services: not done yet"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				touching(h, known, nil)
				h.post(alertOf("Slow", "a"))
				h.pass(20 * time.Minute)
				if n := h.world.count("apply"); n != 0 {
					t.Errorf("%d applied", n)
				}
			})
		})
	}
}

// The policy is asked about all that the lever touches, as the catalog has it now.
func TestPolicyKnowsWhatIsTouched(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		var asked []string
		touching(h, catalogOf(playbook.Auto), rules(func(in guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
			for _, o := range in.Others {
				asked = append(asked, o.Entry.Namespace+"/"+o.Entry.Name+" "+o.Autonomy.String())
			}
			return machine.Terms{}, machine.GuardVerdict{Why: "no"}
		}))
		h.post(alertOf("Slow", "a"))
		h.pass(time.Minute)
		if want := []string{"kube-system/ auto", "serving/b auto"}; len(asked) < 2 || !slices.Equal(asked[:2], want) {
			t.Errorf("the policy was asked about %q, want %q", asked, want)
		}
		if n := h.world.count("apply"); n != 0 {
			t.Errorf("%d applied", n)
		}
	})
}

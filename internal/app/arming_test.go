package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/webhook"
)

// TestArming: people read whether Responder can act on a service, why not, and what to do.
func TestArming(t *testing.T) {
	sim, _, err := OpenSandbox(DefaultScenario, time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*config.Config, *World)
		policy  string
		paused  *webhook.Pause
		service func(*playbook.Service)
		armed   bool
		alone   string           // a playbook that acts without asking; empty: none does
		reason  api.ArmingReason // one of them; its texts are parts
	}{
		"as the sandbox is": {armed: true},
		"at auto":           {change: automatic, armed: true, alone: "inference-slo-breach"},
		"at auto under a policy that asks": {
			change: automatic, armed: true,
			policy: "    - name: careful\n      require_approval: {from: group:ml-platform}\n",
		},
		"nobody may decide": {
			service: func(s *playbook.Service) { s.Owners = nil },
			reason:  api.ArmingReason{Why: "nobody may decide: service serving/inference-chat names no owners", Do: "set owners of the service", Playbooks: strings.Fields("cold-start gpu-fault inference-slo-breach kv-cache-thrash oom regression stuck-engine")},
		},
		"Prometheus does not answer": {
			change: func(_ *config.Config, w *World) { w.Deps.Querier = deafQuerier{} },
			reason: api.ArmingReason{Why: "Prometheus does not answer", Do: "responder doctor"},
		},
		"the installation observes": {
			change: func(c *config.Config, _ *World) { c.Autonomy = playbook.Observe },
			reason: api.ArmingReason{Why: "its levers are at observe, held by the configuration", Do: "raise autonomy there to suggest"},
		},
		"it is paused": {
			paused: &webhook.Pause{Service: "serving/inference-chat", By: "user:ada", Reason: "load test"},
			reason: api.ArmingReason{Why: "service serving/inference-chat is paused by user:ada: load test", Do: "responder unpause --service serving/inference-chat"},
		},
		"one playbook is paused": {
			paused: &webhook.Pause{Playbook: "oom", By: "user:ada", Reason: "being rewritten"},
			armed:  true,
			reason: api.ArmingReason{Why: "playbook oom is paused by user:ada: being rewritten", Do: "responder unpause --playbook oom", Playbooks: []string{"oom"}},
		},
		"no notification is taken": {
			paused: &webhook.Pause{Intake: true, By: "user:ada", Reason: "the volume moves"},
			reason: api.ArmingReason{Why: "notifications are refused, by user:ada: the volume moves", Do: "responder unpause --intake"},
		},
		"no objective": {
			service: func(s *playbook.Service) { s.SLOs = nil },
			reason:  api.ArmingReason{Why: "no objective", Do: "slo.defaults"},
		},
		"no Prometheus": {
			change: func(_ *config.Config, w *World) { w.Deps.Querier = nil },
			reason: api.ArmingReason{Why: "no Prometheus is configured", Do: "prometheus.url"},
		},
		"nothing tells of GPUs": {
			change: func(_ *config.Config, w *World) { w.Deps.GPUs = nil },
			armed:  true,
			reason: api.ArmingReason{Why: "nothing tells the state of GPUs", Do: "gpu.agents", Playbooks: []string{"gpu-fault", "node-return", "thermal-emergency"}},
		},
		"a frozen policy": {
			policy: "    - name: winter\n      freeze: {dates: [{from: 2000-01-01T00:00:00Z, to: 2100-01-01T00:00:00Z}]}\n",
			reason: api.ArmingReason{Why: "frozen until 2100-01-01", Do: "responder policy explain --config FILE --service serving/inference-chat"},
		},
		"a policy that only observes": {
			policy: "    - name: watch\n      max_autonomy: observe\n",
			reason: api.ArmingReason{Why: "its levers are at observe, held by policy watch", Do: "raise autonomy there"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			conf, w := SandboxConfig(), SandboxWorld(sim)
			conf.Journal.Dir, conf.Auth.Insecure = t.TempDir(), true
			if c.change != nil {
				c.change(&conf, &w)
			}
			if c.policy != "" {
				conf.Policy.File = filepath.Join(t.TempDir(), "policy.yaml")
				if err := os.WriteFile(conf.Policy.File, []byte("apiVersion: responder/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec:\n  rules:\n"+c.policy), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, _ := startOn(t, Options{Config: conf, World: w, Log: slog.New(slog.DiscardHandler)})
			until(t, "ready", func() bool { return s.executor.Ready() == nil })
			if p := c.paused; p != nil && p.Intake {
				err = s.intake.Pause(t.Context(), p.By, p.Reason)
			} else if p != nil {
				err = s.executor.Pause(t.Context(), executor.Scope{Service: p.Service, Playbook: p.Playbook}, p.By, p.Reason)
			}
			if err != nil {
				t.Fatal(err)
			}
			svc := s.world.Services()[0]
			if c.service != nil {
				c.service(&svc)
			}
			if _, deaf := w.Deps.Querier.(deafQuerier); deaf {
				_, _ = s.world.Deps.Querier.Instant(t.Context(), "up", time.Now()) // somebody asks it
			}
			got := s.arming()(svc)
			if alone := strings.Join(got.Acts, " "); alone != c.alone {
				t.Errorf("acts without asking: %q, want %q", alone, c.alone)
			}
			if got.Armed != c.armed {
				t.Errorf("armed: %v, want %v", got.Armed, c.armed)
			}
			if i := slices.IndexFunc(got.Reasons, func(r api.ArmingReason) bool { return len(r.Levers) == 0 }); c.reason.Why == "" && i >= 0 {
				t.Errorf("reasons: %+v", got.Reasons)
			}
			if c.reason.Why != "" && !hasReason(got.Reasons, c.reason) {
				t.Errorf("reasons: %+v\nwant: %+v", got.Reasons, c.reason)
			}
		})
	}
}

// automatic lets a playbook act by itself.
func automatic(c *config.Config, w *World) {
	c.Playbooks.Autonomy = playbook.Overrides{{Playbook: "inference-slo-breach", Level: playbook.Auto, By: "playbooks.autonomy"}}
	known := w.Known
	w.Known = func() ([]playbook.Service, error) {
		all, err := known()
		for i := range all {
			all[i].Autonomy = playbook.Auto
		}
		return all, err
	}
	w.Services = func() []playbook.Service {
		all, _ := w.Known()
		return all
	}
}

// deafQuerier is a Prometheus that does not answer.
type deafQuerier struct{ step.Querier }

func (deafQuerier) Instant(context.Context, string, time.Time) (slo.Vector, error) {
	return slo.Vector{}, &fault.Error{Reason: fault.Unreachable, Message: "connection refused"}
}

func hasReason(all []api.ArmingReason, want api.ArmingReason) bool {
	for _, r := range all {
		if strings.Contains(r.Why, want.Why) && strings.Contains(r.Do, want.Do) && slices.Equal(r.Playbooks, want.Playbooks) {
			return true
		}
	}
	return false
}

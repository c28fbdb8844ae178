package app

import (
	"context"
	"errors"
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
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
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
		known   func(*testing.T, *Service) // what the service learned
		armed   bool
		alone   string           // a playbook that acts without asking; empty: none does
		reason  api.ArmingReason // one of them; its texts are parts
		unknown string           // the beginning of what is not known
		lacks   string           // no reason speaks of it
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
		"Prometheus does not answer as it should": {
			change: func(_ *config.Config, w *World) { w.Deps.Querier = deafQuerier{} },
			reason: api.ArmingReason{Why: "Prometheus does not answer as it should: at ", Do: "responder doctor"},
		},
		"the cluster does not answer as it should": {
			known: func(_ *testing.T, s *Service) {
				s.hearing.kubernetes.note(context.Background(), &fault.Error{Reason: fault.ServerError, Message: "etcd has no leader"}) //nolint:errcheck // it returns the error that it is given
			},
			reason: api.ArmingReason{Why: "Kubernetes does not answer as it should: at ", Do: "responder doctor"},
		},
		"a right lacks, maybe in the namespace of another service alone": {
			known: func(_ *testing.T, s *Service) {
				s.hearing.kubernetes.note(context.Background(), &fault.Error{Reason: fault.Forbidden, Message: "get deployments.apps other/chat"}) //nolint:errcheck // it returns the error that it is given
			},
			unknown: "whether Kubernetes lets Responder act: at ", lacks: "Kubernetes",
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
		"a playbook that no alert starts, but another one hands over to": {
			change: func(c *config.Config, _ *World) {
				c.Playbooks.Dir, c.Playbooks.Shipped = t.TempDir(), false
				if err := os.WriteFile(filepath.Join(c.Playbooks.Dir, "all.yaml"), []byte(handsOver), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			armed: true,
		},
		"Argo CD does not answer as it should": {
			change: func(c *config.Config, w *World) {
				w.Deps.Applications, w.Deps.Commits = deafDeployer{}, struct{ step.Commits }{}
			},
			known: func(t *testing.T, s *Service) {
				_, _ = s.world.Deps.Applications.Application(t.Context(), "chat") // a run asks it
			},
			armed:  true,
			reason: api.ArmingReason{Why: "Argo CD does not answer as it should: at ", Do: "responder doctor", Levers: []string{"inference-slo-breach/cap-concurrency"}},
		},
		"nothing is missing for Argo CD's levers where the cluster knows the application": {
			change: func(c *config.Config, w *World) {
				w.Deps.Applications, w.Deps.Commits = onlyAsked{}, struct{ step.Commits }{}
			},
			armed: true, lacks: "Git",
		},
		"the catalog cannot say": {
			change: func(_ *config.Config, w *World) {
				known := w.Known
				w.Known = func() ([]playbook.Service, error) {
					all, _ := known()
					return all, errors.New("the cluster was last listed an hour ago")
				}
			},
			reason: api.ArmingReason{Why: "the catalog cannot say which service an alert is about: the cluster was last listed", Do: "responder doctor"},
		},
		"the volume is full": {
			known: func(_ *testing.T, s *Service) {
				s.room.mu.Lock()
				defer s.room.mu.Unlock()
				s.room.last, s.room.until = errors.New("3 MiB are free"), time.Now().Add(time.Hour)
			},
			reason: api.ArmingReason{Why: "notifications are refused: 3 MiB are free", Do: "space on the volume"},
		},
		"a lever was demoted": {
			change: automatic,
			known: func(_ *testing.T, s *Service) {
				for _, id := range leversOf(s) {
					s.ladder.Demote(ladder.Demotion{LeverID: id, Run: "r-1", Failed: 3, To: playbook.Suggest, Verdict: "3 ineffective"})
				}
			},
			armed:  true,
			reason: api.ArmingReason{Why: "asks people: ", Do: "responder ladder promote inference-slo-breach serving/inference-chat rollback", Levers: []string{"inference-slo-breach/rollback"}},
		},
		"a policy that asked is gone": {
			change: automatic,
			known: func(_ *testing.T, s *Service) {
				var results []ladder.LeverResult
				for _, id := range leversOf(s) {
					results = append(results, ladder.LeverResult{
						LeverID: id, Run: "r-1", Result: ladder.ResultVerified, Level: playbook.Suggest, Applied: true,
						Cap: &machine.Cap{Level: playbook.Suggest, Rule: "policy careful"},
					})
				}
				s.ladder.Take(ladder.Additions{Results: results}, time.Now())
			},
			armed: true, alone: "inference-slo-breach",
		},
		"a policy that asks by the plan": {
			change: automatic, armed: true, alone: "inference-slo-breach",
			policy: "    - name: large\n      when: plan.risk == 'high'\n      require_approval: {from: group:ml-platform}\n",
			reason: api.ArmingReason{Why: "the policy decides by its plan: policy large", Do: "responder policy explain"},
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
			until(t, "the systems are asked", func() bool { return len(s.doubts()) == 0 })
			if c.known != nil {
				c.known(t, s)
			}
			got := s.arming()(svc)
			if alone := strings.Join(got.Acts, " "); alone != c.alone {
				t.Errorf("acts without asking: %q, want %q", alone, c.alone)
			}
			if got.Armed != c.armed || got.Unknown == nil || !strings.HasPrefix(strings.Join(got.Unknown, "; "), c.unknown) || c.unknown == "" && len(got.Unknown) > 0 {
				t.Errorf("armed: %v, want %v; unknown: %#v", got.Armed, c.armed, got.Unknown)
			}
			if i := slices.IndexFunc(got.Reasons, func(r api.ArmingReason) bool { return len(r.Levers) == 0 }); c.reason.Why == "" && i >= 0 {
				t.Errorf("reasons: %+v", got.Reasons)
			}
			if c.reason.Why != "" && !hasReason(got.Reasons, c.reason) {
				t.Errorf("reasons: %+v\nwant: %+v", got.Reasons, c.reason)
			}
			if c.lacks != "" && hasReason(got.Reasons, api.ArmingReason{Why: c.lacks}) {
				t.Errorf("reasons: %+v", got.Reasons)
			}
		})
	}
}

// handsOver is a playbook that only looks, and one with a lever that no alert starts.
const handsOver = `apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: look, title: Look, runbook: https://runbooks.example/look}
spec:
  match: ['{alertname="InferenceTTFTFastBurn"}']
  autonomy: suggest
  start: triage
  states:
    triage: {title: Triage, gather: {slo: {check: slo.burn}}, next: [{to: fix}]}
    fix: {divert: fix}
---
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: fix, title: Fix, runbook: https://runbooks.example/fix}
spec:
  match: []
  autonomy: suggest
  start: triage
  states:
    triage: {title: Triage, gather: {slo: {check: slo.burn}}, next: [{when: slo.status == "breached", to: scale}, {to: escalated}]}
    scale: {title: Scale, lever: kube.scale, with: {by: 1}, approve: {by: service.owners, within: 15m}, next: [{when: verified, to: resolved}, {to: escalated}]}
    resolved: {end: resolved}
    escalated: {end: escalated}
`

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

// deafDeployer is an Argo CD that does not answer.
type deafDeployer struct{ step.Applications }

func (deafDeployer) Application(context.Context, string) (gitops.Application, error) {
	return gitops.Application{}, &fault.Error{Reason: fault.Unreachable, Message: "connection refused"}
}

// leversOf returns the levers of a playbook on a service of the sandbox.
func leversOf(s *Service) (out []ladder.LeverID) {
	for _, st := range s.library.set().ByName("inference-slo-breach").States {
		if st.Kind == playbook.StateLever {
			out = append(out, ladder.LeverID{Playbook: "inference-slo-breach", Service: "serving/inference-chat", State: st.Name, Lever: st.Step})
		}
	}
	return out
}

// hasReason reports whether one of the reasons has the texts as parts, all these playbooks
// and no others, and these levers.
func hasReason(all []api.ArmingReason, want api.ArmingReason) bool {
	return slices.ContainsFunc(all, func(r api.ArmingReason) bool {
		return strings.Contains(r.Why, want.Why) && strings.Contains(r.Do, want.Do) && slices.Equal(r.Playbooks, want.Playbooks) &&
			!slices.ContainsFunc(want.Levers, func(l string) bool { return !slices.Contains(r.Levers, l) })
	})
}

// TestNotKnownIsNotArmed: programs that read "armed" do not count on what nobody has reached.
func TestNotKnownIsNotArmed(t *testing.T) {
	x := standing{book: &playbook.Playbook{Name: "oom"}, begins: true, levers: make([]executor.Outlook, 1), doubts: []string{"whether Prometheus answers"}}
	if got := armingOf(playbook.Service{}, []standing{x}); got.Armed || len(got.Asks) != 1 || !slices.Equal(got.Unknown, x.doubts) {
		t.Errorf("%+v", got)
	}
	if mode, _, why := x.mode(); mode != "not known" || why != x.doubts[0] {
		t.Errorf("its mode is %q: %s", mode, why)
	}
	x.stops = []hurdle{{why: "it is paused"}}
	if got := armingOf(playbook.Service{}, []standing{x}); got.Armed || len(got.Unknown) != 0 {
		t.Errorf("of what does not act anyway something is unknown: %+v", got)
	}
}

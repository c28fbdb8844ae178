package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/web"
)

// onlyAsked is what deploys from Git and cannot be watched.
type onlyAsked struct{ step.Applications }

func (onlyAsked) Application(context.Context, string) (gitops.Application, error) {
	return gitops.Application{}, nil
}

// watched is what deploys from Git and can be watched.
type watched struct{ onlyAsked }

func (watched) Name() string { return gitops.Flux }

func (watched) Watch(context.Context, string, func(gitops.Application) (gitops.Rollout, string), func(string)) (gitops.Application, error) {
	return gitops.Application{}, nil
}

// TestListenKeepsWatching: the levers on Git follow what can be watched, also where its
// answers are remembered for the page.
func TestListenKeepsWatching(t *testing.T) {
	d, h := listen(step.Deps{Applications: watched{}}, time.Now)
	if _, ok := d.Applications.(watcher); !ok || h.deploys != "Flux" {
		t.Errorf("%T of %s cannot be watched", d.Applications, h.deploys)
	}
	d, _ = listen(step.Deps{Applications: onlyAsked{}}, time.Now)
	if _, ok := d.Applications.(watcher); ok {
		t.Error("what cannot be watched says that it can")
	}
}

// TestHeard: what is not known is not good, and an answer about a target that is not there
// is an answer.
func TestHeard(t *testing.T) {
	now := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	h := &heard{now: func() time.Time { return now }}
	want := func(what string, state web.HealthState) {
		t.Helper()
		if got := h.health("Prometheus"); got.State != state {
			t.Errorf("%s: %s (%s), want %s", what, got.State, got.Text, state)
		}
	}
	want("before the first answer", web.Unknown)
	h.note(t.Context(), nil) //nolint:errcheck // it returns the error that it is given
	want("after an answer", web.Healthy)
	now = now.Add(heardFor + time.Second)
	want("long after it", web.Unknown)
	h.note(t.Context(), &fault.Error{Reason: fault.NotFound}) //nolint:errcheck // it returns the error that it is given
	want("after an answer that there is none", web.Healthy)
	for _, reason := range []fault.Reason{fault.Unreachable, fault.Timeout, fault.Forbidden, fault.ServerError, fault.Throttled} {
		h.note(t.Context(), &fault.Error{Reason: reason}) //nolint:errcheck // it returns the error that it is given
		want(string(reason), web.Failing)
	}
	h.note(t.Context(), errors.New("of no reason")) //nolint:errcheck // it returns the error that it is given
	want("after an error of no reason", web.Failing)
	now = now.Add(time.Hour)
	want("long after a failure", web.Failing)
	gone, cancel := context.WithCancel(t.Context())
	h.note(t.Context(), nil) //nolint:errcheck // it returns the error that it is given
	cancel()
	h.note(gone, &fault.Error{Reason: fault.Timeout}) //nolint:errcheck // it returns the error that it is given
	want("after nobody waited", web.Healthy)
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	h.note(late, &fault.Error{Reason: fault.Timeout}) //nolint:errcheck // it returns the error that it is given
	want("after a page waited no longer", web.Healthy)
}

// TestHeardOfAHang: a system that hangs longer than every caller waits does not answer,
// since the first one that waited in vain; any answer ends that.
func TestHeardOfAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{now: time.Now}
		wait := func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			<-ctx.Done()
			h.note(ctx, ctx.Err()) //nolint:errcheck // it returns the error that it is given
		}
		want := func(what string, state web.HealthState, text string) {
			t.Helper()
			if got := h.health("Prometheus"); got.State != state || !strings.Contains(got.Text, text) {
				t.Errorf("%s: %s (%s), want %s with %q", what, got.State, got.Text, state, text)
			}
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		wait(left)
		want("after a caller left", web.Unknown, "not been asked")
		for range 2 {
			wait(t.Context())
			want("at the start", web.Failing, "it has not answered since 2000-01-01 00:01:00Z")
		}
		h.note(t.Context(), nil) //nolint:errcheck // it returns the error that it is given
		want("after an answer", web.Healthy, "it answered")
		for range 6 {
			wait(t.Context())
		}
		want("after it answered no more", web.Failing, "it has not answered since 2000-01-01 00:03:00Z")
		h.note(t.Context(), &fault.Error{Reason: fault.NotFound}) //nolint:errcheck // it returns the error that it is given
		want("after an answer that there is none", web.Healthy, "it answered")
		time.Sleep(heardFor + time.Second)
		want("long after it", web.Unknown, "has not been asked since")
	})
}

// TestHeardOfAHurriedCaller: one caller that waited in vain tells nothing for long of a
// system that nobody asks again.
func TestHeardOfAHurriedCaller(t *testing.T) {
	for _, answered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := &heard{now: time.Now}
			if answered {
				h.note(t.Context(), nil) //nolint:errcheck // it returns the error that it is given
			}
			time.Sleep(30 * time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			<-ctx.Done()
			h.note(ctx, ctx.Err()) //nolint:errcheck // it returns the error that it is given
			time.Sleep(heardFor + time.Second)
			const text = "the last request, at 2000-01-01 00:00:32Z, got no answer within its time limit"
			if got := h.health("Prometheus"); got.State != web.Unknown || got.Text != text {
				t.Errorf("answered %t: %s (%s), want %s (%s)", answered, got.State, got.Text, web.Unknown, text)
			}
		})
	}
}

// oneNamespace is a cluster in which the rights lack for all but one workload.
type oneNamespace struct {
	step.Workloads

	asked int
}

func (c *oneNamespace) Workload(_ context.Context, ref kube.Ref) (kube.Workload, error) {
	if c.asked++; ref.Name != "c" {
		return kube.Workload{}, &fault.Error{Reason: fault.Forbidden}
	}
	return kube.Workload{}, nil
}

// hung is a Prometheus that accepts requests and answers none.
type hung struct{ step.Querier }

func (hung) Instant(ctx context.Context, _ string, _ time.Time) (slo.Vector, error) {
	<-ctx.Done()
	return slo.Vector{}, ctx.Err()
}

// marked is a cluster in which one workload is marked as an application's.
type marked struct {
	step.Workloads

	name string
}

func (m marked) Workload(_ context.Context, ref kube.Ref) (kube.Workload, error) {
	if ref.Name != m.name {
		return kube.Workload{Ref: ref}, nil
	}
	return kube.Workload{Ref: ref, Owners: []kube.Owner{{Field: "*", Kind: kube.ArgoCD, Name: "chat"}}}, nil
}

// noted is what deploys from Git and notes what it is asked for.
type noted struct {
	onlyAsked

	asked *[]string
}

func (n noted) Application(_ context.Context, name string) (gitops.Application, error) {
	*n.asked = append(*n.asked, name)
	return gitops.Application{}, nil
}

// TestAskDeployers: Argo CD is asked for an application that a service names, wherever in the
// catalog, or that a workload is marked with. Where there is none, nobody waits for an answer.
func TestAskDeployers(t *testing.T) {
	for name, c := range map[string]struct {
		named, marked string
		want          string // what it is asked for
	}{
		"named by a late service": {named: "z", want: "argocd/z"},
		"marked on a workload":    {marked: "c", want: "chat"},
		"nowhere":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			services, asked := []playbook.Service{}, []string{}
			for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
				svc := playbook.Service{Name: "serving/" + name, Workload: playbook.Workload{Kind: "Deployment", Name: name}}
				if name == c.named {
					svc.GitOps.Application = "argocd/" + name
				}
				services = append(services, svc)
			}
			s := &Service{world: World{Now: time.Now, Services: func() []playbook.Service { return services }, Deps: step.Deps{Workloads: marked{name: c.marked}, Applications: noted{asked: &asked}}}}
			s.world.Deps, s.hearing = listen(s.world.Deps, time.Now)
			if !s.hearing.deployers.doubted() {
				t.Error("known before it was asked")
			}
			s.askSystems(t.Context())
			if got := strings.Join(asked, " "); got != c.want || s.hearing.deployers.doubted() {
				t.Errorf("asked for %q, want %q; doubted: %t", got, c.want, s.hearing.deployers.doubted())
			}
			if got := s.hearing.deployers.health("Argo CD"); c.want == "" && (got.State != web.Unknown || !strings.Contains(got.Text, "no application of it is known")) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAskSystems: what no run has asked is asked, so that nothing that was never reached
// counts as fine, and nothing that answers again as failing. What answered is left alone.
func TestAskSystems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, services := &oneNamespace{}, []playbook.Service{}
		for _, name := range []string{"a", "b", "c", "d"} {
			services = append(services, playbook.Service{Name: "serving/" + name, Workload: playbook.Workload{Kind: "Deployment", Name: name}})
		}
		s := &Service{world: World{Now: time.Now, Services: func() []playbook.Service { return services }, Deps: step.Deps{Querier: hung{}, Workloads: cluster}}}
		s.world.Deps, s.hearing = listen(s.world.Deps, time.Now)
		if got := strings.Join(s.doubts(), "; "); got != "whether Kubernetes answers: it has not been asked since the start; whether Prometheus answers: it has not been asked since the start" {
			t.Errorf("at the start: %s", got)
		}
		s.askSystems(t.Context())
		if got := s.systems(); got[0].State != web.Failing || !strings.Contains(got[0].Text, "has not answered since") || got[1].State != web.Healthy || cluster.asked != 3 {
			t.Errorf("after they were asked: %+v, %d requests to the cluster", got, cluster.asked)
		}
		time.Sleep(2 * heardFor) // nobody waited for Prometheus since
		if got := s.doubts(); len(got) != 2 || !strings.HasPrefix(got[0], "whether Kubernetes answers: it last answered at") || !strings.HasPrefix(got[1], "whether Prometheus answers: the last request") {
			t.Errorf("long after the last requests: %q", got)
		}
		s.hearing.kubernetes.note(t.Context(), nil) //nolint:errcheck // it returns the error that it is given
		s.askSystems(t.Context())
		if cluster.asked != 3 {
			t.Errorf("a cluster that answered just now is asked again: %d requests", cluster.asked)
		}
	})
}

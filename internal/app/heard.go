package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/git"
	"github.com/inference-responder/responder/internal/web"
)

// heardFor is how long the last answer of a system tells how it is.
const heardFor = 5 * time.Minute

// heard remembers the last answer of a system to the steps of runs, to pages and to
// [Service.keepAsking].
type heard struct {
	now func() time.Time

	mu     sync.Mutex // guards all below
	at     time.Time  // zero: it has not answered yet
	err    error      // of the last answer
	silent time.Time  // when the first caller after that answer had waited in vain; zero: none has
	missed time.Time  // when the last one had
	nobody bool       // nobody can ask it: no service is known to have an application
}

// note records an answer. An error counts only if it tells that the system does not answer
// as it should: one about a target that is not there is an answer too. It returns the error.
func (h *heard) note(ctx context.Context, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		// The caller waited no longer. One that left tells nothing of the system; one whose
		// time was over may have been in a hurry, so an answer to another one counts more.
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			h.missed = h.now()
			if h.silent.IsZero() {
				h.silent = h.missed
			}
		}
		return err
	}
	h.at, h.err, h.silent, h.missed, h.nobody = h.now(), nil, time.Time{}, time.Time{}, false
	var e *fault.Error
	switch {
	case err == nil:
	case !errors.As(err, &e):
		h.err = err
	default:
		switch e.Reason {
		case fault.Unreachable, fault.Timeout, fault.Throttled, fault.ServerError, fault.Forbidden:
			h.err = err
		}
	}
	return err
}

// health returns what the last answer tells.
func (h *heard) health(name string) web.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := func(t time.Time) bool { return h.now().Sub(t) > heardFor }
	hangs := !h.silent.IsZero() && old(h.at) // an answer tells more than a caller that was in a hurry
	switch {
	case h.err != nil:
		return web.Health{Name: name, State: web.Failing, Text: "at " + runview.Time(h.at) + ": " + h.err.Error()}
	case hangs && old(h.missed): // that one may have been in a hurry, and nobody has asked since
		return web.Health{Name: name, State: web.Unknown, Text: "the last request, at " + runview.Time(h.missed) + ", got no answer within its time limit"}
	case hangs:
		return web.Health{Name: name, State: web.Failing, Text: "it has not answered since " + runview.Time(h.silent) + ": every request since then timed out"}
	case h.at.IsZero() && h.nobody:
		return web.Health{Name: name, State: web.Unknown, Text: "it is not asked: no application of it is known of the services that were looked at"}
	case h.at.IsZero():
		return web.Health{Name: name, State: web.Unknown, Text: "it has not been asked since the start"}
	case old(h.at):
		return web.Health{Name: name, State: web.Unknown, Text: "it last answered at " + runview.Time(h.at) + ", and has not been asked since"}
	default:
		return web.Health{Name: name, State: web.Healthy, Text: "it answered at " + runview.Time(h.at)}
	}
}

// forbidden reports whether the last answer was that Responder lacks a right.
func (h *heard) forbidden() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var e *fault.Error
	return errors.As(h.err, &e) && e.Reason == fault.Forbidden
}

// doubted reports whether it is not known if the system answers: the last request got no
// answer, the last answer is old, or there was none although it can be asked.
func (h *heard) doubted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at.IsZero() {
		return !h.silent.IsZero() || !h.nobody
	}
	return !h.silent.IsZero() || h.now().Sub(h.at) > heardFor
}

// unasked records whether nobody can ask the system.
func (h *heard) unasked(nobody bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nobody = nobody
}

// settled reports whether the system answered as it should, so recently that it need not be
// asked before the answer is old.
func (h *heard) settled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err == nil && h.silent.IsZero() && h.now().Sub(h.at) <= heardFor-askEvery-askWithin
}

// heardQuerier is Prometheus.
type heardQuerier struct {
	step.Querier
	*heard
}

// Instant implements [step.Querier].
func (q heardQuerier) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	v, err := q.Querier.Instant(ctx, expr, at)
	return v, q.note(ctx, err)
}

// Range implements [step.Querier].
func (q heardQuerier) Range(ctx context.Context, expr string, from, to time.Time, every time.Duration) (slo.Matrix, error) {
	m, err := q.Querier.Range(ctx, expr, from, to, every)
	return m, q.note(ctx, err)
}

// heardWorkloads is the Kubernetes API, by the questions that nearly every run asks.
type heardWorkloads struct {
	step.Workloads
	*heard
}

// Workload implements [step.Workloads].
func (w heardWorkloads) Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error) {
	x, err := w.Workloads.Workload(ctx, ref)
	return x, w.note(ctx, err)
}

// Revisions implements [step.Workloads].
func (w heardWorkloads) Revisions(ctx context.Context, ref kube.Ref) ([]kube.Revision, error) {
	x, err := w.Workloads.Revisions(ctx, ref)
	return x, w.note(ctx, err)
}

// heardApplications is what deploys from Git.
type heardApplications struct {
	step.Applications
	*heard
}

// Application implements [step.Applications].
func (a heardApplications) Application(ctx context.Context, name string) (gitops.Application, error) {
	x, err := a.Applications.Application(ctx, name)
	return x, a.note(ctx, err)
}

// watcher waits until an application is settled, as package step/git asks it to.
type watcher interface {
	Watch(ctx context.Context, name string, judge func(gitops.Application) (gitops.Rollout, string), progress func(string)) (gitops.Application, error)
}

// heardDeployer is that which can be watched, too: the levers on Git follow it then.
type heardDeployer struct {
	heardApplications
	watched watcher
}

// Watch implements what package step/git looks for.
func (d heardDeployer) Watch(ctx context.Context, name string, judge func(gitops.Application) (gitops.Rollout, string), progress func(string)) (gitops.Application, error) {
	return d.watched.Watch(ctx, name, judge, progress)
}

// kubernetes is the name of the cluster among the systems.
const kubernetes = "Kubernetes"

// hearing is the last answers of the systems that runs ask; nil: it is not configured.
type hearing struct {
	prometheus, kubernetes, deployers *heard

	deploys string // name of the deployers
}

// listen returns the dependencies with their answers remembered.
func listen(d step.Deps, now func() time.Time) (step.Deps, hearing) {
	h := hearing{deploys: gitops.ArgoCD}
	if d.Querier != nil {
		h.prometheus = &heard{now: now}
		d.Querier = heardQuerier{d.Querier, h.prometheus}
	}
	if d.Workloads != nil {
		h.kubernetes = &heard{now: now}
		d.Workloads = heardWorkloads{d.Workloads, h.kubernetes}
	}
	if d.Applications != nil {
		h.deployers = &heard{now: now}
		if by, ok := d.Applications.(interface{ Name() string }); ok {
			h.deploys = by.Name()
		}
		heard := heardApplications{d.Applications, h.deployers}
		by, watched := d.Applications.(watcher)
		if d.Applications = heard; watched {
			d.Applications = heardDeployer{heard, by}
		}
	}
	return d, h
}

// Requests that are made only to learn whether a system answers.
const (
	askEvery  = 30 * time.Second
	askWithin = 10 * time.Second
	mostAsked = 10 // services whose workloads or applications are asked for
)

// keepAsking asks each system that has not answered as it should within the last minutes:
// what people read of it is true also where no run has asked it.
func (s *Service) keepAsking(ctx context.Context) error {
	next := time.NewTicker(askEvery)
	defer next.Stop()
	for {
		s.askSystems(ctx)
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// askSystems asks each of them once, side by side. Of services, it asks for one after the
// other until there is an answer: the rights may lack in the namespace of one.
func (s *Service) askSystems(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	d, all := s.world.Deps, s.world.Services()
	services := all[:min(len(all), mostAsked)]
	var asking sync.WaitGroup
	ask := func(h *heard, of []playbook.Service, request func(playbook.Service)) {
		if h == nil {
			return
		}
		asking.Go(func() {
			for _, svc := range of {
				if h.settled() || ctx.Err() != nil {
					return
				}
				request(svc)
			}
		})
	}
	// What an answer tells is remembered where it comes in.
	ask(s.hearing.prometheus, make([]playbook.Service, 1), func(playbook.Service) {
		_, _ = d.Querier.Instant(ctx, "vector(1)", s.world.Now())
	})
	ask(s.hearing.kubernetes, services, func(svc playbook.Service) {
		_, _ = d.Workloads.Workload(ctx, step.RefOf(svc))
	})
	some := false // an application is known, or may be
	ask(s.hearing.deployers, deployedFirst(all), func(svc playbook.Service) {
		name, known := svc.GitOps.Application, true
		if name == "" && d.Workloads != nil {
			name, known = s.applicationOn(ctx, svc)
		}
		some = some || name != "" || !known
		if name != "" {
			_, _ = d.Applications.Application(ctx, name)
		}
	})
	asking.Wait()
	if h := s.hearing.deployers; h != nil && ctx.Err() == nil {
		h.unasked(!some && !h.settled())
	}
}

// deployedFirst returns as many services as are asked for, those first that name an
// application.
func deployedFirst(all []playbook.Service) []playbook.Service {
	var named, others []playbook.Service
	for _, svc := range all {
		switch {
		case svc.GitOps.Application == "" && len(others) < mostAsked:
			others = append(others, svc)
		case svc.GitOps.Application != "" && len(named) < mostAsked:
			named = append(named, svc)
		}
	}
	of := slices.Concat(named, others)
	return of[:min(len(of), mostAsked)]
}

// applicationOn returns the application that the workload of a service names, by its
// tracking id or labels; empty: none. False: the workload could not be read.
func (s *Service) applicationOn(ctx context.Context, svc playbook.Service) (name string, known bool) {
	w, err := s.world.Deps.Workloads.Workload(ctx, step.RefOf(svc))
	if err != nil {
		return "", false
	}
	name, _ = git.ApplicationOf(svc, w) // an error: it names none, or not all of it
	return name, true
}

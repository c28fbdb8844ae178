package executor

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// simRules is what people configure while runs are open: the services' autonomy
// levels, a freeze by policy, and a catalog that does not always answer. It also
// keeps the clock, which may be set.
type simRules struct {
	ahead atomic.Int64 // of the machine's clock, in nanoseconds

	mu       sync.Mutex           // guards the rest
	lowered  map[string]time.Time // services that may only be observed, and since when
	frozen   time.Time            // since when nothing may be changed; zero: it may
	catalogs int                  // answers of the catalog that fail
}

// now is what the clock says.
func (s *simRules) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// known is list, which is never in doubt: a catalog that fails to resolve an alert has
// its last answer.
func (s *simRules) known() ([]playbook.Service, error) { return s.list(), nil }

// list is the catalog in force.
func (s *simRules) list() []playbook.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []playbook.Service
	for _, name := range simServices {
		svc := simCatalog()[name]
		if !s.lowered[name].IsZero() {
			svc.Autonomy = playbook.Observe
		}
		out = append(out, svc)
	}
	return out
}

// Resolve implements Services.
func (s *simRules) Resolve(a playbook.Alert) ([]playbook.Service, string, error) {
	s.mu.Lock()
	if s.catalogs > 0 {
		s.catalogs--
		s.mu.Unlock()
		return nil, "", errors.New("the API server does not answer")
	}
	s.mu.Unlock()
	found := services{}
	for _, svc := range s.list() {
		found[svc.Name] = svc
	}
	return found.Resolve(a)
}

// Terms implements guard.Policy.
func (s *simRules) Terms(guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen.IsZero() {
		return machine.Terms{}, machine.GuardVerdict{Why: "policy freeze, policy.yaml:3: nothing is changed before the launch"}
	}
	return machine.Terms{}, machine.GuardVerdict{OK: true, Why: "no rule applies"}
}

// forbidden returns why no change of a service may go out now, if that was so
// before this instant already.
func (s *simRules) forbidden(service string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch since := s.lowered[service]; {
	case !since.IsZero() && since.Before(now):
		return service + " may only be observed"
	case !s.frozen.IsZero() && s.frozen.Before(now):
		return "a freeze is in force"
	}
	return ""
}

// lift ends the freeze, raises all levels, and has the catalog answer again.
func (s *simRules) lift() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen, s.catalogs = time.Time{}, 0
	clear(s.lowered)
}

// reconfigures changes one of the rules.
func (s *simulation) reconfigures() {
	r, service := s.rules, simServices[s.rnd.IntN(len(simServices))]
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s.rnd.IntN(4) {
	case 0:
		if r.lowered[service].IsZero() {
			r.lowered[service] = time.Now()
		} else {
			delete(r.lowered, service)
		}
		s.note("%s may only be observed: %t", service, !r.lowered[service].IsZero())
	case 1:
		if r.frozen.IsZero() {
			r.frozen = time.Now()
		} else {
			r.frozen = time.Time{}
		}
		s.note("freeze: %t", !r.frozen.IsZero())
	case 2:
		r.catalogs = 1 + s.rnd.IntN(6)
		s.note("the catalog fails %d times", r.catalogs)
	case 3:
		jump := time.Duration(s.rnd.IntN(12*60)-2*60) * time.Second
		r.ahead.Add(int64(jump))
		s.note("the clock is set by %s", jump)
	}
}

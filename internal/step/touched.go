package step

import (
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// ByWorkload returns services by their workloads.
func ByWorkload(services []playbook.Service) map[kube.Ref]playbook.Service {
	out := map[kube.Ref]playbook.Service{}
	for _, s := range services {
		out[RefOf(s).Leaders()] = s
	}
	return out
}

// Touched returns whose objects these are, beside those of the run's service:
// the other services, by their workloads, and the namespaces of what belongs to
// no service.
func Touched(svc playbook.Service, services []playbook.Service, objects []kube.Ref) []machine.Touched {
	known := ByWorkload(services)
	found := map[string]machine.Touched{}
	for _, o := range objects {
		t := machine.Touched{Namespace: o.Namespace}
		if s, cataloged := known[o.Leaders()]; cataloged {
			t.Service, t.Owners = s.Name, slices.Clone(s.Owners)
		}
		if o.Leaders() != RefOf(svc).Leaders() {
			found[t.Name()] = t
		}
	}
	var out []machine.Touched
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out
}

// TouchedNames names what is touched for people.
func TouchedNames(touched []machine.Touched) string {
	var names []string
	for _, t := range touched {
		names = append(names, t.Name())
	}
	return strings.Join(names, ", ")
}

// TouchedLocks returns the names of the locks of the services that are touched.
func TouchedLocks(touched []machine.Touched) []string {
	var out []string
	for _, t := range touched {
		if t.Service != "" {
			out = append(out, Locks(playbook.Service{Name: t.Service})...)
		}
	}
	return out
}

// TouchedSince names the first of what is touched now that the plan does not list:
// it was not judged for that. Empty: it lists all.
func TouchedSince(plan machine.Plan, now []machine.Touched) string {
	for _, t := range now {
		if !slices.ContainsFunc(plan.Touches, func(was machine.Touched) bool { return was.Name() == t.Name() }) {
			return t.Name()
		}
	}
	return ""
}

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/inference-responder/responder/deploy/kubernetes"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

const (
	fixReviews = "see that the account may create selfsubjectaccessreviews, as every account may by default"
	fixReading = "with the manifests, bind the role responder-read of deploy/kubernetes/rbac.yaml in the namespace; with the chart, list the namespace in rbac.read"
)

// logsRole is the role that reads logs. It is opt-in, because logs may hold what users
// asked.
const logsRole = "responder-logs"

// discoveryRole is the role that lists workloads, for the discovery of services.
const discoveryRole = "responder-discovery"

// fluxRole is the role that reads what Flux deploys from.
const fluxRole = "responder-flux"

// optIn are the roles that are asked about by themselves, or are nobody's duty to grant.
var optIn = []string{logsRole, discoveryRole, fluxRole, "responder-flux-reconcile"}

// clusterSteps are the steps that need the cluster.
var clusterSteps = []string{"kube.", "node.", "pod.", "service."}

// kubernetes checks that the API server answers, that services' workloads are there,
// and that the rights suffice.
func (e *exam) kubernetes(ctx context.Context) []Finding {
	without := func(why string) {
		for _, step := range clusterSteps {
			e.bar("", step, why)
		}
	}
	if e.cluster == nil {
		without("no cluster is configured")
		return []Finding{notAsked("API server", "none is configured, so that there are no kube checks and levers")}
	}
	if err := e.cluster.Ping(ctx); err != nil {
		without("the API server does not answer")
		return []Finding{failed("API server", because(ctx, err), "see that kubernetes of the configuration names the cluster and a valid account, and that the server answers from here")}
	}
	roles, err := kubernetes.Roles()
	if err != nil {
		return []Finding{failed("rights", err.Error(), "this is a defect of the program: report it")}
	}
	r := &rights{exam: e, known: map[kube.Right]bool{}}
	out := []Finding{ok("API server", "it answers"), r.reading(ctx, roles), r.logs(ctx, roles)}
	if e.c.Discovery.Enabled {
		out = append(out, r.discovery(ctx, roles))
	}
	out = append(out, e.each(func(s playbook.Service) []Finding {
		return append([]Finding{e.workload(ctx, s)}, r.levers(ctx, roles, s)...)
	})...)
	return append(out, r.missing()...)
}

// workload looks at a service's workload.
func (e *exam) workload(ctx context.Context, s playbook.Service) Finding {
	w, err := e.cluster.Workload(ctx, kube.Ref{Kind: s.Workload.Kind, Namespace: s.Namespace, Name: s.Workload.Name})
	check := s.Name + ": workload"
	if s.Warm == (playbook.Warm{}) {
		e.bar(s.Name, "traffic.shift", "no warm revision is kept")
	}
	if s.Workload.Kind == "StatefulSet" {
		e.bar(s.Name, "rollout.hold", "a StatefulSet cannot be held")
	}
	if s.Workload.Kind == kube.Rollout {
		barred := []string{"kube.rollout_undo", "kube.restart", "kube.replace_pod"}
		if s.GitOps == (playbook.GitOps{}) {
			barred = append(barred, "service.rollback")
		}
		for _, lever := range barred {
			e.bar(s.Name, lever, "it does not act on a Rollout of Argo Rollouts")
		}
	}
	if err != nil {
		for _, step := range []string{"kube.", "pod.", "service.", "rollout."} {
			e.bar(s.Name, step, "its workload cannot be read")
		}
		return failed(check, because(ctx, err), "correct namespace and workload of the service, or grant the right to read: "+fixReading)
	}
	if slices.ContainsFunc(w.Owners, func(o kube.Owner) bool {
		return o.Kind == kube.HPA || o.Kind == kube.ScaledObject || kube.Makes(o.Kind)
	}) {
		e.mu.Lock()
		e.scaled[s.Name] = w.Owners
		e.mu.Unlock()
	}
	return ok(check, fmt.Sprintf("%s %s: %d of %d replicas ready%s", s.Workload.Kind, s.Workload.Name, w.Ready, w.Replicas, e.byFlux(ctx, s, w)))
}

// byFlux returns what is to be said of a workload that Flux deploys; empty: Flux does not,
// or all that its levers need is there.
func (e *exam) byFlux(ctx context.Context, s playbook.Service, w kube.Workload) string {
	i := slices.IndexFunc(w.Owners, func(o kube.Owner) bool { return o.Kind == kube.Flux || o.Kind == kube.FluxHelm })
	if i < 0 {
		return ""
	}
	of := w.Owners[i]
	right := kube.Right{Verb: "get", Group: "kustomize.toolkit.fluxcd.io", Resource: "kustomizations", Namespace: of.Namespace}
	if of.Kind == kube.FluxHelm {
		right.Group, right.Resource = "helm.toolkit.fluxcd.io", "helmreleases"
	}
	why := ""
	if !e.c.Gitops.Flux.Enabled {
		why = "gitops.flux.enabled is not set"
	} else if yes, err := e.cluster.May(ctx, right); err != nil {
		why = because(ctx, err)
	} else if !yes {
		why = "the role " + fluxRole + " is not bound in " + of.Namespace
	}
	if why == "" {
		return ""
	}
	e.bar(s.Name, "gitops.", why)
	return "; Flux deploys it, and Responder changes nothing of that: " + why
}

// rights asks the API server for rights, each once.
type rights struct {
	*exam
	mu    sync.Mutex // guards what follows
	known map[kube.Right]bool
	lacks []lack
}

// lack is what is not granted for a lever on a service.
type lack struct {
	what, roles    string
	lever, service string
}

func (r *rights) may(ctx context.Context, right kube.Right) (bool, error) {
	r.mu.Lock()
	yes, asked := r.known[right]
	r.mu.Unlock()
	if asked {
		return yes, nil
	}
	yes, err := r.cluster.May(ctx, right)
	if err == nil {
		r.mu.Lock()
		r.known[right] = yes
		r.mu.Unlock()
	}
	return yes, err
}

// lacking returns the rights of a role that are not granted, but for those to resources
// that are skipped; nil: to none.
func (r *rights) lacking(ctx context.Context, role kubernetes.Role, namespace string, skip func(resource string) bool) ([]string, error) {
	var out []string
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name, sub, _ := strings.Cut(resource, "/")
				if skip != nil && skip(name) {
					continue
				}
				for _, verb := range rule.Verbs {
					right := kube.Right{Verb: verb, Group: group, Resource: name, Subresource: sub, Namespace: namespace}
					if role.Cluster || name == "nodes" { // which belong to no namespace
						right.Namespace = ""
					}
					yes, err := r.may(ctx, right)
					if err != nil {
						return nil, err
					}
					if !yes {
						out = append(out, right.String())
					}
				}
			}
		}
	}
	return out, nil
}

// namespaces returns the namespaces of services.
func (e *exam) namespaces() []string {
	var out []string
	for _, s := range e.services {
		if !slices.Contains(out, s.Namespace) {
			out = append(out, s.Namespace)
		}
	}
	return out
}

// reading checks the roles that everything needs, in the namespaces of services.
func (r *rights) reading(ctx context.Context, roles []kubernetes.Role) Finding {
	const check = "rights to read"
	var lacks []string
	namespaces := r.namespaces()
	for _, role := range roles {
		if len(role.Levers) > 0 || slices.Contains(optIn, role.Name) {
			continue
		}
		for _, namespace := range namespaces {
			missing, err := r.lacking(ctx, role, namespace, func(resource string) bool {
				return resource == "rollouts" && !slices.ContainsFunc(r.services, func(s playbook.Service) bool { return s.Namespace == namespace && s.Workload.Kind == kube.Rollout })
			})
			if err != nil {
				return failed(check, because(ctx, err), fixReviews)
			}
			lacks = append(lacks, missing...)
		}
	}
	slices.Sort(lacks)
	if lacks = slices.Compact(lacks); len(lacks) > 0 {
		return failed(check, "missing: "+some(lacks, 8), fixReading+". Rights on the whole cluster are of the role responder-read-cluster (with the chart: rbac.create). What cannot be read is unknown")
	}
	return ok(check, fmt.Sprintf("all of responder-read in %s", some(namespaces, 5)))
}

// discovery checks that workloads can be listed where services are looked for. One
// namespace that cannot be listed leaves the catalog unknown as a whole.
func (r *rights) discovery(ctx context.Context, roles []kubernetes.Role) Finding {
	const check = "rights to discover"
	in, fix, where := r.c.Discovery.Namespaces, "with the manifests, bind the role "+discoveryRole+" or responder-read in the namespace; with the chart, turn on rbac.discovery or list the namespace in rbac.read; or take the namespace out of discovery.namespaces", ""
	if len(in) == 0 {
		in, where = []string{""}, "all namespaces"
		fix = "with the manifests, bind the role " + discoveryRole + " for the whole cluster; with the chart, turn on rbac.create and rbac.discovery; or name the namespaces in discovery.namespaces, and bind it there"
	} else {
		where = some(in, 5)
	}
	var lacks []string
	i := slices.IndexFunc(roles, func(x kubernetes.Role) bool { return x.Name == discoveryRole })
	if i < 0 {
		return failed(check, "this version has no role "+discoveryRole+", so its rights are not known", "")
	}
	role := roles[i]
	role.Cluster = false // of one namespace at a time, or of all
	for _, namespace := range in {
		missing, err := r.lacking(ctx, role, namespace, nil)
		if err != nil {
			return failed(check, because(ctx, err), fixReviews)
		}
		lacks = append(lacks, missing...)
	}
	slices.Sort(lacks)
	if lacks = slices.Compact(lacks); len(lacks) > 0 {
		return failed(check, "missing: "+some(lacks, 8)+"; no service is discovered", fix)
	}
	return ok(check, "workloads can be listed in "+where)
}

// logs reports where the last lines of logs can be read. It is no failure where they
// cannot: the role is opt-in.
func (r *rights) logs(ctx context.Context, roles []kubernetes.Role) Finding {
	const check = "rights to read logs"
	var granted, without []string
	for _, role := range roles {
		if role.Name != logsRole {
			continue
		}
		for _, namespace := range r.namespaces() {
			missing, err := r.lacking(ctx, role, namespace, nil)
			if err != nil {
				return failed(check, because(ctx, err), fixReviews)
			}
			if len(missing) > 0 {
				without = append(without, namespace)
			} else {
				granted = append(granted, namespace)
			}
		}
	}
	var parts []string
	if len(granted) > 0 {
		parts = append(parts, "granted in "+some(granted, 5))
	}
	if len(without) > 0 {
		parts = append(parts, "not granted in "+some(without, 5)+", where no lines are kept; they are opt-in: "+logsRole+", with the chart rbac.logs")
	}
	if len(parts) == 0 {
		return notAsked(check, "no service is known")
	}
	return ok(check, strings.Join(parts, "; "))
}

// levers checks the rights of each lever that a playbook may use on a service.
func (r *rights) levers(ctx context.Context, roles []kubernetes.Role, s playbook.Service) []Finding {
	acts, observed := r.leversOf(s)
	check := s.Name + ": rights of levers"
	if len(acts) == 0 {
		detail := "no lever may act on it"
		if len(observed) > 0 {
			detail = "it is only observed, so that none is needed"
		}
		return []Finding{notAsked(check, detail)}
	}
	if s.GitOps != (playbook.GitOps{}) { // changes of its workload are commits
		acts = slices.DeleteFunc(acts, func(kind string) bool { return strings.HasPrefix(kind, "kube.") || strings.HasPrefix(kind, "service.") })
	}
	e := r.exam
	e.mu.Lock()
	scaled := e.scaled[s.Name]
	e.mu.Unlock()
	if i := slices.Index(acts, "kube.scale"); i >= 0 && scaled != nil { // it becomes that lever
		acts[i] = "kube.autoscaler"
	}
	if s.Warm == (playbook.Warm{}) {
		acts = slices.DeleteFunc(acts, func(kind string) bool { return kind == "traffic.shift" })
	}
	if s.Workload.Kind == "StatefulSet" {
		acts = slices.DeleteFunc(acts, func(kind string) bool { return kind == "rollout.hold" })
	}
	var granted []string
	for _, kind := range acts {
		var lacks, named []string
		for _, role := range kubernetes.Needed(roles, kind) {
			var missing []string
			for _, namespace := range r.spaces(kind, s) {
				more, err := r.lacking(ctx, role, namespace, needless(kind, s.Workload.Kind, scaled))
				if err != nil {
					return []Finding{failed(check, because(ctx, err), fixReviews)}
				}
				missing = append(missing, more...)
			}
			if len(missing) > 0 {
				lacks, named = append(lacks, missing...), append(named, role.Name)
			}
		}
		if len(lacks) == 0 {
			granted = append(granted, kind)
			continue
		}
		what := "it may not " + strings.Join(lacks, ", ")
		r.bar(s.Name, kind, what)
		r.mu.Lock()
		r.lacks = append(r.lacks, lack{what: what, roles: strings.Join(named, " and "), lever: kind, service: s.Name})
		r.mu.Unlock()
	}
	if len(granted) == 0 {
		return nil
	}
	return []Finding{ok(check, some(granted, 8))}
}

// missing returns the rights that levers lack, each once with all levers and services.
func (r *rights) missing() []Finding {
	type group struct{ levers, services []string }
	groups := map[lack]*group{}
	for _, l := range r.lacks {
		key := lack{what: l.what, roles: l.roles}
		if groups[key] == nil {
			groups[key] = &group{}
		}
		g := groups[key]
		g.levers, g.services = append(g.levers, l.lever), append(g.services, l.service)
	}
	var out []Finding
	for key, g := range groups {
		slices.Sort(g.levers)
		slices.Sort(g.services)
		out = append(out, failed("rights of "+strings.Join(slices.Compact(g.levers), ", "), key.what+", for "+some(slices.Compact(g.services), 5),
			"with the manifests, bind "+key.roles+" of deploy/kubernetes/levers.yaml, as the example bindings there do; with the chart, list the lever and the namespace in rbac.levers; or lower the autonomy of the service or the lever to observe"))
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Check+a.Detail, b.Check+b.Detail) })
	return out
}

// leversOf returns the kinds of levers that may act on a service, and those that may
// only be observed.
func (e *exam) leversOf(s playbook.Service) (acts, observed []string) {
	for _, p := range e.playbooks.All() {
		if !p.Serves(s.Name) || p.Hardware() && e.world.Deps.GPUs == nil { // one that is blind is disarmed whatever is granted
			continue
		}
		for _, step := range e.stepsOf(p, s) {
			if !step.lever {
				continue
			}
			if min(step.level, e.c.Autonomy) > playbook.Observe {
				acts = append(acts, step.kind)
			} else {
				observed = append(observed, step.kind)
			}
		}
	}
	slices.Sort(acts)
	return slices.Compact(acts), observed
}

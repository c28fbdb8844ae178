package sandbox

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Incident is a world that a file describes, and what goes wrong in it.
type Incident struct {
	scenario scenario
	over     time.Duration
}

// ReadIncident reads the fields world and faults of a mapping. Both may be missing:
// then it is a chat service with a neighbour, and nothing goes wrong. Mistakes are
// reported to the mapping's document.
func ReadIncident(m *yamldoc.Mapping) *Incident {
	r := &incidentReader{d: m.Doc}
	r.world(m)
	r.faults(m)
	i := &Incident{scenario: r.s}
	if !r.stays {
		i.over = r.ends
	}
	return i
}

// Open opens the world at the clock's present moment. The seed chooses everything that
// looks random: arrivals, lengths, names.
func (i *Incident) Open(clock *Clock, seed uint64) *World {
	s := i.scenario
	s.seed = seed
	return build(s, clock, clock.Now(), nil)
}

// Services returns the names of the workloads.
func (i *Incident) Services() []string {
	var out []string
	for _, s := range i.scenario.services {
		out = append(out, s.service.Workload.Name)
	}
	return out
}

// incidentReader reads an incident.
type incidentReader struct {
	d     *yamldoc.Document
	s     scenario
	ends  time.Duration // the last fault that ends by itself
	stays bool          // one does not
}

// Bounds of a world, so that a file cannot ask for more than a machine can simulate.
const (
	maxItems    = 16
	maxReplicas = 64
	maxNodes    = 64
	maxRate     = 200.0 // requests per second
	maxTokens   = 100_000
	maxFactor   = 1000.0
	maxAfter    = 24 * time.Hour
)

func (r *incidentReader) world(m *yamldoc.Mapping) {
	r.s = scenario{services: []serviceSpec{chatService(), codeService()}, nodes: gpuNodes()}
	n := m.Get("world")
	if n == nil {
		return
	}
	w := r.d.Mapping(n, m.At("world"), "service", "services", "nodes", "alerts", "rules")
	if w == nil {
		return
	}
	if k, ok := w.Integer("nodes", 1, maxNodes); ok {
		r.s.nodes = nodesNamed(k)
	}
	r.alerting(w)
	one, many := w.Get("service"), w.Get("services")
	switch {
	case one != nil && many != nil:
		r.d.Report(many, w.At("services"), "a world has service or services", "service changes the usual one, which has a neighbour; services names all")
	case one != nil:
		if f := r.d.Mapping(one, w.At("service"), serviceFields...); f != nil {
			r.service(f, &r.s.services[0])
		}
	case many != nil:
		r.s.services = nil
		for i, item := range r.list(many, w.At("services")) {
			f := r.d.Mapping(item, fmt.Sprintf("%s[%d]", w.At("services"), i), serviceFields...)
			if f == nil {
				continue
			}
			spec := chatService()
			if f.Text("name") == codeService().service.Workload.Name {
				spec = codeService()
			}
			f.Need("name", "name of the workload")
			r.service(f, &spec)
			r.s.services = append(r.s.services, spec)
		}
	}
}

// alerting reads which rules fire alerts.
func (r *incidentReader) alerting(w *yamldoc.Mapping) {
	kinds := []string{"slo", "engine", "gpu"}
	if n := w.Get("alerts"); n != nil {
		r.s.rules = []rule{}
		names, nodes := r.d.Texts(n, w.At("alerts"))
		for i, name := range names {
			switch name {
			case "slo":
				r.s.rules = nil
			case "engine":
				r.s.engineAlerts = true
			case "gpu":
				r.s.gpuAlerts = true
			default:
				r.d.Report(nodes[i], w.At("alerts"), fmt.Sprintf("unknown alerts %q", yamldoc.Clip(name)), yamldoc.DidYouMean(name, kinds))
			}
		}
	}
	if n := w.Get("rules"); n != nil {
		for i, item := range r.list(n, w.At("rules")) {
			if f := r.d.Mapping(item, fmt.Sprintf("%s[%d]", w.At("rules"), i), "alert", "expr", "for", "labels", "summary"); f != nil {
				r.s.extra = append(r.s.extra, r.rule(f))
			}
		}
	}
}

// named renames a service, with everything that is derived from its name.
func (s *serviceSpec) named(name string) {
	s.service.Name, s.service.Workload.Name = s.service.Namespace+"/"+name, name
	s.service.Endpoint = fmt.Sprintf("http://%s.%s.sandbox:8000", name, s.service.Namespace)
	s.service.Selector = fmt.Sprintf(`namespace=%q,service=%q,model_name=%q`, s.service.Namespace, name, s.service.Model)
}

// withArgs sets options of the engine in every revision; an empty value removes one.
func (s *serviceSpec) withArgs(args map[string]string) {
	for i := range s.revisions {
		s.revisions[i].fields = template(s.revisions[i].fields, s.argFields(args))
	}
}

// argFields returns options as the fields of a pod template.
func (s *serviceSpec) argFields(args map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range args {
		out["containers["+s.service.Container+"].args["+name+"]"] = value
	}
	return out
}

// Over returns how long after the opening of the world everything that went wrong has
// ended by itself; 0: it stays.
func (i *Incident) Over() time.Duration { return i.over }

package catalog

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// The label and the annotations that declare and describe a service.
const (
	labelService        = "responder.dev/service"   // label: "true" puts the workload into the catalog
	annotationName      = "responder.dev/name"      // the service's name
	annotationOwners    = "responder.dev/owners"    // user:ada,group:ml-platform
	annotationAutonomy  = "responder.dev/autonomy"  // can lower the configured level, never raise it
	annotationMinReady  = "responder.dev/min-ready" // replicas
	annotationMaxScale  = "responder.dev/max-scale" // replicas
	annotationEngine    = "responder.dev/engine"    // else guessed from the image
	annotationModel     = "responder.dev/model"     // else read from the engine's arguments
	annotationContainer = "responder.dev/container" // else the first one
	annotationEndpoint  = "responder.dev/endpoint"  // base URL for probes, of a Service in its own namespace
	annotationGateway   = "responder.dev/gateway"   // what its requests come through
	annotationSelector  = "responder.dev/selector"  // PromQL label matchers
	annotationLoadTime  = "responder.dev/load-time" // how long a replica takes to load its model
)

// discovered converts a marked workload to a catalog entry, or reports what is
// wrong with its annotations. An incomplete service is not accepted.
func discovered(m kube.Marked, ceiling playbook.Autonomy) (Entry, error) {
	e := Entry{Source: fmt.Sprintf("%s %s/%s", m.Ref.Kind, m.Ref.Namespace, m.Ref.Name)}
	a := m.Annotations
	s := playbook.Service{
		Name: a[annotationName], Namespace: m.Ref.Namespace,
		Workload:  playbook.Workload{Kind: m.Ref.Kind, Name: m.Ref.Name},
		Container: a[annotationContainer], Engine: a[annotationEngine], Model: a[annotationModel],
		Endpoint: a[annotationEndpoint], Gateway: a[annotationGateway], Selector: a[annotationSelector], Autonomy: ceiling,
	}
	bad := func(key string, err error) (Entry, error) {
		return e, fmt.Errorf("%s: annotation %s: %w", e.Source, key, err)
	}
	for o := range strings.SplitSeq(a[annotationOwners], ",") {
		if o = strings.TrimSpace(o); o != "" {
			s.Owners = append(s.Owners, o)
		}
	}
	for key, into := range map[string]*int{annotationMinReady: &s.MinReady, annotationMaxScale: &s.MaxScale} {
		if a[key] == "" {
			continue
		}
		n, err := strconv.Atoi(a[key])
		if err != nil {
			return bad(key, fmt.Errorf("%q is not a number of replicas", a[key]))
		}
		*into = n
	}
	if v := a[annotationLoadTime]; v != "" {
		d, err := playbook.ParseDuration(v)
		if err != nil {
			return bad(annotationLoadTime, err)
		}
		s.LoadTime = d
	}
	if v := a[annotationAutonomy]; v != "" {
		level, err := playbook.ParseAutonomy(v)
		if err != nil {
			return bad(annotationAutonomy, err)
		}
		s.Autonomy = min(level, ceiling)
	}
	fromContainers(&s, m.Containers)
	s.GitOps.Application = m.Application
	var err error
	if s.Endpoint, err = inNamespace(s.Endpoint, s.Namespace); err != nil {
		return bad(annotationEndpoint, err)
	}
	finish(&s)
	// First holder of a name keeps it: nobody outside a namespace may take one of its names.
	if s.Name != "" && !strings.HasPrefix(s.Name, s.Namespace+"/") {
		return bad(annotationName, fmt.Errorf("%q is not a name of the namespace: begin it with %q, or configure the service", s.Name, s.Namespace+"/"))
	}
	if ps := validate(s); len(ps) > 0 {
		return e, fmt.Errorf("%s: %s %s (%s)", e.Source, ps[0].field, ps[0].message, ps[0].hint)
	}
	e.Service = s
	return e, nil
}

// IsNamespace reports whether a text can name a namespace.
func IsNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// inNamespace returns the address of a Service of the namespace as its full name,
// NAME.NAMESPACE.svc, and refuses any other: a person who can annotate a workload must not
// be able to send probes elsewhere. An IP, in whatever notation, is no name of a service.
// Without svc, a namespace that is called like a domain of the internet would be one.
func inNamespace(endpoint, namespace string) (string, error) {
	if endpoint == "" {
		return "", nil
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", errors.New("is not an address") // url.Error repeats the text, which may hold a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return "", errors.New("is no http or https address without credentials")
	}
	host, cluster := strings.CutSuffix(u.Hostname(), ".cluster.local")
	host = strings.TrimSuffix(host, ".svc")
	name, ns, _ := strings.Cut(host, ".")
	// The name of a Service begins with a letter, so 127.1 in the namespace 1 is none.
	if len(validation.IsDNS1035Label(name)) > 0 || ns != namespace {
		return "", fmt.Errorf("%q is not a Service of the namespace: write http://NAME.%s.svc:PORT, or configure the service", u.Hostname(), namespace)
	}
	port := u.Port()
	if u.Host = host + ".svc"; cluster {
		u.Host += ".cluster.local"
	}
	if port != "" {
		u.Host += ":" + port
	}
	return u.String(), nil
}

// fromContainers derives the engine, its container and the model from the image
// and the arguments, where the annotations do not set them.
func fromContainers(s *playbook.Service, cs []kube.Container) {
	for _, c := range cs {
		if s.Container != "" && c.Name != s.Container {
			continue
		}
		engine := guessEngine(c)
		if engine == "" && s.Container == "" {
			continue
		}
		if s.Engine == "" {
			s.Engine = engine
		}
		if s.Model == "" {
			s.Model = servedModel(c)
		}
		s.Container = c.Name
		return
	}
}

func guessEngine(c kube.Container) string {
	text := strings.ToLower(c.Image + " " + strings.Join(c.Command, " ") + " " + strings.Join(c.Args, " "))
	for _, engine := range []string{"dynamo", "sglang", "vllm"} { // dynamo first, because it runs the other two inside
		if strings.Contains(text, engine) {
			return engine
		}
	}
	return ""
}

// servedModel returns the model name in the engine's metrics: the configured
// name, else the model itself.
func servedModel(c kube.Container) string {
	args := append(append([]string(nil), c.Command...), c.Args...)
	for _, flag := range []string{"--served-model-name", "--model", "--model-path"} {
		for i, arg := range args {
			if v, ok := strings.CutPrefix(strings.ReplaceAll(arg, "_", "-"), flag+"="); ok && v != "" {
				return arg[len(arg)-len(v):]
			}
			if strings.ReplaceAll(arg, "_", "-") == flag && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				return args[i+1]
			}
		}
	}
	for i, arg := range args {
		if arg == "serve" && i > 0 && strings.HasSuffix(args[i-1], "vllm") && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			return args[i+1]
		}
	}
	return ""
}

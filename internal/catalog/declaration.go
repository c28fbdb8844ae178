package catalog

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/alertmanager/matcher/compat"
	"github.com/prometheus/alertmanager/pkg/labels"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/setting"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// maxEntries limits a configured catalog.
const maxEntries = 20_000

// Declaration is one service of the list services in responder.yaml. The tags
// are its documentation, as in the rest of that file.
type Declaration struct {
	Name       string             `yaml:"name" doc:"Unique. Default: NAMESPACE/WORKLOAD."`
	Namespace  string             `yaml:"namespace" doc:"Of the workload. Required."`
	Workload   Workload           `yaml:"workload" doc:"The object whose pods serve. Required."`
	Container  string             `yaml:"container" doc:"The engine's container. Default: the first one."`
	Engine     string             `yaml:"engine" doc:"One of vllm, sglang, dynamo, kserve. gitops.set_flag holds values to its [flags](engine-flags.md); without it no flag is added."`
	Model      string             `yaml:"model" doc:"The model's name as the engine's metrics carry it."`
	Endpoint   string             `yaml:"endpoint" doc:"Base URL for probes, e.g. http://chat.serving:8000."`
	Gateway    string             `yaml:"gateway" doc:"Name of the gateway that its requests come through. Services with the same name share it, which fleet.breaches knows."`
	SLOs       []SLO              `yaml:"slos" doc:"Its service-level objectives. Default: slo.defaults."`
	GitOps     GitOps             `yaml:"gitops" doc:"Where Git has its manifests."`
	Owners     []string           `yaml:"owners" doc:"Who may decide where a playbook says service.owners: user:ada, group:ml-platform."`
	Autonomy   playbook.Autonomy  `yaml:"autonomy" enum:"observe,suggest,auto" doc:"Ceiling for this service."`
	AutonomyOf playbook.Overrides `yaml:"autonomy_of" type:"map of levels" doc:"Levels for this service alone, by PLAYBOOK, PLAYBOOK/STATE or kind of lever, as in playbooks.autonomy. Each stands in place of the service's autonomy and of the playbook's level, also of one in playbooks.autonomy. The levels of the installation and of a state itself, the policy and a demotion still lower it." enum:"observe,suggest,auto"`
	MinReady   int                `yaml:"min_ready" doc:"Replicas that must stay ready. Default: guards.min_ready."`
	MaxScale   int                `yaml:"max_scale" doc:"Most replicas a lever may ask for. Default 0: no lever may scale up."`
	LoadTime   time.Duration      `yaml:"load_time" doc:"How long a replica takes to load its model, at most 24h: so long a slow rollout is no failed one, and so long one in rounds may be without progress, but at least 30m. Default: unknown; twice as long as the replicas before took, 30m to 2h."`
	Recovery   time.Duration      `yaml:"recovery" doc:"How long all objectives must have been met before capacity that was added for an incident is given back, at most 24h. Default: loans.recovery."`
	Warm       Warm               `yaml:"warm" doc:"The last-good revision that is kept ready beside the service. traffic.shift moves requests to it."`
	Selector   string             `yaml:"selector" doc:"PromQL label matchers of the service's series, without braces. Default: its namespace and workload's name as service."`
	Probe      *Probe             `yaml:"probe" doc:"How engine.probe asks it for completions. Left out: it is not asked. probe: {} asks its endpoint and replicas for a few common ones."`
	Match      Match              `yaml:"match" type:"list of string" doc:"Alerts that are certainly this service's, in Alertmanager's matcher syntax, e.g. {namespace=\"serving\", service=\"chat\"}. Or a mapping of labels to values, which must all match."`
}

// Workload declares the object whose pods serve.
type Workload struct {
	Kind string `yaml:"kind" doc:"Deployment (default), StatefulSet or Rollout (of Argo Rollouts)."`
	Name string `yaml:"name" doc:"Its name. Required."`
}

// SLO declares a service-level objective.
type SLO struct {
	Name      string        `yaml:"name" doc:"Unique in the service, e.g. ttft, tpot."`
	Indicator string        `yaml:"indicator" enum:"ttft,tpot,itl,e2e,errors,goodput" doc:"What is measured, by the series of the service's engine: time to first token, time per output token, time between tokens, time of the whole request, requests that fail, requests that end in time and do not fail. Default: name."`
	Objective float64       `yaml:"objective" doc:"Share of good requests, between 0 and 1; 0.99 means 99 %."`
	Window    time.Duration `yaml:"window" doc:"Over which the error budget is counted, e.g. 28d."`
	Threshold float64       `yaml:"threshold" doc:"Seconds that count as good; a bucket of the engine's histogram must end there. Not for errors."`
	Model     string        `yaml:"model" doc:"Only requests of this model, by the engine's own label."`
	Route     string        `yaml:"route" doc:"Only series whose label route has this value."`
	By        string        `yaml:"by" doc:"Label whose every value must meet the objective by itself, e.g. model_name."`
	Custom    bool          `yaml:"custom_buckets" doc:"The histogram is native, or has other buckets than the engine's own: threshold is then not held to those. While no bucket ends there, the objective is unknown."`
}

// GitOps declares where Git has the manifests of a service.
type GitOps struct {
	Application string `yaml:"application" doc:"Argo CD application that owns the manifests, NAMESPACE/NAME or NAME; or a Kustomization of Flux, flux:NAMESPACE/NAME, or a HelmRelease that one deploys, flux-helm:NAMESPACE/NAME. Default: the one that the workload's tracking id or labels name."`
	Repository  string `yaml:"repository" doc:"Where Git has them, as under gitops.repositories. Default: the application's source."`
	Branch      string `yaml:"branch" doc:"On which branch. Default: the application's target revision, else the repository's default branch."`
	Path        string `yaml:"path" doc:"And below which path. Default: the application's."`
	Object      Object `yaml:"object" doc:"The object that Git holds, where a controller makes the workload of it. Default: the workload, or the object of an operator that is known, which makes the workload and gives it its name."`
	Component   string `yaml:"component" doc:"Part of that object that the service is: the name of a Dynamo graph's service or component, of a model of Ray Serve, or decode, prefill, leader, worker. Default: the one that the workload is made of, by its name."`
}

// Object declares an object in Git.
type Object struct {
	Kind string `yaml:"kind" doc:"Its kind, e.g. InferenceService."`
	Name string `yaml:"name" doc:"Its name."`
}

// Warm declares the revision that is kept ready beside the service.
type Warm struct {
	Route    Route    `yaml:"route" doc:"The object that splits the requests, in the service's namespace. Required."`
	Backend  string   `yaml:"backend" doc:"Of an HTTPRoute: name of the backend (a Service or an InferencePool) that is the warm revision. KServe knows its own."`
	Workload Workload `yaml:"workload" doc:"Of an HTTPRoute: the object whose pods serve behind that backend."`
	Each     float64  `yaml:"percent_per_replica" doc:"Percent of the requests that one of its replicas takes, above 0 and at most 100. Default: as many as a replica of the service has."`
}

// Route declares an object that splits requests.
type Route struct {
	Kind string `yaml:"kind" doc:"HTTPRoute (default), or InferenceService in Serverless mode."`
	Name string `yaml:"name" doc:"Its name. Required."`
}

// Match is a list of matcher sets, or a mapping of labels that must all match.
type Match []labels.Matchers

// service returns the declared service with all fields that can be derived.
func (d Declaration) service() playbook.Service {
	s := playbook.Service{
		Name: d.Name, Namespace: d.Namespace, Workload: playbook.Workload(d.Workload),
		Container: d.Container, Engine: d.Engine, Model: d.Model, Endpoint: d.Endpoint, Gateway: d.Gateway,
		GitOps: playbook.GitOps{
			Application: d.GitOps.Application, Repository: d.GitOps.Repository, Branch: d.GitOps.Branch, Path: d.GitOps.Path,
			Object: playbook.Workload(d.GitOps.Object), Component: d.GitOps.Component,
		},
		Owners: d.Owners, Autonomy: d.Autonomy, MinReady: d.MinReady, MaxScale: d.MaxScale, Selector: d.Selector,
		SLOs: Objectives(d.SLOs), LoadTime: d.LoadTime, Recovery: d.Recovery, Warm: d.Warm.warm(),
	}
	if s.Workload.Kind == "" {
		s.Workload.Kind = "Deployment"
	}
	finish(&s)
	return s
}

// ServiceName returns the name of the declared service, also if it is derived.
func (d Declaration) ServiceName() string { return d.service().Name }

// Entries returns the catalog entries of declarations that Check accepts, with
// the defaults filled in. source returns where the i-th is declared.
func Entries(list []Declaration, d Defaults, source func(i int) string) []Entry {
	entries, shared := make([]Entry, 0, len(list)), map[string][]playbook.SLO{}
	for i, one := range list {
		s := one.service()
		d.into(&s, shared)
		entries = append(entries, Entry{Service: s, Match: one.Match, Source: source(i)})
	}
	return entries
}

// CheckSLOs reports what is wrong with a list of objectives at a path.
func CheckSLOs(list []SLO, at string, bad setting.Report) {
	for _, p := range validateSLOs(at, Objectives(list)) {
		bad(p.field, p.hint, "%s", p.message)
	}
}

// Check reports what is wrong with the services of a list at a path. source
// returns where the i-th is declared.
func Check(list []Declaration, at string, source func(i int) string, bad setting.Report) {
	if len(list) > maxEntries {
		bad(at, "", "has %d entries, at most %d are allowed", len(list), maxEntries)
		return
	}
	names, workloads := map[string]int{}, map[string]int{}
	for i, d := range list {
		s, path := d.service(), fmt.Sprintf("%s[%d]", at, i)
		for _, p := range validate(s) {
			bad(path+"."+p.field, p.hint, "%s", p.message)
		}
		for _, p := range unmeasured(path+".slos", s) {
			bad(p.field, p.hint, "%s", p.message)
		}
		checkProbe(d.Probe, s, path, bad)
		if s.Workload.Name == "" {
			continue
		}
		if first, twice := names[s.Name]; twice {
			bad(path+".name", "names are unique", "duplicate name %q, also at %s", s.Name, source(first))
		} else {
			names[s.Name] = i
		}
		workload := s.Namespace + "/" + s.Workload.Kind + "/" + s.Workload.Name
		if first, twice := workloads[workload]; twice {
			bad(path+".workload", "two services of one workload would be locked and changed independently", "duplicate workload, also at %s", source(first))
		} else {
			workloads[workload] = i
		}
	}
}

// DecodeYAML reads a node of responder.yaml.
func (m *Match) DecodeYAML(doc *yamldoc.Document, n *yaml.Node, path string) {
	switch n.Kind {
	case yaml.MappingNode:
		m.labels(doc, n, path)
	case yaml.SequenceNode:
		for i, c := range n.Content {
			m.text(doc, c, fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		doc.Report(n, path, "must be a list of matchers or a mapping of labels, not "+yamldoc.Describe(n), "")
	}
}

// labels reads a mapping of labels to values.
func (m *Match) labels(doc *yamldoc.Document, n *yaml.Node, path string) {
	var set labels.Matchers
	mapping := doc.Mapping(n, path)
	for _, p := range mapping.Pairs {
		value, ok := doc.Text(p.Value, mapping.At(p.Name))
		if !ok {
			continue
		}
		one, err := labels.NewMatcher(labels.MatchEqual, p.Name, value)
		if err != nil || value == "" {
			doc.Report(p.Key, mapping.At(p.Name), "is not a label with a value", "")
			continue
		}
		set = append(set, one)
	}
	if len(n.Content) == 0 {
		doc.Report(n, path, "is empty", "name at least one label, or remove the field")
		return
	}
	*m = append(*m, set)
}

// text reads one set of matchers in Alertmanager's syntax.
func (m *Match) text(doc *yamldoc.Document, n *yaml.Node, path string) {
	text, ok := doc.Text(n, path)
	if !ok {
		return
	}
	set, err := compat.FallbackMatchersParser(slog.New(slog.DiscardHandler))(text, "catalog")
	if err != nil {
		doc.Report(n, path, err.Error(), `Alertmanager's syntax, like {namespace="serving", service="chat"}`)
		return
	}
	if !slices.ContainsFunc(set, func(one *labels.Matcher) bool { return !one.Matches("") }) {
		doc.Report(n, path, "matches alerts without any label", "require at least one label")
		return
	}
	*m = append(*m, set)
}

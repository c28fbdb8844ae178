package playbook

import "cmp"

// alertFields returns the fields of the variable alert. Their names are in
// snake case, unlike the JSON of the structs.
func alertFields() []Field {
	text := Type{Name: String}
	return []Field{
		{Name: "fingerprint", Type: text, Doc: "Hash of its labels."},
		{Name: "status", Type: text, Enum: []string{string(Firing), string(Resolved)}},
		{Name: "labels", Type: Type{Name: Map, Elem: &text}, Doc: "Its labels."},
		{Name: "annotations", Type: Type{Name: Map, Elem: &text}, Doc: "Its annotations."},
		{Name: "starts_at", Type: Type{Name: Timestamp}, Doc: "When it began to fire."},
		{Name: "ends_at", Type: Type{Name: Timestamp}, Doc: "When it ended; absent while it fires."},
		{Name: "generator_url", Type: text, Doc: "Where Prometheus shows it."},
	}
}

// ServiceFields returns the fields of the variable service.
func ServiceFields() []Field {
	text, whole, ratio := Type{Name: String}, Type{Name: Int}, Type{Name: Double}
	return []Field{
		{Name: "name", Type: text, Doc: "Its name in the catalog."},
		{Name: "namespace", Type: text, Doc: "Of the workload."},
		{Name: "workload", Type: Type{Name: Object, Fields: []Field{{Name: "kind", Type: text}, {Name: "name", Type: text}}}},
		{Name: "container", Type: text, Doc: "The engine's container; empty: the first one."},
		{Name: "engine", Type: text, Doc: "The serving engine; empty: unknown."},
		{Name: "model", Type: text, Doc: "Name of the model in the engine's metrics."},
		{Name: "endpoint", Type: text, Doc: "Base URL for probes."},
		{Name: "gateway", Type: text, Doc: "Gateway that its requests come through; empty: unknown."},
		{Name: "slos", Type: Type{Name: List, Elem: &Type{Name: Object, Fields: []Field{
			{Name: "name", Type: text},
			{Name: "objective", Type: ratio},
			{Name: "window", Type: Type{Name: Duration}},
			{Name: "threshold", Type: ratio},
		}}}},
		{Name: "gitops", Type: Type{Name: Object, Fields: []Field{
			{Name: "application", Type: text}, {Name: "repository", Type: text}, {Name: "branch", Type: text}, {Name: "path", Type: text},
		}}},
		{Name: "owners", Type: Type{Name: List, Elem: &text}, Doc: "Who may decide, such as group:ml-platform."},
		{Name: "autonomy", Type: text, Enum: []string{"observe", "suggest", "auto"}},
		{Name: "min_ready", Type: whole, Doc: "Replicas that must stay ready."},
		{Name: "max_scale", Type: whole, Doc: "Most replicas that a lever may ask for; 0: none may scale up."},
		{Name: "load_time", Type: Type{Name: Duration}, Doc: "How long a new replica takes until it serves, as the catalog says; 0: unknown. What the cluster shows is load_within of kube.workload."},
		{Name: "recovery", Type: Type{Name: Duration}, Doc: "How long the service must meet its objectives until loans are given back."},
		{Name: "selector", Type: text, Doc: "Label matchers of the service's series, for `{${service.selector}}` in PromQL."},
	}
}

// alertValue converts an alert to the variable alert. A missing end is omitted,
// so that a condition on it fails and does not read the year 1.
func alertValue(a Alert) map[string]any {
	v := map[string]any{
		"fingerprint":   a.Fingerprint,
		"status":        string(a.Status),
		"labels":        textMap(a.Labels),
		"annotations":   textMap(a.Annotations),
		"starts_at":     a.StartsAt,
		"generator_url": a.GeneratorURL,
	}
	if !a.EndsAt.IsZero() {
		v["ends_at"] = a.EndsAt
	}
	return v
}

// alertValues converts the alerts of a run to the variable alerts.
func alertValues(s Scope) []any {
	alerts := []Alert{s.Alert}
	if s.Alerts != nil {
		alerts = s.Alerts()
	}
	out := make([]any, len(alerts))
	for i, a := range alerts {
		out[i] = alertValue(a)
	}
	return out
}

// ServiceValue converts a service to the variable service, an object with
// [ServiceFields].
func ServiceValue(s Service) map[string]any {
	slos := make([]any, len(s.SLOs))
	for i, o := range s.SLOs {
		slos[i] = map[string]any{"name": o.Name, "objective": o.Objective, "window": o.Window, "threshold": o.Threshold}
	}
	owners := make([]any, len(s.Owners))
	for i, o := range s.Owners {
		owners[i] = o
	}
	return map[string]any{
		"name":      s.Name,
		"namespace": s.Namespace,
		"workload":  map[string]any{"kind": s.Workload.Kind, "name": s.Workload.Name},
		"container": s.Container,
		"engine":    s.Engine,
		"model":     s.Model,
		"endpoint":  s.Endpoint,
		"gateway":   s.Gateway,
		"slos":      slos,
		"gitops": map[string]any{
			"application": s.GitOps.Application, "repository": s.GitOps.Repository, "branch": s.GitOps.Branch, "path": s.GitOps.Path,
		},
		"owners":    owners,
		"autonomy":  s.Autonomy.String(),
		"min_ready": int64(s.MinReady),
		"max_scale": int64(s.MaxScale),
		"load_time": s.LoadTime,
		"recovery":  cmp.Or(s.Recovery, DefaultRecovery),
		"selector":  s.Selector,
	}
}

func textMap(m map[string]string) map[string]any {
	v := make(map[string]any, len(m))
	for k, text := range m {
		v[k] = text
	}
	return v
}

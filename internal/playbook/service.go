package playbook

import (
	"encoding/json"
	"fmt"
	"time"
)

// Service is one inference endpoint as playbooks and runs see it. A run keeps
// the Service it started with. The catalog creates services; conditions read
// them as the variable service.
type Service struct {
	Name      string   `json:"name"`                // unique in the catalog: namespace/name unless configured otherwise
	Namespace string   `json:"namespace"`           // of the workload
	Workload  Workload `json:"workload"`            // the object whose pods serve
	Container string   `json:"container,omitempty"` // the engine's container; empty: the first one
	Engine    string   `json:"engine,omitempty"`    // vllm, sglang, dynamo, kserve; empty: unknown
	Model     string   `json:"model,omitempty"`     // model_name in the engine's metrics
	Endpoint  string   `json:"endpoint,omitempty"`  // base URL for probes, e.g. http://chat.serving:8000
	Gateway   string   `json:"gateway,omitempty"`   // what its requests come through, e.g. edge-eu; services with the same text share it

	SLOs     []SLO    `json:"slos,omitempty"`
	GitOps   GitOps   `json:"gitops,omitzero"`
	Owners   []string `json:"owners,omitempty"` // people or groups who may decide, e.g. user:ada, group:ml-platform
	Autonomy Autonomy `json:"autonomy"`         // ceiling for this service; the zero value is observe
	MinReady int      `json:"minReady"`         // replicas that must stay ready, >= 0
	MaxScale int      `json:"maxScale"`         // most replicas a lever may request; 0: no lever may scale up

	// LoadTime is how long a new replica takes until it serves, mostly to load
	// its model; 0: unknown. Recovery is how long the SLO must hold until what
	// was added for an incident is given back; 0: 30 minutes.
	LoadTime time.Duration `json:"loadTime,omitempty"`
	Recovery time.Duration `json:"recovery,omitempty"`

	Warm Warm `json:"warm,omitzero"`

	// PromQL label matchers of this service's series, without braces:
	// ${service.selector} in an expression.
	Selector string `json:"selector,omitempty"`
}

// Warm is the last-good revision that is kept ready beside the service, so that
// requests can be moved to it at once; the zero value: there is none.
type Warm struct {
	Route    Workload `json:"route"`             // the HTTPRoute or InferenceService that splits the requests, in the service's namespace
	Backend  string   `json:"backend,omitempty"` // of an HTTPRoute: name of the backend that is the warm revision
	Workload Workload `json:"workload,omitzero"` // of an HTTPRoute: the object whose pods serve behind that backend
	Each     float64  `json:"each,omitempty"`    // percent of the requests that one of its replicas takes; 0: as many as one of the service's has
}

// DefaultRecovery is how long a service must meet its objectives until its loans
// are given back, unless its catalog entry sets recovery.
const DefaultRecovery = 30 * time.Minute

// Workload identifies a Kubernetes object by kind and name, in the service's
// namespace.
type Workload struct {
	Kind string `json:"kind"` // Deployment, StatefulSet, Rollout
	Name string `json:"name"`
}

// SLO is a service-level objective on a ratio of good events.
type SLO struct {
	Name      string        `json:"name"`                // ttft, tpot, errors
	Objective float64       `json:"objective"`           // 0 < objective < 1, e.g. 0.99
	Window    time.Duration `json:"window"`              // e.g. 28 days
	Threshold float64       `json:"threshold,omitempty"` // seconds; the histogram bucket that counts as good
	Indicator string        `json:"indicator,omitempty"` // ttft, tpot, itl, e2e, errors, goodput; empty: Name
	Model     string        `json:"model,omitempty"`     // only requests of this model, by the engine's own label
	Route     string        `json:"route,omitempty"`     // only series with the label route
	By        string        `json:"by,omitempty"`        // every value of this label must meet the objective by itself
	// CustomBuckets is set if the histogram is native, or has other buckets than the
	// engine's known versions. Threshold is then not checked against those.
	CustomBuckets bool `json:"customBuckets,omitempty"`
}

// Measures returns the indicator that the objective is about.
func (o SLO) Measures() string {
	if o.Indicator == "" {
		return o.Name
	}
	return o.Indicator
}

// sloJSON is the JSON form of an SLO. Its window is text such as 28d.
type sloJSON struct {
	Name      string  `json:"name"`
	Objective float64 `json:"objective"`
	Window    string  `json:"window"`
	Threshold float64 `json:"threshold,omitempty"`
	Indicator string  `json:"indicator,omitempty"`
	Model     string  `json:"model,omitempty"`
	Route     string  `json:"route,omitempty"`
	By        string  `json:"by,omitempty"`
	Custom    bool    `json:"customBuckets,omitempty"`
}

// MarshalJSON writes the window as text.
func (o SLO) MarshalJSON() ([]byte, error) {
	return json.Marshal(sloJSON{o.Name, o.Objective, FormatDuration(o.Window), o.Threshold, o.Indicator, o.Model, o.Route, o.By, o.CustomBuckets})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (o *SLO) UnmarshalJSON(data []byte) error {
	var j sloJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("decode an SLO: %w", err)
	}
	window, err := ParseDuration(j.Window)
	if err != nil {
		return fmt.Errorf("decode SLO %s: window: %w", j.Name, err)
	}
	*o = SLO{j.Name, j.Objective, window, j.Threshold, j.Indicator, j.Model, j.Route, j.By, j.Custom}
	return nil
}

// GitOps locates the service's manifests in Git; the zero value: unknown.
type GitOps struct {
	Application string   `json:"application,omitempty"` // Argo CD application, namespace/name or name
	Repository  string   `json:"repository,omitempty"`  // URL without credentials
	Branch      string   `json:"branch,omitempty"`      // empty: that of the application, else the repository's default
	Path        string   `json:"path,omitempty"`        // below the repository's root, slash-separated
	Object      Workload `json:"object,omitzero"`       // the object in Git from which a controller makes the workload; zero: as the cluster reports
	Component   string   `json:"component,omitempty"`   // part of that object: a Dynamo graph's service, decode or prefill; empty: the one that the workload is made of
}

// Autonomy is how far a run may go without a person. The effective level of a
// lever is the lowest of service, policy, playbook and state.
type Autonomy int

// The levels, lowest first. The zero value is the safe one.
const (
	Observe Autonomy = iota // record what a run would do
	Suggest                 // act after approval
	Auto                    // act
)

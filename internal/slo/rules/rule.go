package rules

// Rule is one rule of Prometheus, a recording or an alert.
type Rule struct {
	Record      string            `json:"record,omitempty"`
	Alert       string            `json:"alert,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Group is a group of rules, which Prometheus evaluates in order.
type Group struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// File is a rule file of Prometheus.
type File struct {
	Groups []Group `json:"groups"`
}

// Object is a PrometheusRule of the Prometheus operator.
type Object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       File     `json:"spec"`
}

// Metadata names an [Object]. The operator selects objects by their labels.
type Metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// PrometheusRule returns groups as an object for the Prometheus operator.
func PrometheusRule(m Metadata, groups []Group) Object {
	return Object{APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule", Metadata: m, Spec: File{Groups: groups}}
}

package sandbox

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox/physics"
	slorules "github.com/inference-responder/responder/internal/slo/rules"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// serviceFields are what a file may say of a service. What it does not say is as in the
// demo's service.
var serviceFields = []string{
	"name", "engine", "replicas", "min_ready", "max_scale", "autonomy", "load_time", "loads_in", "surge", "slos", "hpa", "warm", "git",
	"rate", "prompt", "output", "prefixes", "args", "kv_per_token",
}

var workloadName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// service reads what is different about a service.
func (r *incidentReader) service(m *yamldoc.Mapping, s *serviceSpec) {
	if m.Has("name") {
		if name := m.Text("name"); workloadName.MatchString(name) {
			s.named(name)
		} else {
			r.d.Report(m.Get("name"), m.At("name"), fmt.Sprintf("%q is no name of a workload", yamldoc.Clip(name)), "lower-case letters, digits and dashes, at most 63")
		}
	}
	switch engine := m.Text("engine"); engine {
	case "", "vllm":
	case "sglang":
		*s = onSGLang(*s)
	default:
		r.d.Report(m.Get("engine"), m.At("engine"), fmt.Sprintf("unknown engine %q", yamldoc.Clip(engine)), yamldoc.DidYouMean(engine, []string{"vllm", "sglang"}))
	}
	for field, to := range map[string]*int{"replicas": &s.replicas, "min_ready": &s.service.MinReady, "max_scale": &s.service.MaxScale, "surge": &s.surge} {
		if v, ok := m.Integer(field, 0, maxReplicas); ok {
			*to = v
		}
	}
	if n := m.Get("autonomy"); n != nil {
		level, err := playbook.ParseAutonomy(m.Text("autonomy"))
		if err != nil {
			r.d.Report(n, m.At("autonomy"), err.Error(), "")
		}
		s.service.Autonomy = level
	}
	for field, to := range map[string]*time.Duration{"load_time": &s.service.LoadTime, "loads_in": &s.loading} {
		if m.Has(field) {
			*to = m.Duration(field, maxAfter)
		}
	}
	r.hpa(m, s)
	r.warm(m, s)
	if m.Has("git") && m.Boolean("git") {
		s.inGit()
	}
	if n := m.Get("slos"); n != nil {
		r.slos(n, m.At("slos"), s)
	}
	r.load(m, s)
	if n := m.Get("args"); n != nil {
		s.withArgs(r.texts(n, m.At("args")))
	}
	if f, ok := r.number(m, "kv_per_token", 0.01, maxFactor); ok {
		s.hardware.KVToken *= f
	}
}

// hpa reads the autoscaler of the replicas.
func (r *incidentReader) hpa(m *yamldoc.Mapping, s *serviceSpec) {
	n := m.Get("hpa")
	if n == nil {
		return
	}
	f := r.d.Mapping(n, m.At("hpa"), "min", "max", "target")
	if f == nil {
		return
	}
	var out autoscaling
	out.min, _ = f.Integer("min", 1, maxReplicas)
	out.max, _ = f.Integer("max", 1, maxReplicas)
	out.target, _ = r.number(f, "target", 0.1, maxFactor)
	if err := out.check(); err != nil {
		r.d.Report(n, m.At("hpa"), err.Error(), "e.g. {min: 4, max: 8, target: 12}; target is the requests that a replica runs and holds waiting")
		return
	}
	s.hpa = &out
}

// warm reads the last-good revision that is kept ready beside the service.
func (r *incidentReader) warm(m *yamldoc.Mapping, s *serviceSpec) {
	n := m.Get("warm")
	if n == nil {
		return
	}
	f := r.d.Mapping(n, m.At("warm"), "replicas", "percent_per_replica")
	if f == nil {
		return
	}
	var out warmSpec
	f.Need("replicas", "how many are kept ready")
	out.replicas, _ = f.Integer("replicas", 1, maxReplicas)
	out.each, _ = r.number(f, "percent_per_replica", 0.1, 100)
	s.withWarm(out)
}

// load reads what clients send.
func (r *incidentReader) load(m *yamldoc.Mapping, s *serviceSpec) {
	if v, ok := r.number(m, "rate", 0, maxRate); ok {
		s.load.Rate = v
	}
	r.length(m, "prompt", &s.load.Prompt)
	r.length(m, "output", &s.load.Output)
	n := m.Get("prefixes")
	if n == nil {
		return
	}
	p := r.d.Mapping(n, m.At("prefixes"), "count", "tokens", "share")
	if p == nil {
		return
	}
	if v, ok := p.Integer("count", 0, maxTokens); ok {
		s.load.Prefixes = v
	}
	if v, ok := p.Integer("tokens", 1, maxTokens); ok {
		s.load.Shared = v
	}
	if v, ok := r.number(p, "share", 0, 1); ok {
		s.load.Share = v
	}
}

// length reads a distribution of tokens: its mean, or the mean and the spread.
func (r *incidentReader) length(m *yamldoc.Mapping, name string, to *physics.Length) {
	n := m.Get(name)
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		if v, ok := r.number(m, name, 1, maxTokens); ok {
			to.Mean = v
		}
		return
	}
	f := r.d.Mapping(n, m.At(name), "mean", "sigma")
	if f == nil {
		return
	}
	if v, ok := r.number(f, "mean", 1, maxTokens); ok {
		to.Mean = v
	}
	if v, ok := r.number(f, "sigma", 0, 3); ok {
		to.Sigma = v
	}
}

// slos reads the objectives.
func (r *incidentReader) slos(n *yaml.Node, path string, s *serviceSpec) {
	s.service.SLOs = nil
	for i, item := range r.list(n, path) {
		f := r.d.Mapping(item, fmt.Sprintf("%s[%d]", path, i), "name", "objective", "threshold")
		if f == nil {
			continue
		}
		f.Need("name", "ttft, tpot or errors")
		o := playbook.SLO{Name: f.Text("name"), Objective: 0.99, Window: 28 * 24 * time.Hour}
		if !slices.Contains([]string{"ttft", "tpot", "errors"}, o.Name) {
			r.d.Report(f.Get("name"), f.At("name"), fmt.Sprintf("unknown objective %q", yamldoc.Clip(o.Name)), "allowed: ttft, tpot, errors")
		}
		if v, ok := r.number(f, "objective", 0.5, 0.99999); ok {
			o.Objective = v
		}
		if v, ok := r.number(f, "threshold", 0.0001, maxTokens); ok {
			o.Threshold = v
		}
		s.service.SLOs = append(s.service.SLOs, o)
	}
}

// rule reads an alerting rule of Prometheus.
func (r *incidentReader) rule(m *yamldoc.Mapping) slorules.Rule {
	m.Need("alert", "name of the alert")
	m.Need("expr", "PromQL; the labels namespace, service and model_name of its result name the service")
	out := slorules.Rule{Alert: m.Text("alert"), Expr: m.Text("expr"), For: "0s", Labels: map[string]string{"severity": "critical"}, Annotations: map[string]string{"summary": m.Text("summary")}}
	if m.Has("for") {
		out.For = yamldoc.FormatDuration(m.Duration("for", maxAfter))
	}
	if n := m.Get("labels"); n != nil {
		for k, v := range r.texts(n, m.At("labels")) {
			out.Labels[k] = v
		}
	}
	return out
}

// list returns the items of a list of 1 to maxItems items.
func (r *incidentReader) list(n *yaml.Node, path string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > maxItems {
		r.d.Report(n, path, fmt.Sprintf("want a list of 1 to %d, got %s", maxItems, yamldoc.Describe(n)), "")
		return nil
	}
	return n.Content
}

// number reads an optional number within bounds.
func (r *incidentReader) number(m *yamldoc.Mapping, name string, least, most float64) (float64, bool) {
	v, ok := m.Number(name)
	if ok && (v < least || v > most) {
		r.d.Report(m.Get(name), m.At(name), fmt.Sprintf("%g is out of range: want %g to %g", v, least, most), "")
		return 0, false
	}
	return v, ok
}

// texts reads a mapping of texts. Numbers are taken as they are written.
func (r *incidentReader) texts(n *yaml.Node, path string) map[string]string {
	m := r.d.Mapping(n, path)
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for _, pair := range m.Pairs {
		if pair.Value.Kind != yaml.ScalarNode {
			r.d.Report(pair.Value, m.At(pair.Name), "want a text, got "+yamldoc.Describe(pair.Value), "")
			continue
		}
		out[pair.Name] = pair.Value.Value
	}
	return out
}

// offset reads a moment relative to the opening of the world: -12m is before it.
func (r *incidentReader) offset(n *yaml.Node, path string) time.Duration {
	text, sign := n.Value, time.Duration(1)
	if n.Kind == yaml.ScalarNode && len(text) > 0 && text[0] == '-' {
		text, sign = text[1:], -1
	}
	if zero, err := strconv.Atoi(text); err == nil && zero == 0 {
		return 0
	}
	d, err := yamldoc.ParseDuration(text)
	if n.Kind != yaml.ScalarNode || err != nil {
		r.d.Report(n, path, "want a moment, got "+yamldoc.Describe(n), "write -12m for twelve minutes before the world opens, 5m for five minutes after")
		return 0
	}
	if sign < 0 && d >= history {
		r.d.Report(n, path, fmt.Sprintf("%s is before the world's history", yamldoc.Clip(n.Value)), "at most -"+yamldoc.FormatDuration(history-time.Minute))
	}
	return sign * d
}

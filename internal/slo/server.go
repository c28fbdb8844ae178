package slo

import (
	"context"
	"net/url"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// Rule is a rule that Prometheus has loaded.
type Rule struct {
	Name      string // of the alert, or of the recorded series
	Alerts    bool   // it is an alerting rule
	Expr      string // as Prometheus writes it
	Labels    map[string]string
	LastError string              // of its last evaluation; empty: it could be evaluated
	Active    []map[string]string // labels of its alerts that are pending or fire
}

// Rules returns the rules that are loaded. The error is a [*fault.Error].
func (p *Prometheus) Rules(ctx context.Context) ([]Rule, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	result, err := p.api.Rules(ctx, nil)
	if err != nil {
		return nil, p.fail("rules", err)
	}
	var out []Rule
	for _, g := range result.Groups {
		for _, r := range g.Rules {
			switch r := r.(type) {
			case promv1.RecordingRule:
				out = append(out, Rule{Name: r.Name, Expr: r.Query, Labels: labelSet(r.Labels), LastError: p.clean(r.LastError)})
			case promv1.AlertingRule:
				x := Rule{Name: r.Name, Alerts: true, Expr: r.Query, Labels: labelSet(r.Labels), LastError: p.clean(r.LastError)}
				for _, a := range r.Alerts {
					x.Active = append(x.Active, labelSet(a.Labels))
				}
				out = append(out, x)
			}
		}
	}
	return out, nil
}

func labelSet(s model.LabelSet) map[string]string { return labelMap(model.Metric(s)) }

// alertsPath is where Prometheus posts alerts, below the base URL of an
// Alertmanager.
const alertsPath = "/api/v2/alerts"

// Alertmanagers returns the base URLs of the Alertmanagers that Prometheus sends
// alerts to. The error is a [*fault.Error].
func (p *Prometheus) Alertmanagers(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	result, err := p.api.AlertManagers(ctx)
	if err != nil {
		return nil, p.fail("alertmanagers", err)
	}
	var out []string
	for _, a := range result.Active {
		if u, err := url.Parse(a.URL); err == nil {
			u.User = nil
			out = append(out, strings.TrimSuffix(u.String(), alertsPath))
		}
	}
	return out, nil
}

// ExternalLabels returns the labels that Prometheus adds to every alert that it
// sends. The error is a [*fault.Error].
func (p *Prometheus) ExternalLabels(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	result, err := p.api.Config(ctx)
	if err != nil {
		return nil, p.fail("configuration", err)
	}
	var config struct {
		Global struct {
			ExternalLabels map[string]string `yaml:"external_labels"`
		} `yaml:"global"`
	}
	if err := yaml.Unmarshal([]byte(result.YAML), &config); err != nil {
		return nil, p.fail("configuration", err)
	}
	return config.Global.ExternalLabels, nil
}

// Clock returns how far Prometheus's clock is ahead of ours, give or take half of
// the time that the answer took. The error is a [*fault.Error].
func (p *Prometheus) Clock(ctx context.Context) (ahead, within time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	asked := time.Now()
	// No time is given, so that the server takes its own.
	value, _, _, err := p.api.Query(ctx, "time()", time.Time{}, promv1.WithTimeout(p.timeout))
	if err != nil {
		return 0, 0, p.fail("time()", err)
	}
	took := time.Since(asked)
	at, ok := value.(*model.Scalar)
	if !ok {
		return 0, 0, p.fail("time()", errKind)
	}
	return time.UnixMilli(int64(at.Value * 1000)).Sub(asked.Add(took / 2)), took / 2, nil
}

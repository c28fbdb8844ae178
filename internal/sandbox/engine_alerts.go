package sandbox

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/playbook"
	slorules "github.com/inference-responder/responder/internal/slo/rules"
)

// engineRules returns the alerts of deploy/prometheus about the first service's engine
// that no objective covers.
func engineRules(s scenario) []slorules.Rule {
	if !s.engineAlerts {
		return nil
	}
	g, err := slorules.EngineGroup(slorules.Service{Engine: s.services[0].service.Engine})
	if err != nil {
		panic(fmt.Sprintf("the rules about the engine: %s", err)) // unreachable unless a scenario has another engine than vllm and sglang
	}
	return g.Rules
}

// evaluatePlain evaluates a rule of Prometheus at one moment.
func (a *watch) evaluatePlain(ctx context.Context, r slorules.Rule, at time.Time) error {
	wait, err := model.ParseDuration(r.For)
	if err != nil {
		return err
	}
	v, err := a.world.instant(ctx, r.Expr, at)
	if err != nil {
		return err
	}
	var active []playbook.Alert
	for _, s := range v.Samples {
		labels := maps.Clone(s.Labels)
		maps.Copy(labels, r.Labels)
		labels["alertname"] = r.Alert
		active = append(active, playbook.Alert{Labels: labels, Annotations: map[string]string{"summary": filled(r.Annotations["summary"], labels, s.Value)}})
	}
	a.update(r.Alert, time.Duration(wait), active, at)
	return nil
}

var placeholder = regexp.MustCompile(`{{ *\$(value|labels\.([a-z_]+))[^}]*}}`)

// filled returns an annotation with the value and the labels of its alert. Numbers are
// plain, whatever function of Prometheus should write them.
func filled(text string, labels map[string]string, value float64) string {
	return placeholder.ReplaceAllStringFunc(text, func(s string) string {
		if m := placeholder.FindStringSubmatch(s); m[2] != "" {
			return labels[m[2]]
		}
		return fmt.Sprintf("%.3g", value)
	})
}

package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// message is the body of Alertmanager's webhook, version 4, in its order.
type message struct {
	Receiver           string            `json:"receiver"`
	Status             string            `json:"status"`
	Alerts             []messageAlert    `json:"alerts"`
	NotificationReason string            `json:"notification_reason"`
	GroupLabels        map[string]string `json:"groupLabels"`
	CommonLabels       map[string]string `json:"commonLabels"`
	CommonAnnotations  map[string]string `json:"commonAnnotations"`
	RouteLabels        map[string]string `json:"routeLabels"`
	ExternalURL        string            `json:"externalURL"`
	Version            string            `json:"version"`
	GroupKey           string            `json:"groupKey"`
	TruncatedAlerts    uint64            `json:"truncatedAlerts"`
}

type messageAlert struct {
	Status       string            `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`
}

// Notification returns the webhook body that Alertmanager would post at now for
// the scenario's service: its alerts, and those about nodes, that fire and those
// that have resolved. Nil when none has ever fired.
func (w *World) Notification(ctx context.Context, now time.Time) ([]byte, error) {
	alerts, err := w.watch.alerts(ctx, now)
	if err != nil {
		return nil, err
	}
	ref := w.fleets[0].ref
	alerts = slices.DeleteFunc(alerts, func(a playbook.Alert) bool {
		return a.Labels["node"] == "" && !of(a, ref)
	})
	if len(alerts) == 0 {
		return nil, nil
	}
	group := map[string]string{"namespace": ref.Namespace, "service": ref.Name}
	if slices.ContainsFunc(alerts, func(a playbook.Alert) bool { return !of(a, ref) }) {
		group = map[string]string{}
	}
	return encode(alerts, group)
}

// Notifications returns what Alertmanager would post at now, one body for each
// service with alerts and one for the alerts about nodes.
func (w *World) Notifications(ctx context.Context, now time.Time) ([][]byte, error) {
	alerts, err := w.watch.alerts(ctx, now)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	add := func(group map[string]string, of func(a playbook.Alert) bool) {
		list := slices.DeleteFunc(slices.Clone(alerts), func(a playbook.Alert) bool { return !of(a) })
		if len(list) == 0 || err != nil {
			return
		}
		var body []byte
		if body, err = encode(list, group); err == nil {
			out = append(out, body)
		}
	}
	for _, f := range w.fleets {
		add(map[string]string{"namespace": f.ref.Namespace, "service": f.ref.Name}, func(a playbook.Alert) bool { return of(a, f.ref) })
	}
	add(map[string]string{}, func(a playbook.Alert) bool { return a.Labels["service"] == "" })
	return out, err
}

// encode returns the body about the alerts of one group.
func encode(alerts []playbook.Alert, group map[string]string) ([]byte, error) {
	key := "{}:{}"
	if len(group) > 0 {
		key = fmt.Sprintf("{}:{namespace=%q, service=%q}", group["namespace"], group["service"])
	}
	m := message{
		Receiver: "responder", Status: string(playbook.Resolved), GroupLabels: group, RouteLabels: map[string]string{},
		NotificationReason: "all alerts resolved",
		ExternalURL:        "http://alertmanager.sandbox:9093", Version: "4",
		GroupKey: key,
	}
	for _, a := range alerts {
		if a.Status == playbook.Firing {
			m.Status = string(playbook.Firing)
		}
		m.Alerts = append(m.Alerts, messageAlert{
			Status: string(a.Status), Labels: a.Labels, Annotations: a.Annotations,
			StartsAt: a.StartsAt, EndsAt: a.EndsAt, GeneratorURL: a.GeneratorURL, Fingerprint: a.Fingerprint,
		})
	}
	if m.Status == string(playbook.Firing) {
		m.NotificationReason = reason(alerts)
	}
	m.CommonLabels = common(m.Alerts, func(a messageAlert) map[string]string { return a.Labels })
	m.CommonAnnotations = common(m.Alerts, func(a messageAlert) map[string]string { return a.Annotations })
	var b strings.Builder
	if err := json.NewEncoder(&b).Encode(m); err != nil {
		return nil, fmt.Errorf("encode notification: %w", err)
	}
	return []byte(b.String()), nil
}

// of reports whether an alert names the workload.
func of(a playbook.Alert, ref kube.Ref) bool {
	return a.Labels["namespace"] == ref.Namespace && a.Labels["service"] == ref.Name
}

// reason returns why Alertmanager notifies of a firing group.
func reason(alerts []playbook.Alert) string {
	for _, a := range alerts {
		if a.Status == playbook.Resolved {
			return "some alerts resolved"
		}
		if !a.StartsAt.Equal(alerts[0].StartsAt) {
			return "new alerts added"
		}
	}
	return "first notification"
}

// common returns the labels that all alerts share.
func common(alerts []messageAlert, of func(messageAlert) map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range of(alerts[0]) {
		if !slices.ContainsFunc(alerts, func(a messageAlert) bool { got, ok := of(a)[k]; return !ok || got != v }) {
			out[k] = v
		}
	}
	return out
}

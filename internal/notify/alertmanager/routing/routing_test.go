package routing

import (
	"os"
	"strings"
	"testing"
)

// real is a configuration as /api/v2/status shows it: defaults written out, secrets
// hidden, and both old and new forms of matchers.
const real = `
global:
  resolve_timeout: 5m
route:
  receiver: people
  group_by: [cluster, alertname]
  group_wait: 30s
  routes:
  - receiver: responder
    matchers:
    - alertname=~"Inference.*|GPU.*"
    group_by: [alertname, namespace, service, node]
    continue: true
  - receiver: gpu-team
    match_re:
      alertname: GPU.*
    routes:
    - receiver: gpu-night
      match:
        severity: critical
      active_time_intervals: [night]
  - matchers: ['{severity="warning",team!="ml"}', namespace="serving"]
    receiver: tickets
    group_by: ['...']
inhibit_rules: []
receivers:
- name: people
  pagerduty_configs:
  - service_key: <secret>
- name: responder
  webhook_configs:
  - send_resolved: true
    http_config:
      authorization: {type: Bearer, credentials_file: /etc/token}
    url: <secret>
    url_file: ""
    max_alerts: 0
- name: gpu-team
- name: gpu-night
- name: tickets
  webhook_configs:
  - {url: 'http://tickets.example/hook', send_resolved: false, max_alerts: 20}
`

func TestDeliveries(t *testing.T) {
	c, err := Parse(real)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ alert, want string }{
		{"alertname=InferenceTTFTFastBurn severity=critical", "responder by alertname,namespace,service,node"},
		{"alertname=MyInference severity=critical", "people by cluster,alertname"}, // expressions are anchored
		{"alertname=GPUFault severity=warning", "responder by alertname,namespace,service,node; gpu-team by cluster,alertname"},
		{"alertname=GPUFault severity=critical", "responder by alertname,namespace,service,node; gpu-night by cluster,alertname (night)"},
		{"alertname=Disk severity=warning namespace=serving", "tickets by ..."}, // a label that is not there is not ml
		{"alertname=Disk severity=warning namespace=serving team=ml", "people by cluster,alertname"},
		{"alertname=InferenceQueueGrowth severity=warning namespace=serving", "responder by alertname,namespace,service,node; tickets by ..."},
		{"alertname=Disk", "people by cluster,alertname"},
	} {
		alert := map[string]string{}
		for _, f := range strings.Fields(test.alert) {
			name, value, _ := strings.Cut(f, "=")
			alert[name] = value
		}
		var got []string
		for _, d := range c.Deliveries(alert) {
			by := strings.Join(d.GroupBy, ",")
			if d.ByAll {
				by = "..."
			}
			text := d.Receiver + " by " + by
			if len(d.Muted) > 0 {
				text += " (" + strings.Join(d.Muted, ",") + ")"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != test.want {
			t.Errorf("%s:\n got  %s\n want %s", test.alert, text, test.want)
		}
	}
	if names := strings.Join(c.Receivers(), " "); names != "responder tickets" {
		t.Errorf("receivers with webhooks: %s", names)
	}
	if w := c.Webhooks("responder")[0]; w.URL != "" || !w.SendResolved || w.MaxAlerts != 0 {
		t.Errorf("webhook %+v", w)
	}
	if w := c.Webhooks("tickets")[0]; w.URL != "http://tickets.example/hook" || w.SendResolved || w.MaxAlerts != 20 {
		t.Errorf("webhook %+v", w)
	}
}

// The shipped snippet routes to its receiver, keeps services and nodes apart, and a
// webhook without send_resolved sends it.
func TestShippedReceiver(t *testing.T) {
	text, err := os.ReadFile("../../../../deploy/alertmanager/receiver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(strings.Replace(string(text), "route:\n", "route:\n  receiver: people\n", 1))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Deliveries(map[string]string{"alertname": "InferenceTTFTFastBurn", "namespace": "serving", "service": "chat"})
	if len(got) != 1 || got[0].Receiver != "responder" || !got[0].Keeps("service") || !got[0].Keeps("node") || got[0].Keeps("pod") {
		t.Errorf("deliveries %+v", got)
	}
	if !got[0].Webhooks[0].SendResolved || got[0].Webhooks[0].URL != "https://responder.responder.svc:8080/api/v1/alertmanager" {
		t.Errorf("webhooks %+v", got[0].Webhooks)
	}
}

func TestUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		"route: [":      "read the configuration of Alertmanager",
		"receivers: []": "it has no route",
		"route: {receiver: a, matchers: ['a=~\"(\"']}": "matcher",
		"route: {receiver: a, match_re: {a: '('}}":     "match of a route on a",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

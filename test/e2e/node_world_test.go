//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// scrapeAll starts a Prometheus over what a handler serves, and over others,
// host:port.
func scrapeAll(t *testing.T, metrics http.Handler, others ...string) *rig.Prometheus {
	t.Helper()
	server := httptest.NewServer(metrics)
	t.Cleanup(server.Close)
	return rig.StartPrometheus(t, rig.PrometheusOptions{Targets: append(others, strings.TrimPrefix(server.URL, "http://"))})
}

// Whether a node that takes no pods counts where pods are kept apart.
const (
	tainted   = "Ignore" // it does: what leaves it finds no room
	untainted = "Honor"
)

// apart keeps the pods of a Deployment on nodes of their own, and has more
// lines in their spec.
func apart(manifest, app, taints string, more ...string) string {
	lines := append(more, "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: "+taints+", labelSelector: {matchLabels: {app: "+app+"}}}]")
	return strings.Replace(manifest, "\n      containers:", "\n      "+strings.Join(lines, "\n      ")+"\n      containers:", 1)
}

// goesSlowly has the pods of a Deployment take a while to go.
func goesSlowly(manifest, app, delay string) string {
	return strings.Replace(manifest, "labels: {app: "+app+"}}", "labels: {app: "+app+"}, annotations: {rig.responder/delete-delay: "+delay+"}}", 1)
}

// nodeNow is a node as the API server has it.
func nodeNow(t *testing.T, cp *rig.ControlPlane, name string) *corev1.Node {
	t.Helper()
	n, err := cp.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// podsOn are those of a service on a node that are not leaving, by their names.
func podsOn(t *testing.T, cp *rig.ControlPlane, ns, app, node string) []string {
	t.Helper()
	list, err := cp.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app, FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

// notification is one of one alert that has just begun to fire.
func notification(t *testing.T, labels map[string]any, group, fingerprint string) []byte {
	t.Helper()
	type object = map[string]any
	body, err := json.Marshal(object{
		"version": "4", "status": "firing", "receiver": "responder", "groupKey": "{}:{" + group + "}", "truncatedAlerts": 0,
		"groupLabels": labels, "commonLabels": labels, "commonAnnotations": object{}, "externalURL": "http://alertmanager:9093",
		"alerts": []object{{
			"status": "firing", "labels": labels, "annotations": object{}, "startsAt": time.Now().UTC(), "endsAt": time.Time{},
			"fingerprint": fingerprint, "generatorURL": "http://prometheus:9090/graph",
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// deliverUntilTaken posts a notification, as Alertmanager does, until it is
// acknowledged.
func deliverUntilTaken(t *testing.T, s *rig.Service, body []byte) {
	t.Helper()
	rig.Await(t, time.Minute, "the alert is acknowledged", func(ctx context.Context) (bool, string) {
		status, err := deliver(ctx, s, body)
		return err == nil && status == http.StatusOK, fmt.Sprint(status, err)
	})
}

package sandbox

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestAlertsAboutNodes: an alert names the node and the GPU and no service, is
// the same one for as long as it fires, and ends when the GPU has cooled.
func TestAlertsAboutNodes(t *testing.T) {
	w, clock := open(t, "thermal-emergency")
	told := func() playbook.Alert {
		t.Helper()
		body, err := w.Notification(t.Context(), clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		n, err := playbook.DecodeNotification(body)
		if err != nil || len(n.Alerts) != 1 {
			t.Fatalf("%v: %s", err, body)
		}
		return n.Alerts[0]
	}
	first := told()
	if l := first.Labels; first.Status != playbook.Firing || l["alertname"] != "GPUThermalThrottle" || l["node"] != "gpu-h100-01" || l["gpu"] != "3" || l["uuid"] == "" || l["service"]+l["pod"]+l["namespace"] != "" {
		t.Errorf("%s, labels %v", first.Status, l)
	}
	if since := w.start.Sub(first.StartsAt); since < 5*time.Minute || since > 8*time.Minute {
		t.Errorf("it fires for %s when the world opens", since)
	}
	clock.Advance(time.Minute)
	again := build(w.scenario, clock, w.start, nil) // as after a restart
	if now, err := again.Firing(t.Context(), clock.Now()); err != nil || len(now) != 1 || now[0].Episode() != first.Episode() || told().Episode() != first.Episode() {
		t.Errorf("a minute later it is %v, %v; want the episode %s", now, err, first.Episode())
	}

	n, err := w.Node(t.Context(), "gpu-h100-01")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.ChangeNode(t.Context(), kube.NodeChange{Name: n.Name, UID: n.UID, Stamp: n.Stamp(), Edit: kube.NodeEdit{Cordon: new(true)}, Mark: kube.MarkDrain, Key: "r-1/drain#1/apply#1"}); err != nil {
		t.Fatal(err)
	}
	pods, err := w.NodePods(t.Context(), n.Name)
	if err != nil || len(pods) != 1 {
		t.Fatal(pods, err)
	}
	if _, err := w.Evict(t.Context(), kube.Eviction{Namespace: pods[0].Namespace, Name: pods[0].Name, UID: pods[0].UID}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(20 * time.Minute)
	if last := told(); last.Status != playbook.Resolved || last.Episode() != first.Episode() {
		t.Errorf("without load it is %s, episode %s", last.Status, last.Episode())
	}
}

// TestNodeThatCameBack: it is out by an earlier run of Responder's, is said to be
// repaired until it takes pods, and its GPUs are well.
func TestNodeThatCameBack(t *testing.T) {
	w, clock := open(t, "node-return")
	firing := func() int {
		t.Helper()
		now, err := w.Firing(t.Context(), clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range now {
			if l := a.Labels; l["alertname"] != "GPUNodeRepaired" || l["node"] != "gpu-h100-01" || l["service"] != "inference-chat" {
				t.Errorf("labels %v", l)
			}
		}
		return len(now)
	}
	n, err := w.Node(t.Context(), "gpu-h100-01")
	if key, at := kube.ParseMark(n.Annotations[kube.MarkDrain]); err != nil || !n.Unschedulable || n.CordonedBy != kube.FieldManager || key == "" || !at.Before(w.start) {
		t.Fatalf("%+v, %v", n, err)
	}
	if firing() != 1 {
		t.Error("nobody says that it was repaired")
	}
	if j := judged(t, w, clock)[n.Name]; j.Verdict != "healthy" {
		t.Errorf("its GPUs are %s", j.Verdict)
	}
	if _, err := w.ChangeNode(t.Context(), kube.NodeChange{Name: n.Name, UID: n.UID, Stamp: n.Stamp(), Edit: kube.NodeEdit{Cordon: new(false)}, Mark: kube.MarkCordon, Key: "r-1/uncordon#1/apply#1"}); err != nil {
		t.Fatal(err)
	}
	if firing() != 0 {
		t.Error("it takes pods, and is still said to be repaired")
	}
}

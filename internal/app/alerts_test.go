package app

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestAlertOfAReleasedRun: an alert that fires and lost its run did not resolve.
func TestAlertOfAReleasedRun(t *testing.T) {
	got := received{}.alert(executor.SeenAlert{Seen: dispatch.Seen{Episode: "1@x", Firing: true, Kind: dispatch.KindReleased, Reason: "run r-1 was released"}})
	if got.Became != "released" || got.Reason != "run r-1 was released" || !strings.Contains(got.Remedy, "when Alertmanager sends it again") {
		t.Errorf("%+v", got)
	}
}

// TestAlertThatNothingComesNear: that no playbook is nearest is said.
func TestAlertThatNothingComesNear(t *testing.T) {
	seen := executor.SeenAlert{Seen: dispatch.Seen{Episode: "1@x", Firing: true, Kind: dispatch.KindUnmatched, Reason: "no playbook matches its labels"}, Alert: &playbook.Alert{Labels: map[string]string{"alertname": "PodCrashLooping"}}}
	none, err := playbook.NewSet(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := received{playbooks: func() *playbook.Set { return none }}.alert(seen)
	if got.Nearest != "" || got.Reason != "no playbook matches its labels, and none comes near" {
		t.Errorf("%+v", got)
	}
}

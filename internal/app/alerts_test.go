package app

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
)

// TestAlertOfAReleasedRun: an alert that fires and lost its run did not resolve.
func TestAlertOfAReleasedRun(t *testing.T) {
	got := received{}.alert(executor.SeenAlert{Seen: dispatch.Seen{Episode: "1@x", Firing: true, Kind: dispatch.KindReleased, Reason: "run r-1 was released"}})
	if got.Became != "released" || got.Reason != "run r-1 was released" || !strings.Contains(got.Remedy, "when Alertmanager sends it again") {
		t.Errorf("%+v", got)
	}
}

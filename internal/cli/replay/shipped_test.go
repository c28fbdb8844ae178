package replay

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/playbooks"
)

// healthy is what the documentation assumes of what has no history.
const healthy = `
gpu.health: {verdict: healthy, bad_nodes: 0, hot_nodes: 0, unread_nodes: 0, reset: false, rma: false, throttle: ''}
kube.workload: {ready: 4, desired: 4, unschedulable: 0, waiting: [], bad_nodes: 0, nodes: [{name: a, ready: true}]}
service.changes: {changed: false, ours: false, suspect: false, unserved: false, at: -25h, window: 1h}
`

// TestShipped replays a simulated incident, an hour after it began, with the shipped
// playbooks.
func TestShipped(t *testing.T) {
	names, err := fs.Glob(playbooks.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var documents []string
	for _, name := range names {
		data, err := playbooks.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(data))
	}
	assumed, err := rehearsal.ReadFindings("assume.yaml", []byte(healthy), kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	for scenario, want := range map[string]string{
		"traffic-burst": "kube.scale by=",
	} {
		clock := sandbox.NewManualClock(noon)
		w, err := sandbox.New(scenario, clock)
		if err != nil {
			t.Fatal(err)
		}
		body, err := w.Notification(t.Context(), noon)
		if err != nil {
			t.Fatal(err)
		}
		n, err := playbook.DecodeNotification(body)
		if err != nil {
			t.Fatal(err)
		}
		n = Received(n)
		clock.Advance(time.Hour)
		o := Options{
			From: noon.Add(-time.Hour), To: noon.Add(time.Hour), Now: noon.Add(time.Hour), Querier: w, Services: w.Services,
			Resolve: func(a playbook.Alert) ([]playbook.Service, string, error) {
				for _, s := range w.Services() {
					if s.Workload.Name == a.Labels["service"] {
						return []playbook.Service{s}, "", nil
					}
				}
				return nil, "", nil
			},
			Playbooks: setOf(t, documents...), Assumed: assumed,
		}
		r := mustRun(t, o, n)
		if got := ends(r); !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant %s", scenario, got, want)
		}
	}
}

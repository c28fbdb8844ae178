package demo

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/sandbox"
)

// TestGPUPlaybooks runs the playbooks about GPUs through the whole service, from
// the alert over HTTP to the audit log, and looks at how they leave the nodes.
func TestGPUPlaybooks(t *testing.T) {
	const node = "gpu-h100-01"
	tests := []struct {
		scenario string
		outcome  machine.RunOutcome
		playbook string // of the last run
		levers   int
		told     []string // in the timeline, in this order
		asked    string   // among what a person is shown
		cordoned bool
		reset    string // value of the label
		replicas int    // of the service on the node, at the end
		ready    int    // replicas of the service at the end
	}{
		{
			"gpu-fault", machine.OutcomeResolved, "gpu-fault", 2,
			[]string{"handed over to playbook gpu-fault", "drain node " + node, "VERIFIED", "ask for a reset of GPU GPU-", "APPROVED", "VERIFIED"},
			"41 uncorrectable ECC errors",
			true, "requested", 0, 4,
		},
		{
			"thermal-emergency", machine.OutcomeResolved, "thermal-emergency", 1,
			[]string{"GPUThermalThrottle fires", "drain node " + node, "VERIFIED"},
			"hardware thermal slowdown",
			true, "", 0, 4,
		},
		{
			"hot-room", machine.OutcomeEscalated, "thermal-emergency", 0,
			[]string{"GPUThermalThrottle fires", "alert joined", "after diagnose: several hot nodes"},
			"notify: serving/inference-chat: 3 of its nodes are too hot at once",
			false, "", 1, 4,
		},
		{
			"node-return", machine.OutcomeResolved, "node-return", 1,
			[]string{"GPUNodeRepaired fires", "uncordon node " + node, "VERIFIED"},
			"note its GPUs are healthy for",
			false, "", 0, 4,
		},
	}
	for _, tt := range tests {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			clock, err := sandbox.NewClock(time.Now(), 40)
			if err != nil {
				t.Fatal(err)
			}
			world, err := sandbox.New(tt.scenario, clock)
			if err != nil {
				t.Fatal(err)
			}
			report, shown := playDemo(t, world)
			if report.Outcome != string(tt.outcome) || report.Playbook != tt.playbook || report.Levers != tt.levers || !report.Verified {
				t.Errorf("run of %s ended %s (%s) after %d levers, audit log intact: %t", report.Playbook, report.Outcome, report.Message, report.Levers, report.Verified)
			}
			if !strings.Contains(strings.Join(strings.Fields(shown), " "), tt.asked) {
				t.Errorf("who decides is not shown %q:\n%s", tt.asked, shown)
			}
			rest := report.Timeline
			for _, want := range tt.told {
				i := slices.IndexFunc(rest, func(m api.DemoMoment) bool { return strings.Contains(m.What, want) })
				if i < 0 {
					t.Fatalf("the timeline has no %q where it should be: %+v", want, report.Timeline)
				}
				rest = rest[i+1:]
			}
			n, err := world.Node(t.Context(), node)
			if err != nil {
				t.Fatal(err)
			}
			if n.Unschedulable != tt.cordoned || tt.cordoned && n.CordonedBy != kube.FieldManager || n.Labels["responder.dev/gpu-reset"] != tt.reset {
				t.Errorf("the node is left cordoned %t by %q, labels %v", n.Unschedulable, n.CordonedBy, n.Labels)
			}
			w, err := world.Workload(t.Context(), kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "inference-chat"})
			if err != nil {
				t.Fatal(err)
			}
			here := 0
			for _, p := range w.Pods {
				if p.Node == node {
					here++
				}
			}
			if here != tt.replicas || w.Ready != tt.ready {
				t.Errorf("%d replicas on the node and %d ready, want %d and %d", here, w.Ready, tt.replicas, tt.ready)
			}
		})
	}
}

// playDemo plays a demo in a world to its end, and gives its report and what it
// showed on the way.
func playDemo(t *testing.T, world *sandbox.World) (api.Demo, string) {
	t.Helper()
	var stdout, stderr, screen bytes.Buffer
	p := &command.Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }, Temp: &command.Temporary{}}
	o := Options{Scenario: world.Scenario().Name, Yes: true, Dir: t.TempDir(), Speed: world.Clock().Pace(), Out: command.Output{Format: "json"}}
	d := demo{process: p, options: o, world: world, show: &show{screen: newScreen(&screen, p.Getenv), world: world}}
	err := d.run(t.Context())
	var report api.Demo
	if bad := json.Unmarshal(stdout.Bytes(), &report); bad != nil {
		t.Fatalf("%v, %v: %s", err, bad, stderr.String())
	}
	well := report.Outcome == string(machine.OutcomeResolved) || world.Scenario().Fix == "" && report.Levers == 0
	if (err == nil) != well {
		t.Errorf("the demo ended %s with %v", report.Outcome, err)
	}
	return report, screen.String()
}

package playbooks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// judged is what gpu.health says. Of a verdict that is unknown, one node is not known.
func judged(verdict, throttle string, bad, healthy int, reset bool) string {
	unknown := 0
	if verdict == "unknown" {
		unknown = 1
	}
	return partly(verdict, throttle, bad, healthy, unknown, reset)
}

// partly is what gpu.health says where more nodes are not known.
func partly(verdict, throttle string, bad, healthy, unknown int, reset bool) string {
	hot := 0
	if throttle == "thermal" {
		hot = bad
	}
	return heated(verdict, throttle, hot, bad, healthy, unknown, reset)
}

// heated is what gpu.health says where not all that is bad is hot.
func heated(verdict, throttle string, hot, bad, healthy, unknown int, reset bool) string {
	return fmt.Sprintf(`{"verdict":%q,"throttle":%q,"hot_nodes":%d,"bad_nodes":%d,"healthy_nodes":%d,"unknown_nodes":%d,"reset":%t,"rma":false,"node":"gpu-17","why":"because","reasons":[]}`,
		verdict, throttle, hot, bad, healthy, unknown, reset)
}

// sharedBy is what fleet.breaches says.
func sharedBy(what string) string {
	return fmt.Sprintf(`{"services":6,"measured":6,"unknown":0,"count":5,"breaching":["chat"],"shared_by":%q,"shared":"gpu-17","key":%[1]q,"why":"5 of 6 measured services breach their SLO"}`, what)
}

// breachWith is what the triage of a breach gathers, with these GPUs.
func breachWith(gpus string) map[string]string {
	return map[string]string{
		"slo": `{"status":"breached","configured":true,"ending":false,"since":"2026-01-01T11:58:00Z","stuck_replicas":0,"stuck":[],"objectives":[]}`, "engine": `{"bound":"queue"}`, "spread": `{"scope":"all"}`, "gpus": gpus, "pods": `{"ready":4,"desired":4,"bad_nodes":0,"nodes":[{"name":"a"}]}`,
		"changes": `{"changed":false,"ours":false,"suspect":false,"at":"2025-12-31T11:10:00Z"}`,
	}
}

// What the playbooks about GPUs decide: a node is touched only when one node is
// known to be at fault, and never for what is not known.
func TestGPUDecisions(t *testing.T) {
	tests := []struct {
		playbook, name, from string
		evidence             map[string]string
		want                 string
	}{
		{"gpu-fault", "one node fails", "diagnose", map[string]string{"diagnose": judged("failing", "", 1, 3, true)}, "drain"},
		{"gpu-fault", "one node degraded", "diagnose", map[string]string{"diagnose": judged("degraded", "", 1, 3, false)}, "drain"},
		{"gpu-fault", "the service's only node fails", "diagnose", map[string]string{"diagnose": judged("failing", "", 1, 0, false)}, "drain"},
		{"gpu-fault", "two of four", "diagnose", map[string]string{"diagnose": judged("failing", "", 2, 2, false)}, "drain"},
		{"gpu-fault", "all of them", "diagnose", map[string]string{"diagnose": judged("failing", "", 4, 0, false)}, "widespread"},
		{"gpu-fault", "one of four, the others not known", "diagnose", map[string]string{"diagnose": partly("failing", "", 1, 0, 3, false)}, "widespread"},
		{"gpu-fault", "one of two, the other not known", "diagnose", map[string]string{"diagnose": partly("failing", "", 1, 0, 1, false)}, "widespread"},
		{"gpu-fault", "one of four, one well", "diagnose", map[string]string{"diagnose": partly("failing", "", 1, 1, 2, false)}, "drain"},
		{"gpu-fault", "healthy again", "diagnose", map[string]string{"diagnose": judged("healthy", "", 0, 4, false)}, "not-confirmed"},
		{"gpu-fault", "not known", "diagnose", map[string]string{"diagnose": judged("unknown", "", 0, 3, false)}, "blind"},
		{"gpu-fault", "unreadable", "diagnose", map[string]string{"diagnose": `{}`}, "error in diagnose"},
		{"gpu-fault", "needs a reset", "idle", map[string]string{"diagnose": judged("failing", "", 1, 3, true), "idle": judged("failing", "", 1, 0, true)}, "request-repair"},
		{"gpu-fault", "several hot nodes", "diagnose", map[string]string{"diagnose": judged("throttled", "thermal", 2, 2, false)}, "room"},
		{"gpu-fault", "one fails, the others are hot", "diagnose", map[string]string{"diagnose": heated("failing", "", 2, 3, 1, 0, true)}, "room"},
		{"gpu-fault", "one hot node", "diagnose", map[string]string{"diagnose": judged("degraded", "thermal", 1, 3, false)}, "drain"},
		{"gpu-fault", "one fails, another is hot", "diagnose", map[string]string{"diagnose": heated("failing", "", 1, 2, 2, 0, true)}, "drain"},
		{"gpu-fault", "one hot node, one not known", "diagnose", map[string]string{"diagnose": partly("throttled", "thermal", 1, 2, 1, false)}, "unseen"},
		{"gpu-fault", "all hot", "diagnose", map[string]string{"diagnose": judged("throttled", "thermal", 4, 0, false)}, "room"},
		{"gpu-fault", "not known when idle", "idle", map[string]string{"diagnose": judged("throttled", "hardware", 1, 3, false), "idle": judged("unknown", "", 0, 0, false)}, "unread"},
		{"gpu-fault", "not known when idle, seen before", "idle", map[string]string{"diagnose": judged("failing", "", 1, 3, true), "idle": judged("unknown", "", 0, 0, false)}, "request-repair"},
		{"gpu-fault", "another not known when idle", "idle", map[string]string{
			"diagnose": judged("throttled", "hardware", 1, 3, false),
			"idle":     strings.Replace(judged("degraded", "", 1, 0, false), `[]`, `[{"verdict":"degraded"},{"verdict":"unknown"}]`, 1),
		}, "unread"},
		{"gpu-fault", "bad when idle, all known", "idle", map[string]string{
			"diagnose": judged("throttled", "hardware", 1, 3, false),
			"idle":     strings.Replace(judged("degraded", "", 1, 0, false), `[]`, `[{"verdict":"degraded"}]`, 1),
		}, "resolved"},
		{"gpu-fault", "well when idle", "idle", map[string]string{"diagnose": judged("throttled", "hardware", 1, 3, false), "idle": judged("healthy", "", 0, 1, false)}, "resolved"},

		{"thermal-emergency", "one hot node", "diagnose", map[string]string{"diagnose": judged("throttled", "thermal", 1, 3, false)}, "drain"},
		{"thermal-emergency", "two hot nodes", "diagnose", map[string]string{"diagnose": judged("throttled", "thermal", 2, 2, false)}, "room"},
		{"thermal-emergency", "two hot nodes, one not known", "diagnose", map[string]string{"diagnose": partly("throttled", "thermal", 2, 1, 1, false)}, "room"},
		{"thermal-emergency", "one hot node, the others not known", "diagnose", map[string]string{"diagnose": partly("throttled", "thermal", 1, 0, 3, false)}, "unseen"},
		{"thermal-emergency", "one hot node, one not known", "diagnose", map[string]string{"diagnose": partly("throttled", "thermal", 1, 2, 1, false)}, "unseen"},
		{"thermal-emergency", "the power brake", "diagnose", map[string]string{"diagnose": judged("throttled", "power_brake", 1, 3, false)}, "gpu-fault"},
		{"thermal-emergency", "failing, and hot", "diagnose", map[string]string{"diagnose": judged("failing", "thermal", 1, 3, false)}, "gpu-fault"},
		{"thermal-emergency", "heat again and again", "diagnose", map[string]string{"diagnose": judged("degraded", "thermal", 1, 3, false)}, "drain"},
		{"thermal-emergency", "hot, and a row waits for a reset", "diagnose", map[string]string{"diagnose": judged("throttled", "thermal", 1, 3, true)}, "gpu-fault"},
		{"thermal-emergency", "one hot node, one degraded", "diagnose", map[string]string{"diagnose": heated("throttled", "thermal", 1, 2, 2, 0, false)}, "drain"},
		{"thermal-emergency", "one hot node, the others degraded", "diagnose", map[string]string{"diagnose": heated("throttled", "thermal", 1, 4, 0, 0, false)}, "crowded"},
		{"thermal-emergency", "the service's only node is hot", "diagnose", map[string]string{"diagnose": judged("throttled", "thermal", 1, 0, false)}, "drain"},
		{"thermal-emergency", "one fails, the others are hot", "diagnose", map[string]string{"diagnose": heated("failing", "", 3, 4, 0, 0, true)}, "room"},
		{"inference-slo-breach", "too hot", "triage", breachWith(judged("throttled", "thermal", 1, 3, false)), "thermal-emergency"},
		{"inference-slo-breach", "heat again and again", "triage", breachWith(judged("degraded", "thermal", 1, 3, false)), "thermal-emergency"},
		{"inference-slo-breach", "hot, and a row waits for a reset", "triage", breachWith(judged("throttled", "thermal", 1, 3, true)), "gpu-fault"},
		{"inference-slo-breach", "one fails, the others are hot", "triage", breachWith(heated("failing", "", 3, 4, 0, 0, true)), "thermal-emergency"},
		{"inference-slo-breach", "a power brake", "triage", breachWith(judged("throttled", "power_brake", 1, 3, false)), "gpu-fault"},
		{"thermal-emergency", "cool again", "diagnose", map[string]string{"diagnose": judged("busy", "", 0, 4, false)}, "not-confirmed"},
		{"thermal-emergency", "not known", "diagnose", map[string]string{"diagnose": judged("unknown", "", 0, 0, false)}, "blind"},

		{"gpu-fault", "one node under several services", "others", map[string]string{"others": sharedBy("node")}, "shared"},
		{"gpu-fault", "nobody else suffers", "others", map[string]string{"others": sharedBy(""), "diagnose": judged("failing", "", 1, 3, true)}, "drain"},
		{"gpu-fault", "a release reached several services", "others", map[string]string{"others": sharedBy("release"), "diagnose": judged("failing", "", 1, 3, true)}, "drain"},
		{"gpu-fault", "others cannot be asked", "others", map[string]string{"others": `{}`}, "error in others"},
		{"thermal-emergency", "a hot room under several services", "others", map[string]string{"others": sharedBy("heat")}, "shared"},
		{"thermal-emergency", "nobody else is hot", "others", map[string]string{"others": sharedBy(""), "diagnose": judged("throttled", "thermal", 1, 3, false)}, "drain"},

		{"node-return", "proven", "prove", map[string]string{"prove": judged("healthy", "", 0, 1, false)}, "uncordon"},
		{"node-return", "not known", "prove", map[string]string{"prove": judged("unknown", "", 0, 0, false)}, "not-healthy"},
		{"node-return", "still degraded", "prove", map[string]string{"prove": judged("degraded", "", 1, 0, false)}, "not-healthy"},
	}
	set := load(t)
	for _, test := range tests {
		t.Run(test.playbook+"/"+test.name, func(t *testing.T) {
			p := set.ByName(test.playbook)
			if p == nil {
				t.Fatal("it is not there")
			}
			alert := playbook.Alert{
				Status: playbook.Firing, Labels: map[string]string{"alertname": "GPUFault", "node": "gpu-17"},
				StartsAt: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
			}
			if got := walk(t, p, test.from, alert, test.evidence); got != test.want {
				t.Errorf("came to %s, want %s", got, test.want)
			}
		})
	}
}

// A shared cause is told once. A node that several services share is then taken
// out by the run that told it; what moving load does not help is left to people.
func TestSharedCause(t *testing.T) {
	set := load(t)
	for _, name := range []string{"gpu-fault", "thermal-emergency"} {
		for _, test := range []struct{ shared, first, once, told, want string }{
			{"node", "true", "hardware of node", "looks at the node", "diagnose"},
			{"node", "false", "hardware of node", "looks at the node", "told"},
			{"heat", "true", "heat", "Nothing was moved", "escalated"},
			{"heat", "false", "heat", "Nothing was moved", "told"},
			{"fleet", "true", "fleet", "Nothing was moved", "escalated"},
		} {
			out := json.RawMessage(`{"first":` + test.first + `,"run":"r-1"}`)
			scope := playbook.Scope{Evidence: map[string]json.RawMessage{"others": json.RawMessage(sharedBy(test.shared)), "shared": out}, Out: out}
			s := set.ByName(name).State("shared")
			text, err := s.Message.Text(scope)
			once, errOnce := s.Once.Text(scope)
			if err != nil || errOnce != nil || !strings.Contains(text, test.told) || once != test.once {
				t.Errorf("%s, %s: told %q (%v) once by %q (%v)", name, test.shared, text, err, once, errOnce)
			}
			to := ""
			for _, e := range s.Next {
				if holds := e.When == nil; !holds {
					if holds, err = e.When.Eval(scope); err != nil {
						t.Fatal(err)
					}
					if !holds {
						continue
					}
				}
				to = e.To
				break
			}
			if to != test.want {
				t.Errorf("%s, %s, first %s: goes to %q, want %q", name, test.shared, test.first, to, test.want)
			}
		}
	}
}

// The example of a probe in the playbook node-return is one.
func TestNodeReturnProbe(t *testing.T) {
	text, err := os.ReadFile("node-return.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "node-return.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "# probe", "probe")), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := playbook.LoadDir(filepath.Dir(file), kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	scope := playbook.Scope{Alert: playbook.Alert{Labels: map[string]string{"node": `gpu-17"} or vector(1) or up{x="`}}}
	got, err := set.ByName("node-return").State("uncordon").With["probe"].Text(scope)
	if want := `kube_job_status_succeeded{job_name="gpu-diagnosis-gpu-17\x22} or vector(1) or up{x=\x22"} and on `; err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("the probe is %s, %v; want %s", got, err, want)
	}
}

// What is said of GPUs names what is known, and the repair is asked for of the
// GPU that needs it.
func TestGPUTexts(t *testing.T) {
	const (
		hot   = `{"node":"gpu-17","gpu":"GPU-1","why":"too hot","reset":false,"rma":false,"repair_gpus":[],"repair_why":"","bad_nodes":1,"unknown_nodes":3}`
		needs = `{"node":"gpu-17","gpu":"GPU-1","why":"too hot","reset":true,"rma":false,"repair_gpus":["GPU-2"],"repair_why":"a row waits"}`
		spent = `{"node":"gpu-17","gpu":"GPU-1","why":"too hot","reset":true,"rma":true,"repair_gpus":["GPU-3","GPU-2"],"repair_why":"no spare row"}`
	)
	set := load(t)
	const gone = `{"node":"gpu-17","gpu":"","why":"6 of 8","reset":true,"rma":false,"repair_gpus":[],"repair_why":"6 of 8 GPUs are there"}`
	for _, test := range []struct{ playbook, state, with, diagnose, idle, want string }{
		{"gpu-fault", "request-repair", "gpus", needs, hot, "=GPU-2"},
		{"gpu-fault", "request-repair", "gpus", needs, spent, "=GPU-2, GPU-3"}, // one that another service held
		{"gpu-fault", "request-repair", "gpus", hot, spent, "=GPU-3, GPU-2"},
		{"gpu-fault", "request-repair", "gpus", gone, needs, "="}, // all: one of them has no name
		{"gpu-fault", "request-repair", "gpus", needs, gone, "="},
		{"gpu-fault", "request-repair", "gpus", gone, hot, "="},
		{"gpu-fault", "request-repair", "reason", needs, needs, "=a row waits"},
		{"gpu-fault", "request-repair", "reason", needs, strings.Replace(needs, "a row waits", "a row waits since 13:14", 1), "=a row waits"},
		{"gpu-fault", "request-repair", "reason", needs, hot, "=a row waits"},
		{"gpu-fault", "request-repair", "reason", needs, spent, "=a row waits; no spare row"},
		{"gpu-fault", "request-repair", "reason", hot, spent, "no spare row"},
		{"gpu-fault", "out-of-service", "", needs, "", "without it. To be repaired: a row waits. It stays"},
		{"gpu-fault", "out-of-service", "", spent, "", "without it. To be repaired: no spare row. It stays"},
		{"gpu-fault", "out-of-service", "", hot, "", "without it. It stays"},
		{"gpu-fault", "widespread", "", hot, "", "at fault on 1 of them, and of 3 too little is known (too hot)."},
		{"thermal-emergency", "unseen", "", hot, "", "node gpu-17 is too hot (too hot), and of 3 more nodes too little is known"},
		{"gpu-fault", "request-repair", "reason", gone, hot, "6 of 8 GPUs are there"},
		{"gpu-fault", "request-repair", "gpus", needs, "", "=GPU-2"}, // what it needs when idle could not be asked
		{"gpu-fault", "request-repair", "gpus", gone, "", "="},
		{"gpu-fault", "request-repair", "reason", needs, "", "=a row waits"},
		{"gpu-fault", "unread", "", needs, "", "no load. What was seen under load is asked for: a row waits."},
		{"gpu-fault", "unread", "", hot, `{"why":"no answer"}`, "no load (no answer). Under load nothing was seen that needs a reset"},
	} {
		scope := playbook.Scope{
			Alert: playbook.Alert{Labels: map[string]string{}}, Service: playbook.Service{Name: "chat"},
			Evidence: map[string]json.RawMessage{"diagnose": json.RawMessage(test.diagnose)},
		}
		if test.idle != "" {
			scope.Evidence["idle"] = json.RawMessage(test.idle)
		}
		state := set.ByName(test.playbook).State(test.state)
		text := state.Message
		if test.with != "" {
			text = state.With[test.with]
		}
		if got, err := text.Text(scope); err != nil || !strings.Contains("="+got+"=", test.want) || strings.HasPrefix(test.want, "=") && "="+got != test.want {
			t.Errorf("%s, %s %s: got %q, %v, want %q", test.playbook, test.state, test.with, got, err, test.want)
		}
	}
}

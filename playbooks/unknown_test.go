package playbooks

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// untold is what checks say that could be asked and know nothing, by their kind. A
// kind with an empty list fails where it knows nothing.
var untold = map[string][]string{
	"prometheus.query": {
		`{"status":"empty","series":[]}`,
		`{"status":"nan","series":[{"labels":{"sli":"ttft"}}]}`,
		`{"status":"stale","series":[{"labels":{"sli":"ttft"}},{"labels":{"sli":"tpot"}}]}`,
		`{"status":"partial","series":[{"labels":{"sli":"ttft"},"value":0}]}`,
	},
	"gpu.health": {
		noGPUKnown(0, 0, 0), noGPUKnown(0, 1, 0), noGPUKnown(3, 1, 0), noGPUKnown(3, 1, 1),
	},
	"fleet.breaches":   {},
	"engine.readiness": {`{"why":"no pod declares its containers","weak":false,"proves":"unknown","probe":"","ready":0,"ready_without_answer":-1,"silent_pods":[],"silent_pod":"","loading":0,"loading_pods":[],"longest_loading_seconds":0,"loading_overdue":0,"loading_overdue_pods":[]}`},
	"traffic.split":    {`{"ready":false,"percent":0,"most":0,"replicas":0,"why":"no warm revision is kept"}`},
	"kube.workload":    {`{"desired":4,"ready":4,"revision":2,"bad_nodes":0,"nodes":[],"events":[],"owners":[]}`},
	"service.changes":  {},
	"engine.crashes": {
		`{"crashed":2,"down":1,"ready":3,"cause":"unknown","phase":"unknown","current_only":false,"node":"","memory_limit_bytes":0,"missing":"forbidden","why":"2 crashed","replicas":[{"restarts":1},{"restarts":1}]}`,
	},
	"engine.probe": {
		`{"probed":false,"why":"no probe is configured","asked":0,"answered":0,"hung":0,"failed":0,"skipped":4,"compared":0,"wrong":false,"wrong_pod":"","wrong_revision":0,"wrong_current":false,"right_replicas":0,"prompt_changed":0,"gateway":{"wrong":false}}`,
		`{"probed":true,"why":"none was compared","asked":4,"answered":0,"hung":0,"failed":4,"skipped":0,"compared":0,"wrong":false,"wrong_pod":"","wrong_revision":0,"wrong_current":false,"right_replicas":0,"prompt_changed":0,"gateway":{"wrong":false}}`,
	},
	"traffic.shape":   {`{"shape":"unknown","why":"there is nothing to compare with","new":[],"missing":["rate"]}`},
	"engine.snapshot": {`{"bound":"unknown","why":"no gauges","replicas_short":0,"ready":4}`},
	"engine.kv_fit":   {`{"status":"unknown","why":"no blocks"}`},
	"engine.progress": {
		`{"why":"no series","stuck_replicas":0,"saturated_replicas":0,"serving_replicas":0,"idle_replicas":0,"unknown_replicas":-1,"pod":"","replicas":[]}`,
		`{"why":"one of four is not known","stuck_replicas":0,"saturated_replicas":0,"serving_replicas":3,"idle_replicas":0,"unknown_replicas":1,"pod":"","replicas":[]}`,
	},
	"engine.compare": {`{"scope":"unknown","why":"cannot be compared","pod":"","node":"","revision":0,"replicas":[]}`},
	"slo.headroom":   {`{"status":"unknown","fits":false,"replicas":0,"load":"","note":"at no time were all objectives met"}`},
	"slo.burn": {
		`{"status":"unknown","configured":true,"worst":"ttft","direction":"level","ending":false,"window":"30m","stuck_replicas":0,"stuck":[],"unfinished":0,"objectives":[],"note":""}`,
		`{"status":"unknown","configured":false,"worst":"ttft","direction":"level","ending":false,"window":"30m","stuck_replicas":0,"stuck":[],"unfinished":0,"objectives":[],"note":"no Prometheus is configured"}`,
	},
}

// half is the answer of one indicator where two were asked for.
const half = `{"status":"ok","value":0,"series":[{"labels":{"sli":"ttft"},"value":0}]}`

func noGPUKnown(healthy, unknown, unread int) string {
	return fmt.Sprintf(`{"verdict":"unknown","throttle":"","why":"no answer","node":"","gpu":"","reset":false,"rma":false,"repair_gpus":[],"repair_why":"",
		"healthy_nodes":%d,"unknown_nodes":%d,"unread_nodes":%d,"bad_nodes":0,"hot_nodes":0,"bad_pods":[],"nodes":[],"reasons":[]}`, healthy, unknown, unread)
}

// others is what was found in the states before.
const others = `{"verdict":"failing","throttle":"","why":"an XID","node":"gpu-17","reset":false,"rma":false,"repair_gpus":[],"repair_why":"",
	"status":"breached","ending":false,"matters":false,"suspect":false,"window":"1h","ready":4,"desired":4,"value":0.5,"series":[],"since":"2026-01-01T11:58:00Z","stuck_replicas":0,"stuck":[],"shared_by":"","key":"","bound":"none","oom_killed":0,"restarts":0,"waiting":[],"max_num_seqs":12,"replicas_short":0,"running":6.0,"scope":"all","pod":"","objectives":[],"changed":false,"ours":false,"at":"2025-12-31T11:10:00Z","bad_nodes":1,"unknown_nodes":0,"unread_nodes":0,"healthy_nodes":3,"hot_nodes":0}`

// blindly walks a playbook as long as nothing is known.
type blindly struct {
	t     *testing.T
	p     *playbook.Playbook
	scope playbook.Scope
	bad   map[string]bool // ways to an end that says that all is well
}

// from goes on from a state by every edge that can be taken without anything
// having been shown: by a check that answered, by a lever that was verified, or by
// a person. Another playbook looks anew.
func (b *blindly) from(name string, way []string) {
	s := b.p.State(name)
	way = append(slices.Clone(way), name)
	switch s.Kind {
	case playbook.StateEnd:
		if s.End != playbook.EndEscalated {
			b.bad[strings.Join(way, " > ")] = true
		}
	case playbook.StateWait: // held is an answer, its deadline is none
		for _, e := range s.Next {
			if e.On != playbook.OnHeld {
				b.from(e.To, way)
			}
		}
	case playbook.StateGather:
		if len(way) > 8 {
			return // it has come back here
		}
		for _, to := range b.ungathered(s) {
			b.from(to, way)
		}
	case playbook.StateCheck:
		for _, to := range b.unanswered(s) {
			b.from(to, way)
		}
	case playbook.StateLever, playbook.StateNotify, playbook.StateGate:
		for _, e := range s.Next {
			if e.On != playbook.OnVerified && e.On != playbook.OnApproved {
				b.from(e.To, way)
			}
		}
	case playbook.StateDivert:
	}
}

// ungathered are the states after a gather of which one check, or every one, fails
// or knows nothing.
func (b *blindly) ungathered(s *playbook.State) []string {
	var out []string
	try := func(unknown map[string]string, evidence map[string]json.RawMessage) {
		scope := b.scope
		scope.Unknown, scope.Evidence = unknown, maps.Clone(b.scope.Evidence)
		maps.Copy(scope.Evidence, evidence)
		doubt := false
		for _, e := range s.Next {
			result := playbook.True
			if e.When != nil {
				var err error
				if result, _, err = e.When.Judge(scope); err != nil {
					return // the run ends escalated
				}
			}
			doubt = doubt || result == playbook.Unknown
			if result == playbook.True && b.p.HeldBack(e, doubt, false) == "" {
				out = append(out, e.To)
				return
			}
		}
	}
	all := map[string]string{}
	for _, g := range s.Gather {
		all[g.Name] = "no answer"
		try(map[string]string{g.Name: "no answer"}, nil)
		answers, known := untold[g.Step]
		if !known {
			b.t.Errorf("%s: state %s: nobody said what %s answers that knows nothing: add it to untold", b.p.Name, s.Name, g.Step)
		}
		for _, answer := range answers {
			try(nil, map[string]json.RawMessage{g.Name: json.RawMessage(answer)})
		}
	}
	try(all, nil)
	slices.Sort(out)
	return slices.Compact(out)
}

// unanswered are the states after a check that fails, or knows nothing.
func (b *blindly) unanswered(s *playbook.State) []string {
	var out []string
	failed := func() {
		if s.OnError != "" { // else the run ends escalated
			out = append(out, s.OnError)
		}
	}
	failed()
	answers, known := untold[s.Step]
	if !known {
		b.t.Errorf("%s: state %s: nobody said what %s answers that knows nothing: add it to untold", b.p.Name, s.Name, s.Step)
	}
	if q := s.With["query"]; q != nil {
		text, err := q.Text(b.scope)
		if err != nil {
			b.t.Fatalf("%s: state %s: %v", b.p.Name, s.Name, err)
		}
		if strings.Count(text, `"sli"`) == 2 {
			answers = append(slices.Clone(answers), half)
		}
	}
	scope := b.scope
	for _, answer := range answers {
		scope.Out = json.RawMessage(answer)
		to, err := taken(s, scope)
		if err != nil {
			failed()
			continue
		}
		out = append(out, to)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// taken is where the first edge leads that holds.
func taken(s *playbook.State, scope playbook.Scope) (string, error) {
	for _, e := range s.Next {
		if e.When == nil {
			return e.To, nil
		}
		if holds, err := e.When.Eval(scope); err != nil || holds {
			return e.To, err
		}
	}
	return "", fmt.Errorf("state %s: no edge holds", s.Name)
}

// waysToWell are all ways on which a playbook's run ends well though a check
// failed, or knew nothing, and nothing was shown since.
func waysToWell(t *testing.T, p *playbook.Playbook) map[string]bool {
	bad := map[string]bool{}
	for _, name := range []string{"InferenceTTFTFastBurn", "InferenceTTFTSlowBurn", "InferenceTPOTFastBurn", "InferenceTPOTSlowBurn", "GPUFault", "GPUNodeRepaired"} {
		for _, service := range []playbook.Service{
			{Name: "chat", Engine: "vllm", Selector: `job="chat"`},
			{Name: "chat", Engine: "vllm", Selector: `job="chat"`, GitOps: playbook.GitOps{Application: "argocd/chat"}},
		} {
			at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			b := &blindly{t: t, p: p, bad: bad, scope: playbook.Scope{
				Alert:   playbook.Alert{Status: playbook.Firing, Labels: map[string]string{"alertname": name, "node": "gpu-17"}, StartsAt: at},
				Service: service, Now: at.Add(10 * time.Minute), Evidence: map[string]json.RawMessage{},
			}}
			for _, s := range p.States {
				if s.Kind == playbook.StateCheck || s.Kind == playbook.StateLever {
					b.scope.Evidence[s.Name] = json.RawMessage(others)
				}
				for _, name := range s.Gathers() {
					b.scope.Evidence[name] = json.RawMessage(others)
				}
			}
			for _, s := range p.States {
				if s.Kind == playbook.StateCheck || s.Kind == playbook.StateGather {
					b.from(s.Name, nil)
				}
			}
		}
	}
	return bad
}

// TestUnknownIsNeverWell: in no shipped playbook a run ends resolved, or as if there
// were nothing to do, by a check that failed, or that was answered with nothing
// known, unless something was shown after it.
func TestUnknownIsNeverWell(t *testing.T) {
	for _, p := range load(t).All() {
		for way := range waysToWell(t, p) {
			t.Errorf("%s: nothing is known, and yet: %s", p.Name, way)
		}
	}
}

// TestUnknownIsFound: the test above finds what it looks for.
func TestUnknownIsFound(t *testing.T) {
	for _, c := range []struct{ playbook, from, to, want string }{
		{"gpu-fault", `when: 'out.verdict == "unknown" || size(out.reasons) == 20 || `, `when: '`, "idle > resolved"},
		{"thermal-emergency", `["healthy", "busy"]`, `["healthy", "busy", "unknown"]`, "diagnose > not-confirmed"},
		{"inference-slo-breach", `slo.status == "met", to: not-confirmed`, `slo.status != "breached", to: not-confirmed`, "triage > not-confirmed"},
		{"inference-slo-breach", `slo.status == "unknown" && slo.configured, to: escalated`, `slo.status == "unknown", to: not-confirmed`, "triage > not-confirmed"},
	} {
		data, err := os.ReadFile(c.playbook + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), c.from, c.to)
		if text == string(data) {
			t.Fatalf("%s has no %q", c.playbook, c.from)
		}
		all, err := playbook.Parse("changed.yaml", []byte(text), kinds.Declarations())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if ways := waysToWell(t, p); !ways[c.want] {
				t.Errorf("%s with %q: found %v, want %s", c.playbook, c.to, ways, c.want)
			}
		}
	}
}

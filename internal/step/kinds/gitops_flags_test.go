package kinds_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/git"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestSetFlagKnowsTheEngine: what the service's engine does not take is refused
// before anything is committed, with the reason and what would be taken.
func TestSetFlagKnowsTheEngine(t *testing.T) {
	const add = "unknown_flag: add"
	for name, tt := range map[string]struct {
		engine string
		git    map[string]string // what stands in Git beside
		with   map[string]any
		words  string // of the refusal; empty: planned
	}{
		"fits":                  {"vllm", nil, map[string]any{"flag": "max-num-seqs", "value": "192"}, ""},
		"zero":                  {"vllm", nil, map[string]any{"flag": "max-num-seqs", "value": "0"}, "at least 1 (vllm/config/scheduler.py"},
		"a fraction":            {"vllm", nil, map[string]any{"flag": "max-num-seqs", "value": "192.5"}, "a whole number"},
		"mistyped":              {"vllm", nil, map[string]any{"flag": "max-num-seq", "value": "192"}, "did you mean max-num-seqs?"},
		"never changed":         {"vllm", map[string]string{"--tensor-parallel-size": "2"}, map[string]any{"flag": "tensor-parallel-size", "value": "4"}, "never changed by a run"},
		"too few tokens":        {"vllm", nil, map[string]any{"flag": "max-num-batched-tokens", "value": "128"}, "less than max-num-seqs (256)"},
		"both at once":          {"vllm", nil, map[string]any{"flags": map[string]any{"max-num-batched-tokens": "128", "max-num-seqs": "64"}, "one_variable": "a batch"}, ""},
		"twice":                 {"vllm", nil, map[string]any{"flags": map[string]any{"max-num-seqs": "128", "max_num_seqs": "64"}, "one_variable": "a batch"}, "given twice"},
		"known, added":          {"vllm", nil, map[string]any{"flag": "watermark", "value": "0.05"}, ""},
		"another engine's":      {"sglang", nil, map[string]any{"flag": "watermark", "value": "0.05"}, "SGLang has no known flag --watermark"},
		"unknown, in Git":       {"vllm", map[string]string{"--brand-new": "1"}, map[string]any{"flag": "brand-new", "value": "2"}, ""},
		"unknown, not in Git":   {"vllm", nil, map[string]any{"flag": "brand-new", "value": "2"}, add},
		"unknown, only changed": {"vllm", nil, map[string]any{"flag": "brand-new", "value": "2", "unknown_flag": "change"}, add},
		"unknown, added":        {"vllm", nil, map[string]any{"flag": "brand-new", "value": "2", "unknown_flag": "add"}, ""},
		"removed, in Git":       {"vllm", map[string]string{"--swap-space": "4"}, map[string]any{"flag": "swap-space", "value": "8"}, ""},
		"removed, not in Git":   {"vllm", nil, map[string]any{"flag": "swap-space", "value": "8"}, "use --kv-offloading-size"},
		"a variable, in Git":    {"vllm", map[string]string{"VLLM_SLEEP": "1"}, map[string]any{"flag": "VLLM_SLEEP", "value": "0"}, ""},
		"a variable, not":       {"vllm", nil, map[string]any{"flag": "VLLM_SLEEP", "value": "0"}, "is an environment variable"},
		"no engine, changed":    {"", nil, map[string]any{"flag": "max-num-seqs", "value": "192"}, ""},
		"no engine, out of all": {"", nil, map[string]any{"flag": "max-num-seqs", "value": "0"}, "at least 1"},
		"no engine, added":      {"", nil, map[string]any{"flag": "watermark", "value": "0.05"}, "engine of service serving/chat is unknown"},
		"no engine, told to":    {"", nil, map[string]any{"flag": "watermark", "value": "0.05", "unknown_flag": "add"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			if tt.git != nil {
				maps.Copy(w.Head().Values, tt.git)
			}
			svc := service("Deployment")
			svc.Engine = tt.engine
			before := w.Head().SHA
			o := kinds.New(w.deps).Do(t.Context(), machine.Effect{
				Key: "r-1/cap#1/plan#1", Run: "r-1", State: "cap", Action: machine.ActionPlan, Step: "gitops.set_flag", With: tt.with, Service: svc, Attempt: 1,
			})
			switch {
			case tt.words == "" && o.Status != machine.StatusOK:
				t.Fatalf("%s %s: %s", o.Status, o.Reason, o.Message)
			case tt.words != "" && (o.Status != machine.StatusRefused || o.Reason != fault.Invalid || !strings.Contains(o.Message, tt.words)):
				t.Fatalf("%s %s: %s, want it refused: ...%s...", o.Status, o.Reason, o.Message, tt.words)
			case w.Head().SHA != before:
				t.Error("something was committed")
			}
			if notes := strings.Join(o.Facts, "\n"); tt.words == "" && tt.engine == "" && !strings.Contains(notes, "set engine in its catalog entry") {
				t.Errorf("nobody is told that the engine is not known:\n%s", notes)
			}
		})
	}
}

// TestSetFlagSaysWhatItTrades: people who are asked see what the flag does, and
// that clients are served other than before is a high risk.
func TestSetFlagSaysWhatItTrades(t *testing.T) {
	w := inGit(true)
	plan := w.plan(t, "gitops.set_flag", seqs)
	if notes := strings.Join(plan.Notes, "\n"); !strings.Contains(notes, "fewer preemptions") || !strings.Contains(notes, "compiles anew") {
		t.Errorf("the notes are\n%s", notes)
	}
	plan = w.plan(t, "gitops.set_flag", map[string]any{"flag": "max-model-len", "value": "8k"})
	if plan.Risk != machine.RiskHigh || !strings.Contains(plan.Why, "clients are served other than before by --max-model-len") {
		t.Errorf("risk %s, %s", plan.Risk, plan.Why)
	}
}

// TestSwitchGoesOff: a flag without a --no- form is false by not being there.
func TestSwitchGoesOff(t *testing.T) {
	files := []gitops.File{{Path: "chat.yaml", Data: []byte(`apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec: {template: {spec: {containers: [{name: sglang, image: lmsysorg/sglang, args: [--max-running-requests=64, --disable-radix-cache]}]}}}
`)}}
	target := gitops.Target{Kind: "Deployment", Name: "chat"}
	checked, err := git.CheckFlags(git.FlagRules{Service: "chat", Engine: "sglang", Look: lookIn(files, target)}, []gitops.Assignment{{Variable: gitops.Variable{Flag: "disable-radix-cache"}, Value: "false"}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := gitops.SetAll(files, target, checked.Set)
	if err != nil || strings.Contains(string(e.Files[0].Data), "radix") {
		t.Errorf("%v\n%s", err, e.Files)
	}
}

// TestTheContainerDecides: a flag is checked against the program that its container
// runs, whatever else the engine of the service may run.
func TestTheContainerDecides(t *testing.T) {
	graph := func(module string) []gitops.File {
		return []gitops.File{{Path: "chat.yaml", Data: []byte(`apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: chat}
spec:
  services:
    Frontend: {componentType: frontend, extraPodSpec: {mainContainer: {image: runtime, command: [python3, -m, dynamo.frontend], args: [--http-port, "8000"]}}}
    Worker: {componentType: worker, extraPodSpec: {mainContainer: {image: runtime, command: [python3, -m, ` + module + `], args: [--model-path, m]}}}
`)}}
	}
	target := gitops.Target{Kind: "DynamoGraphDeployment", Name: "chat"}
	for name, tt := range map[string]struct {
		module, engine, unknown, flag, words string
	}{
		"vllm":                     {"dynamo.vllm", "dynamo", "", "max-num-seqs", ""},
		"vllm, not stated":         {"dynamo.vllm", "", "", "max-num-seqs", ""},
		"sglang":                   {"dynamo.sglang", "dynamo", "", "max-num-seqs", "runs SGLang, and SGLang has no known flag --max-num-seqs"},
		"sglang, insisting":        {"dynamo.sglang", "", "add", "max-num-seqs", "runs SGLang"},
		"a flag of sglang":         {"dynamo.sglang", "dynamo", "", "max-running-requests", ""},
		"another than stated":      {"dynamo.sglang", "vllm", "", "max-num-seqs", "runs SGLang, and the engine of service chat is vLLM"},
		"without a table":          {"dynamo.trtllm", "dynamo", "", "max-num-seqs", "runs trtllm"},
		"without a table, unknown": {"dynamo.trtllm", "dynamo", "add", "max-num-seqs", ""},
		"only a frontend is left":  {"dynamo.planner", "dynamo", "", "max-num-seqs", "none is known to run an engine"},
		"a router":                 {"sglang_router.launch_router", "", "add", "max-num-seqs", "none is known to run an engine"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := git.CheckFlags(git.FlagRules{Service: "chat", Engine: tt.engine, Unknown: tt.unknown, Look: lookIn(graph(tt.module), target)},
				[]gitops.Assignment{{Variable: gitops.Variable{Flag: tt.flag}, Value: "64"}})
			if (err == nil) != (tt.words == "") || err != nil && !strings.Contains(err.Error(), tt.words) {
				t.Errorf("%v, want ...%s...", err, tt.words)
			}
		})
	}
}

// TestAbsentCompanion: a flag that goes with the changed one and that is set nowhere is
// not set, even where it could not be added.
func TestAbsentCompanion(t *testing.T) {
	files := []gitops.File{{Path: "chat.yaml", Data: []byte(`apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec: {template: {spec: {containers: [{name: app, image: "acme/thing:1", env: [{name: SEQS, value: "128"}], command: [run.sh, --max-num-seqs=$(SEQS)]}]}}}
`)}}
	_, err := git.CheckFlags(git.FlagRules{Service: "chat", Engine: "vllm", Look: lookIn(files, gitops.Target{Kind: "Deployment", Name: "chat"})},
		[]gitops.Assignment{{Variable: gitops.Variable{Flag: "max-num-seqs"}, Value: "64"}})
	if err != nil {
		t.Error(err)
	}
}

// lookIn finds variables in files.
func lookIn(files []gitops.File, target gitops.Target) func(string, []gitops.Variable) ([]gitops.Place, error) {
	return func(container string, vs []gitops.Variable) (out []gitops.Place, err error) {
		target := target
		target.Container = container
		for _, v := range vs {
			at, err := gitops.Locate(files, target, v)
			if err != nil {
				return nil, err
			}
			out = append(out, at...)
		}
		return out, nil
	}
}

// TestEachContainerByItself: two engines in one pod have flags of the same names,
// and each flag is checked against those of its own.
func TestEachContainerByItself(t *testing.T) {
	target := gitops.Target{Kind: "Deployment", Name: "chat"}
	files := []gitops.File{{Path: "chat.yaml", Data: []byte(`apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      containers:
      - {name: decode, image: vllm/vllm-openai, args: [serve, llama, --max-num-batched-tokens=512, --max-num-seqs=256]}
      - {name: prefill, image: vllm/vllm-openai, args: [serve, llama, --watermark=0.01, --max-num-seqs=8]}
`)}}
	for name, tt := range map[string]struct {
		set   map[string]string
		words string // of the refusal; empty: none
	}{
		"both fit":                  {map[string]string{"max-num-batched-tokens": "300", "watermark": "0.05"}, ""},
		"the first breaks its own":  {map[string]string{"max-num-batched-tokens": "128", "watermark": "0.05"}, "less than max-num-seqs (256)"},
		"alone":                     {map[string]string{"max-num-batched-tokens": "128"}, "less than max-num-seqs (256)"},
		"one that is nowhere known": {map[string]string{"max-num-batched-tokens": "300", "max-num-seqs": "64"}, "several containers"},
	} {
		var wanted []gitops.Assignment
		for _, flag := range slices.Sorted(maps.Keys(tt.set)) {
			wanted = append(wanted, gitops.Assignment{Variable: gitops.Variable{Flag: flag}, Value: tt.set[flag]})
		}
		_, err := git.CheckFlags(git.FlagRules{Service: "chat", Engine: "vllm", Look: lookIn(files, target)}, wanted)
		if (err != nil) != (tt.words != "") || err != nil && !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: %v, want ...%s...", name, err, tt.words)
		}
	}
}

const flagPlaybook = `apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: cap, runbook: docs/cap.md}
spec:
  match: ['{alertname="A"}']
  start: look
  states:
    look:
      check: prometheus.query
      with: {query: up}
      on_error: done
      next: [{to: cap}]
    cap:
      lever: gitops.set_flag
      with: {WITH}
      verify: {within: 5m, hold: 1m, allow_no_traffic: true, until: [{query: 'up{${service.selector}}', op: '>', value: 0}]}
      next: [{to: done}]
    done: {end: escalated}
`

// TestLintSetFlag: what no engine takes is found when the playbook is loaded,
// with its place.
func TestLintSetFlag(t *testing.T) {
	for with, want := range map[string]string{
		"flag: max-num-seqs, value: '192'":                                                                "",
		"flag: max-num-seqs, value: last_good":                                                            "",
		"flag: max-num-seqs, value: '${int(look.value)}'":                                                 "",
		"flags: {max-num-seqs: '${8}', max-num-batched-tokens: '${9}'}":                                   "2 flags are 2 variables",
		"flags: {max-num-seqs: '8', max-num-batched-tokens: '4096'}, one_variable: '${alert.labels.why}'": "",
		"flag: '${alert.labels.flag}', value: '0'":                                                        "",
		"flag: brand-new, value: '1', unknown_flag: change":                                               "",
		"flag: swap-space, value: '1', unknown_flag: add":                                                 "",
		"flag: max-num-seqs, value: '0'":                                                                  "15:41: spec.states.cap.with.value: --max-num-seqs of vLLM cannot be \"0\": too small: must be at least 1 (vllm/config/scheduler.py max_num_seqs) (it takes a whole number of sequences, at least 1)",
		"flag: max-num-seq, value: '${int(look.value)}'":                                                  "15:20: spec.states.cap.with.flag: no known engine (vLLM, SGLang, Dynamo, KServe) has the flag --max-num-seq (did you mean max-num-seqs?)",
		"flag: brand-new, value: '1'":                                                                     "has the flag --brand-new",
		"flag: swap-space, value: '1'":                                                                    "use --kv-offloading-size",
		"flag: VLLM_SLEEP, value: '1'":                                                                    "environment variable",
		"flag: tensor-parallel-size, value: '2', unknown_flag: add":                                       "never changed by a run",
		"flags: {max-num-seqs: '9.5', max-num-batched-tokens: 8k}, one_variable: b":                       "15:36: spec.states.cap.with.flags.max-num-seqs:",
		"flags: {max-num-seqs: '1024', max-num-batched-tokens: '512'}, one_variable: b":                   "15:21: spec.states.cap.with.flags: vLLM: max-num-batched-tokens (512) would be less",
		"flags: {max-num-seqs: '1024', max-num-batched-tokens: '${1}'}, one_variable: b":                  "",
		"flag: max-num-seqs, value: '192', unknown_flag: perhaps":                                         "change, add",
		"flag: --max-num-seqs, value: '192'":                                                              "15:20: spec.states.cap.with.flag: \"--max-num-seqs\" is not a flag name: omit the leading dashes (write max-num-seqs)",
		"flag: --brand-new, value: '1', unknown_flag: add":                                                "(write brand-new)",
		"flag: max-num-seqs":                                                                              "15:20: spec.states.cap.with.flag: the flag has no value (add value)",
		"flags: {max-num-seqs: '8'}, value: '8'":                                                          "value belongs to flag",
		"flags: {max-num-seqs: '8', max-num-batched-tokens: '4096'}":                                      "15:21: spec.states.cap.with.flags: 2 flags are 2 variables, but one is changed at a time (state in one_variable why they are one)",
	} {
		t.Run(with, func(t *testing.T) {
			_, err := playbook.Parse("cap.yaml", []byte(strings.Replace(flagPlaybook, "WITH", with, 1)), kinds.Declarations())
			var problems playbook.Problems
			switch {
			case want == "" && err == nil:
			case want == "":
				t.Error(err)
			case !errors.As(err, &problems) || len(problems) != 1:
				t.Errorf("%v, want one problem", err)
			case !strings.Contains(problems[0].String(), want):
				t.Error(cmp.Diff(want, problems[0].String()))
			}
		})
	}
}

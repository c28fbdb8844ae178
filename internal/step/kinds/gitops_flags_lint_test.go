package kinds_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

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
      verify: {within: 5m, hold: 1m, allow_no_traffic: true, until: [{query: up, op: '>', value: 0}]}
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
		"flag: --max-num-seqs, value: '192'":                                                              "15:20: spec.states.cap.with.flag: \"--max-num-seqs\" is no flag: it stands without dashes in front (write max-num-seqs)",
		"flag: --brand-new, value: '1', unknown_flag: add":                                                "(write brand-new)",
		"flag: max-num-seqs":                                                                              "15:20: spec.states.cap.with.flag: the flag has no value (add value)",
		"flags: {max-num-seqs: '8'}, value: '8'":                                                          "value goes with flag",
		"flags: {max-num-seqs: '8', max-num-batched-tokens: '4096'}":                                      "15:21: spec.states.cap.with.flags: 2 flags are 2 variables, and one is changed at a time (say in one_variable why they are one)",
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

package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// TestTriedBeforeCommit: what the API server would refuse, or make another value
// of, is not planned; what it was not asked is said.
func TestTriedBeforeCommit(t *testing.T) {
	denied := func(only string) func(string) ([]byte, error) {
		return func(manifest string) ([]byte, error) {
			if !strings.Contains(manifest, only) {
				return []byte(manifest), nil
			}
			return nil, &fault.Error{Reason: fault.Invalid, Message: "patch deployments.apps serving/chat: denied: at most 128 sequences"}
		}
	}
	refused := func(reason fault.Reason) func(string) ([]byte, error) {
		return func(string) ([]byte, error) {
			return nil, &fault.Error{Reason: reason, Message: "the server says " + string(reason)}
		}
	}
	for name, tt := range map[string]struct {
		change func(*gitWorld)
		reason fault.Reason // empty: planned
		text   string       // of the refusal, or a note
	}{
		"taken":            {func(*gitWorld) {}, "", ""},
		"refused":          {func(w *gitWorld) { w.Admits = denied("--max-num-seqs=192") }, fault.Invalid, "the API server would refuse Deployment serving/chat (apps/chat/values.yaml:1) as it would be: patch deployments.apps serving/chat: denied: at most 128 sequences"},
		"refused as it is": {func(w *gitWorld) { w.Admits = denied("") }, "", "asked about it as it is now, it refuses that, too"},
		"no right to ask":  {func(w *gitWorld) { w.Admits = refused(fault.Forbidden) }, "", "could not be asked whether it takes Deployment serving/chat"},
		"not served":       {func(w *gitWorld) { w.Admits = refused(fault.NotFound) }, "", "could not be asked"},
		"away":             {func(w *gitWorld) { w.Admits = refused(fault.Unreachable) }, fault.Unreachable, "unreachable"},
		"a chart":          {func(w *gitWorld) { w.Chart = true }, "", "was not asked whether it takes all of the change"},
		"made another value": {func(w *gitWorld) {
			w.Admits = func(m string) ([]byte, error) { return []byte(strings.Replace(m, "=192", "=128", 1)), nil }
		}, fault.Overridden, "the API server makes --max-num-seqs 128 of 192: an admission webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			tt.change(w)
			o := w.do(t, "gitops.set_flag", machine.ActionPlan, seqs, nil, nil, false)
			if o.Reason != tt.reason {
				t.Fatalf("%s %s %q, want reason %q", o.Status, o.Reason, o.Message, tt.reason)
			}
			if tt.reason != "" && !strings.Contains(o.Message, tt.text) {
				t.Errorf("%q, want ...%s...", o.Message, tt.text)
			}
			if tt.reason == "" && !slices.ContainsFunc(o.Plan.Notes, func(n string) bool { return strings.Contains(n, tt.text) }) {
				t.Errorf("notes %q, want ...%s...", o.Plan.Notes, tt.text)
			}
			if !w.Chart && !strings.Contains(w.Tried[0], "--max-num-seqs=192") {
				t.Errorf("asked about %q", w.Tried)
			}
		})
	}
}

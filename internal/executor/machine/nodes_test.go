package machine

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
)

// A lever is planned for a node that a check of this run named, whatever the expression
// for it reads.
func TestNodeIsOfEvidence(t *testing.T) {
	for name, tt := range map[string]struct{ data, refused string }{
		"another node":       {`{"value":12,"bad":true,"node":"gpu-17"}`, `"gpu-18", which no evidence of this run names (it names gpu-17)`},
		"in another field":   {`{"value":12,"bad":true,"node":"","why":"gpu-18"}`, "it names none"},
		"named":              {`{"value":12,"bad":true,"node":"gpu-18"}`, ""},
		"taken as it is":     {`{"value":12,"bad":false,"node":"gpu-17"}`, ""},
		"a part of its name": {`{"value":12,"bad":true,"node":"gpu-181"}`, "it names gpu-181"},
	} {
		s := &script{t: t, set: testPlaybooks(t), now: epoch}
		for _, line := range []string{"start chooses", "ok data=" + tt.data} {
			s.command(line)
		}
		i := slices.IndexFunc(s.events, func(e Event) bool { return e.Kind == PlanRefused })
		planned := slices.ContainsFunc(s.events, func(e Event) bool { return e.Action == ActionPlan })
		switch {
		case tt.refused == "" && (i >= 0 || !planned):
			t.Errorf("%s: %+v", name, s.events)
		case tt.refused != "" && (i < 0 || planned || s.events[i].Reason != fault.Invalid || !strings.Contains(s.events[i].Message, tt.refused)):
			t.Errorf("%s: %+v, want it refused with %q", name, s.events, tt.refused)
		}
	}
}

// Evidence names nodes under two keys, at any depth.
func TestNodesOfEvidence(t *testing.T) {
	s := State{Evidence: map[string]*Evidence{
		"a": {Data: json.RawMessage(`{"node":"a1","nodes":[{"name":"a2","pods":["p"],"node":""},"a3",7],"reasons":[{"node":"a4","name":"x"}],"series":[{"labels":{"node":"a5","pod":"p"}}]}`)},
		"b": {Data: json.RawMessage(`{"node":"b1"}`), Unknown: "it failed"},
		"c": {Data: json.RawMessage(`[{"node":["c1"]},{"nodes":"c2"},{"node":{"name":"c3"}}]`)},
		"d": {},
	}}
	if got, want := slices.Sorted(maps.Keys(s.nodes())), []string{"a1", "a2", "a3", "a4", "a5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

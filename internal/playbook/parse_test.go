package playbook

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

func mustParse(t *testing.T, file string) *Playbook {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := Parse(file, data, testKinds())
	if err != nil {
		t.Fatal(err)
	}
	return ps[0]
}

func TestEvaluate(t *testing.T) {
	p := mustParse(t, "testdata/good/scale.yaml")
	scope := Scope{
		Service:  Service{Name: "serving/chat", Selector: `namespace="serving"`},
		Alert:    Alert{Labels: map[string]string{"pod": `a.b"} or up{x="`}},
		Now:      time.Unix(0, 0),
		Evidence: map[string]json.RawMessage{"queue": json.RawMessage(`{"status":"ok","value":0}`), "pods": json.RawMessage(`{"desired":7}`)},
		Out:      json.RawMessage(`{"status":"ok","value":0,"max":2}`),
	}
	for name, v := range p.State("queue").With {
		got, err := v.Eval(scope)
		t.Log(name, got, err)
	}
	for _, e := range p.State("queue").Next {
		if e.When != nil {
			got, err := e.When.Eval(scope)
			t.Log(e.When.Source(), got, err)
		}
	}
	t.Log(p.State("sure").Message.Eval(scope))
	t.Log(p.State("add").With["by"].Eval(scope))
	t.Log(p.State("add").Verify.Burn.ErrorRatio.Eval(scope))
	scope.Since = 90 * time.Second
	t.Log(p.State("add").Verify.Burn.ErrorRatio.Eval(scope))
}

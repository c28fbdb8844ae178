package runview

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// The time of a run begins with the breach where a check measured its beginning, and else
// with the alert.
func TestPhasesBeginWithTheBreach(t *testing.T) {
	fired := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	burn := func(step, since, unknown string) *machine.Evidence {
		data := json.RawMessage(`{"status": "breached"}`)
		if since != "" {
			data = json.RawMessage(`{"status": "breached", "since": "` + since + `"}`)
		}
		return &machine.Evidence{Step: step, Data: data, Unknown: unknown}
	}
	notify, decide := Phase{"notify", time.Minute}, Phase{"decide", 2 * time.Minute}
	for name, c := range map[string]struct {
		evidence map[string]*machine.Evidence
		diverted string
		want     []Phase
	}{
		"measured":                {map[string]*machine.Evidence{"a": burn(burnCheck, "2026-05-04T11:58:00Z", ""), "b": burn(burnCheck, "2026-05-04T11:55:00Z", "")}, "", []Phase{{"detect", 5 * time.Minute}, notify, decide}},
		"after the alert":         {map[string]*machine.Evidence{"a": burn(burnCheck, "2026-05-04T12:00:30Z", "")}, "", []Phase{notify, decide}},
		"no breach":               {map[string]*machine.Evidence{"a": burn(burnCheck, "", "")}, "", []Phase{notify, decide}},
		"unknown":                 {map[string]*machine.Evidence{"a": burn(burnCheck, "2026-05-04T11:55:00Z", "no answer"), "b": nil}, "", []Phase{notify, decide}},
		"another kind of check":   {map[string]*machine.Evidence{"a": burn("slo.headroom", "2026-05-04T11:55:00Z", "")}, "", []Phase{notify, decide}},
		"another run handed over": {map[string]*machine.Evidence{"a": burn(burnCheck, "2026-05-04T11:55:00Z", "")}, "r-1", []Phase{decide}},
	} {
		start := machine.Start{Alert: playbook.Alert{StartsAt: fired}, DivertedFrom: c.diverted}
		run := machine.State{Start: start, Began: fired.Add(time.Minute), Evidence: c.evidence}
		events := []machine.Event{{Kind: machine.RunStarted, At: run.Began, Start: &start}, {Kind: machine.RunEnded, At: run.Began.Add(2 * time.Minute)}}
		if diff := cmp.Diff(c.want, PhasesOf(run, events)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

package gpu

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A GPU whose driver hangs says so in every reading, keeps what it is and what
// happened to it, and changes nothing of the one it was made from.
func TestUnread(t *testing.T) {
	before := GPU{
		UUID: "GPU-1", Index: 3, TakenAt: time.Unix(1000, 0).UTC(),
		Clocks:      Clocks{Reasons: Known(GPUIdle), Violation: Violations{HWThermalNS: Known[uint64](7)}},
		Temperature: Temperature{GPUC: Known[int64](40)},
		NVLinks:     []NVLink{{Link: 2, Active: Known(true), Replay: Known[uint64](0)}},
		Pods:        Known([]Pod{{Name: "a"}}),
		Events:      []Event{{At: time.Unix(900, 0).UTC(), Type: EventXID, Data: 79}},
		Baseline:    Baseline{At: time.Unix(1, 0).UTC(), Counters: Counters{PCIeReplays: Known[uint64](1)}},
		Minutes:     []Minute{{Start: time.Unix(940, 0).UTC(), Samples: 60, GPUMaxC: Known[int64](41)}},
	}
	after := before.WithoutReadings(Timeout)
	if _, known := before.NVLinks[0].Active.Get(); !known {
		t.Error("the GPU it was made from has lost its links")
	}
	if after.UUID != "GPU-1" || after.NVLinks[0].Link != 2 || len(after.Events) != 1 {
		t.Errorf("lost what it is, or what happened to it: %+v", after)
	}
	if v, known := after.Minutes[0].GPUMaxC.Get(); !known || v != 41 {
		t.Errorf("history lost its readings: %v", after.Minutes[0].GPUMaxC)
	}
	after.Minutes, after.Baseline = nil, Baseline{}
	text, err := json.Marshal(after)
	if err != nil {
		t.Fatal(err)
	}
	// Every reading there is, for a field that was forgotten would be missing
	// from both counts of a list made by hand.
	if got, want := strings.Count(string(text), `{"unknown":"timeout"}`), 59; got < want {
		t.Errorf("%d readings are unknown, want at least %d:\n%s", got, want, text)
	}
	if strings.Contains(string(text), "not_read") {
		t.Errorf("a reading is left as not read:\n%s", text)
	}
}

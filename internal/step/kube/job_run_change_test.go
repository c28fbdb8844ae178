package kube

import "testing"

// TestUndoneAlone: a Job that nothing takes back and that is gone counts as stopped only if
// the receipt of the undo says that it was.
func TestUndoneAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		p       jobPayload
		at      seenJob
		r       jobReceipt
		applied bool
	}{
		"stopped":                {r: jobReceipt{Stopped: true}, applied: true},
		"gone":                   {},
		"ended":                  {at: seenJob{there: true}},
		"gone, changes nothing":  {p: jobPayload{ReadOnly: true}, applied: true},
		"ended, changes nothing": {p: jobPayload{ReadOnly: true}, at: seenJob{there: true}, applied: true},
	} {
		if o := undoneAlone(tt.p, tt.at, tt.r); o.Applied != tt.applied || o.Settled != tt.applied {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

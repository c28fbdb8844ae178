package gpu

import (
	"errors"
)

// Answer is what was learnt of one node's GPUs.
type Answer struct {
	Node     string
	Snapshot Snapshot // when Err is nil
	Err      error    // why there is nothing that can be used
}

// ErrNoAgent says that no agent runs on a node, which is no fault of it:
// another source may know.
var ErrNoAgent = errors.New("no agent runs there")

// Held gives the GPUs that one of these pods of a namespace holds, and whether
// that is known of every GPU: when it is not, any GPU of the node may be theirs.
func (s Snapshot) Held(namespace string, pods map[string]bool) (uuids map[string]bool, known bool) {
	uuids = map[string]bool{}
	for _, g := range s.GPUs {
		held, ok := g.Pods.Get()
		if !ok {
			return nil, false
		}
		for _, p := range held {
			if p.Name == "" {
				return nil, false // only its UID is known
			}
			if p.Namespace == namespace && pods[p.Name] {
				uuids[g.UUID] = true
			}
		}
	}
	return uuids, true
}

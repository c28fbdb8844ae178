package gpu

import (
	"errors"
)

// Answer is the result of asking one node for its GPUs.
type Answer struct {
	Node     string
	Snapshot Snapshot // when Err is nil
	Err      error    // why there is nothing that can be used
}

// ErrNoAgent means that no agent runs on a node. That is not a fault of the node;
// another source may have its readings.
var ErrNoAgent = errors.New("no agent runs there")

// Held returns the GPUs that these pods of a namespace hold. known is false unless
// the holders of every GPU are known; then any GPU of the node may be theirs.
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

package gpu

import (
	"errors"
	"fmt"
	"time"
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

// JudgeAnswers is [Judge] for the answers of several nodes that do the same
// work. An answer that is none, or that speaks of another node, makes its node
// unknown.
func JudgeAnswers(now time.Time, answers []Answer) []NodeJudgement {
	out := make([]NodeJudgement, len(answers))
	var snaps []Snapshot
	var places []int
	for i, a := range answers {
		switch {
		case a.Err != nil:
			out[i] = Unseen(a.Node, a.Err.Error())
		case a.Snapshot.Node != a.Node:
			out[i] = Unseen(a.Node, fmt.Sprintf("the answer is about node %q", clip(a.Snapshot.Node)))
		default:
			snaps, places = append(snaps, a.Snapshot), append(places, i)
		}
	}
	for k, j := range Judge(now, snaps...) {
		out[places[k]] = j
	}
	return out
}

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

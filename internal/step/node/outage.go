package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
)

// Outage is what a node tells of why Responder keeps pods off it, and of what stands in
// the way of its return. The zero value: Responder does nothing to it.
type Outage struct {
	Ours  bool      // Responder keeps pods off the node
	Run   string    // whose change last did; empty: the node does not record it
	Since time.Time // that change; zero: the node does not record it

	Reset    string // the open request for a reset of its GPUs; empty: there is none
	Unmended string // what has not been repaired since it went out, as far as that is known; empty: nothing
	HadGPUs  bool   // it had GPUs when it went out
}

// OutageOf reads the marks and annotations of a node.
func OutageOf(n kube.NodeState) Outage {
	o := Outage{Ours: heldOut(n)}
	if open := openReset(n); open != "" {
		o.Reset = "the label " + open + askedBy(n)
	}
	if !o.Ours {
		return o
	}
	for _, mark := range []string{kube.MarkCordon, kube.MarkDrain, kube.MarkTaint} {
		if key, at := kube.ParseMark(n.Annotations[mark]); at.After(o.Since) {
			o.Since = at
			o.Run, _, _ = strings.Cut(key, "/")
		}
	}
	text := n.Annotations[kube.GPUsWhenOut]
	if text == "" {
		return o
	}
	o.HadGPUs = true
	out, err := readWentOut(text)
	if err != nil {
		o.Unmended = fmt.Sprintf("its annotation %s cannot be read: %v", kube.GPUsWhenOut, err)
		return o
	}
	o.Unmended = out.unmended(n)
	return o
}

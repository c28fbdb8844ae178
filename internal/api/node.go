package api

import "time"

// NodeList is the answer of GET /api/v1/nodes: the nodes on which services of the catalog
// have pods, and those that Responder took out of service.
type NodeList struct {
	Nodes   []Node    `json:"nodes"`         // those that are out of service or at fault first; at most 200
	More    int       `json:"more"`          // nodes beyond those
	Unknown []string  `json:"unknown"`       // what could not be read, so that nodes, or services on them, may be missing
	Read    time.Time `json:"read,omitzero"` // when the cluster was read; absent: it was not
	Now     time.Time `json:"now"`           // by the service's clock, which is the sandbox's in one
}

// Node is a node, and why it is out of service.
type Node struct {
	Node       string     `json:"node"`
	Ready      string     `json:"ready"`                // true, false or unknown
	Cause      string     `json:"cause,omitempty"`      // why it is not known whether it is ready
	Conditions []string   `json:"conditions"`           // bad ones, e.g. MemoryPressure
	Cordoned   bool       `json:"cordoned"`             // spec.unschedulable
	CordonedBy string     `json:"cordonedBy,omitempty"` // the field manager: responder, kubectl, ...; absent: it is not cordoned, or nobody is known
	Taken      bool       `json:"taken"`                // Responder keeps pods off it, by a cordon or a taint
	Run        string     `json:"run,omitempty"`        // that took it out; absent: none is known
	Since      time.Time  `json:"since,omitzero"`       // when it did
	Bad        bool       `json:"bad"`                  // it is not ready, has a bad condition, or its device plugin offers no GPUs any more
	Claims     []string   `json:"claims"`               // others who work on it, and how that is known; a cordon is not among them
	Waits      []NodeWait `json:"waits"`                // what the return of a node that Responder took out waits for; of another node, the open runs about it

	GPUs     NodeGPUs      `json:"gpus"`
	Services []NodeService `json:"services"` // of the catalog, with pods on it
}

// NodeWait is one thing that the return of a node waits for, or an open run about it.
type NodeWait struct {
	Text string `json:"text"`
	Run  string `json:"run,omitempty"` // an open run about the node
}

// NodeGPUs is what is known of a node's GPUs.
type NodeGPUs struct {
	Verdict string    `json:"verdict"`       // healthy, busy, unknown, degraded, throttled or failing, as gpu.health has it; none: the cluster shows no GPUs on it
	Why     []string  `json:"why"`           // findings that are worse than busy, each with its own verdict, worst first; at most 5
	Seen    int       `json:"seen"`          // GPUs of which there are readings
	Source  string    `json:"source"`        // nvml (the node agent), dcgm or sandbox; empty: there was no answer
	Read    time.Time `json:"read,omitzero"` // when the readings were made; absent: there are none
}

// NodeService is a service with replicas on a node.
type NodeService struct {
	Service  string `json:"service"`
	Replicas int    `json:"replicas"` // with a pod on the node
	Ready    int    `json:"ready"`    // of those, whose pods there are ready
}

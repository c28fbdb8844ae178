package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Plan is what a lever would change now. It is what people approve, so its
// digest covers everything that decides what will happen, and nothing that
// moves by itself (ready counts, timestamps).
type Plan struct {
	Step    string          `json:"step"`   // kind of the lever
	Target  Target          `json:"target"` // the object that owns the field
	Summary string          `json:"summary"`
	Diff    []FieldChange   `json:"diff"`
	Undo    string          `json:"undo"` // what will be put back, in words
	Risk    Risk            `json:"risk"`
	Why     string          `json:"why"`               // reason for the risk
	Locks   []string        `json:"locks"`             // service:..., node:..., file:...
	Lacks   string          `json:"lacks,omitempty"`   // right that the service lacks to do it; empty: none, as far as the servers can be asked
	Unseen  string          `json:"unseen,omitempty"`  // what of its effect cannot be read from what runs, and why; people are asked, under auto too. Empty: all can
	Good    []Setting       `json:"good,omitempty"`    // what is known to be good once the change is verified
	Payload json.RawMessage `json:"payload,omitempty"` // the lever's own: what Apply needs, with its preconditions

	// MergeWithin is how long the pull request that the change is made by may
	// wait to be merged; then it is closed. 0: the change is made at once.
	MergeWithin time.Duration `json:"mergeWithin,omitempty"`

	// Unrepeatable says that Apply has no precondition which a late first
	// attempt would fail. After an attempt with an unknown outcome such a
	// lever is never applied again by itself, even when it cannot be seen in
	// the world: the run is held.
	Unrepeatable bool `json:"unrepeatable,omitempty"`

	// Not in the digest: they move by themselves. Guards look at them afresh.
	Capacity Capacity   `json:"capacity"`
	Others   []Affected `json:"others,omitempty"` // other services that lose replicas to it
	Pool     *NodePool  `json:"pool,omitempty"`   // of a lever that takes a node out; nil: it takes none
	Notes    []string   `json:"notes,omitempty"`

	// Lowest is how few replicas of a workload, by kind and namespace/name, may be
	// ready while the change is made step by step: a step that would leave fewer
	// waits. It is what the guards were shown. Nil: it loses no replicas so.
	Lowest map[string]int `json:"lowest,omitempty"`

	// Beside is what was amiss before the change with what it is rolled out
	// together with. It is no effect of the change, and does not count as one.
	Beside []Amiss `json:"beside,omitempty"`
}

// Amiss is an object that is not as it should be.
type Amiss struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Sync      string `json:"sync,omitempty"`   // other than Synced; empty: it is as its manifest says
	Health    string `json:"health,omitempty"` // other than Healthy; empty: it is healthy, or has no health
}

// Target names the object a lever changes, down to this very incarnation.
type Target struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"` // moves with the spec only
}

// Setting is a variable of a service and its value. Empty: it is not set.
type Setting struct {
	Name  string `json:"name"` // --max-num-seqs, replicas, image
	Value string `json:"value"`
}

// FieldChange is one field of the diff. Empty From: added; empty To: removed.
type FieldChange struct {
	Path string `json:"path"` // e.g. spec.replicas, containers[vllm].args[--max-num-seqs]
	From string `json:"from"`
	To   string `json:"to"`
}

// Risk of a lever, as policies and people see it.
type Risk string

// The three risks.
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// Digest is the SHA-256 of the plan's deciding part, as "sha256:<hex>". An
// approval is bound to it.
func (p Plan) Digest() string {
	p.Capacity, p.Others, p.Pool, p.Notes, p.Lowest, p.Beside = Capacity{}, nil, nil, nil, nil, nil
	b, err := json.Marshal(p)
	if err != nil {
		panic("machine: plan cannot be encoded: " + err.Error()) // unreachable unless a Payload is not JSON
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// GuardVerdict is one guard's answer. Every guard that was asked is listed,
// not only the first that refused.
type GuardVerdict struct {
	Guard string `json:"guard"` // paused, autonomy, firing, blast-radius, evidence, rights, min-ready, nodes, cooldown, budget, concurrency, lock
	OK    bool   `json:"ok"`
	Wait  bool   `json:"wait,omitempty"` // not now, but by itself later (a lock): ask again
	Why   string `json:"why"`            // with figures: "last lever 4m ago, cooldown 30m"
}

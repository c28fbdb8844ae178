package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Plan is the current change of a lever. People approve it, so its digest
// covers everything that decides what will happen, and nothing that changes by
// itself (ready counts, timestamps).
type Plan struct {
	Step    string          `json:"step"`   // kind of the lever
	Target  Target          `json:"target"` // the object that owns the field
	Summary string          `json:"summary"`
	Diff    []FieldChange   `json:"diff"`
	Undo    string          `json:"undo"` // what will be restored, in words
	Risk    Risk            `json:"risk"`
	Class   playbook.Class  `json:"class,omitempty"`   // if it differs from that of the lever's kind
	Back    map[string]any  `json:"back,omitempty"`    // parameters of the same kind that take the change back after the incident; empty: only Undo can
	Why     string          `json:"why"`               // reason for the risk
	Locks   []string        `json:"locks"`             // service:..., node:..., file:...
	Lacks   string          `json:"lacks,omitempty"`   // permission that the service lacks; empty: none, as far as the servers can be asked
	Unseen  string          `json:"unseen,omitempty"`  // part of its effect that cannot be read, and why; people are asked, even at level auto. Empty: all can
	Asks    string          `json:"asks,omitempty"`    // why people are asked, even at level auto; empty: the level decides
	Good    []Setting       `json:"good,omitempty"`    // known to be good once the change is verified
	Payload json.RawMessage `json:"payload,omitempty"` // input of Apply, with its preconditions; private to the lever

	// MergeWithin is how long the pull request of the change may wait for its
	// merge; then it is closed. 0: the change is made at once.
	MergeWithin time.Duration `json:"mergeWithin,omitempty"`

	// Unrepeatable is set if Apply has no precondition that would fail a late
	// first attempt. After an attempt with an unknown outcome such a lever is
	// never repeated automatically, even if the change is not visible: the run
	// is held.
	Unrepeatable bool `json:"unrepeatable,omitempty"`

	// Stops is set if Undo cannot take back what the change does and only stops it. A
	// change that is not in effect in time is stopped, so that it does not begin later,
	// when nobody looks.
	Stops bool `json:"stops,omitempty"`

	// Staged is set if the lever makes the change step by step, and half done it
	// must not stay: what is not in effect in time is taken back. It is how long the
	// steps take beside the start of replicas. A pause stops them, so its time does
	// not count.
	Staged time.Duration `json:"staged,omitempty"`

	// Ends is set if the plan only ends a change that was approved with its end: why. No
	// people are asked, no locks are taken, and no guard keeps it apart from other
	// changes. Empty: it is a change of its own.
	Ends string `json:"ends,omitempty"`

	// Stepwise is set if the lever makes the change step by step after it was applied.
	// A pause stops the steps, and so do a freeze and a lowered level of autonomy.
	Stepwise bool `json:"stepwise,omitempty"`

	// Rehold is the hold that the undo of the change begins again, in its own write. It is
	// a loan from then on. Nil: none.
	Rehold *Rehold `json:"rehold,omitempty"`

	// NodeOwners are asked for node.owners, of a lever on a node; nil: of others.
	NodeOwners *NodeOwners `json:"nodeOwners,omitempty"`

	// Touches lists what else a lever on a node or an Argo CD application acts on:
	// other services, and namespaces with pods or objects of no service. The lever is
	// judged for each of them.
	Touches []Touched `json:"touches,omitempty"`

	// Not in the digest: these change by themselves. Guards evaluate them
	// again.
	Capacity Capacity   `json:"capacity"`
	Others   []Affected `json:"others,omitempty"` // other services that lose replicas to it
	Rest     []Affected `json:"rest,omitempty"`   // workloads that lose replicas to it, without GPUs and of no service: rules are asked about them, guards are not
	Pool     *NodePool  `json:"pool,omitempty"`   // of a lever that takes out a node; nil: of others
	Shares   []Share    `json:"shares,omitempty"` // of a lever that costs ready replicas of services: by namespace, and the catalog's
	Notes    []string   `json:"notes,omitempty"`

	// Loading is how long the replicas that are there took to become ready: those
	// that the change starts may take as long; 0: not known.
	Loading time.Duration `json:"loading,omitempty"`

	// Rounds is how many rounds of pods a rollout of the change takes, one after the
	// other: each replaces as many as the workload's strategy allows. 0: the change
	// rolls nothing out, or starts all its replicas at once.
	Rounds int `json:"rounds,omitempty"`

	// Lowest limits a stepwise change: how few replicas of a workload, by kind
	// and namespace/name, may be ready. A step that would leave fewer waits.
	// The guards judged these numbers. Nil: the change loses no replicas
	// stepwise.
	Lowest map[string]int `json:"lowest,omitempty"`

	// Drift is the pre-existing drift: objects in the same rollout that were
	// out of sync or unhealthy before the change. The change is not blamed for
	// it.
	Drift []Drift `json:"beside,omitempty"`
}

// Rehold is a hold that the undo of a change begins again.
type Rehold struct {
	Step    string         `json:"step"`    // kind of lever that ends it
	Summary string         `json:"summary"` // of the hold
	Back    map[string]any `json:"back"`    // parameters of Step that end it
}

// NodeOwners are the owners of the pool that the catalog has a node in.
type NodeOwners struct {
	Pool   string   `json:"pool,omitempty"`   // empty: the node is in none, and the service's owners are asked
	Owners []string `json:"owners,omitempty"` // user:... and group:...
}

// Touched is another service that a lever acts on, or a namespace with pods or
// objects of no service that it acts on.
type Touched struct {
	Service   string   `json:"service,omitempty"` // name in the catalog; empty: of no service
	Namespace string   `json:"namespace"`
	Owners    []string `json:"owners,omitempty"`      // of the service: they are asked beside those of the run's
	App       string   `json:"application,omitempty"` // Argo CD application that deploys it; empty: its pods are on the node
}

// Name names it for people.
func (t Touched) Name() string {
	switch {
	case t.Service != "":
		return "service " + t.Service
	case t.App != "":
		return "objects of no service in namespace " + t.Namespace
	}
	return "pods of no service in namespace " + t.Namespace
}

// String is Name, with why it is touched.
func (t Touched) String() string {
	switch {
	case t.Service == "":
		return t.Name()
	case t.App != "":
		return t.Name() + ", deployed by Argo CD application " + t.App
	}
	return t.Name() + ", with pods on the node"
}

// Drift is an object that is out of sync or unhealthy.
type Drift struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Sync      string `json:"sync,omitempty"`   // other than Synced; empty: as in its manifest
	Health    string `json:"health,omitempty"` // other than Healthy; empty: healthy, or without health
}

// Target identifies the object that a lever changes, including its UID.
type Target struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"` // changes only with the spec
}

// Setting is a variable of a service with its value. Empty: it is not set.
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

// Risk is the risk of a lever.
type Risk string

// The levels of risk.
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// Digest returns the SHA-256 of the deciding part of the plan, as
// "sha256:<hex>". An approval is bound to it.
func (p Plan) Digest() string {
	p.Capacity, p.Others, p.Rest, p.Pool, p.Shares, p.Notes, p.Loading, p.Rounds, p.Lowest, p.Drift = Capacity{}, nil, nil, nil, nil, nil, 0, 0, nil, nil
	b, err := json.Marshal(p)
	if err != nil {
		panic("machine: plan cannot be encoded: " + err.Error()) // unreachable unless a Payload is not JSON
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// GuardVerdict is the answer of one guard. All evaluated guards are listed, not
// only the first that refused.
type GuardVerdict struct {
	Guard string `json:"guard"` // paused, policy, ladder, autonomy, firing, blast-radius, evidence, rights, min-ready, nodes, cooldown, budget, concurrency, lock
	OK    bool   `json:"ok"`
	Wait  bool   `json:"wait,omitempty"` // not now, but later without a change (a lock): ask again
	Why   string `json:"why"`            // with figures: "last lever 4m ago, cooldown 30m"

	Run   string    `json:"run,omitempty"`   // of a wait: the run that is in the way
	Again bool      `json:"again,omitempty"` // that run acts on the same service: this one looks again afterwards
	Until time.Time `json:"until,omitzero"`  // of a wait: when it is over by itself
}

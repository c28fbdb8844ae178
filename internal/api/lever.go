package api

import (
	"encoding/json"
	"time"
)

// Lever is the change that the current state of a run is about.
type Lever struct {
	State       string         `json:"state"`
	Kind        string         `json:"kind"` // e.g. kube.scale
	With        map[string]any `json:"with"` // its parameters
	Plan        *Plan          `json:"plan,omitempty"`
	Guards      []Guard        `json:"guards"`               // as they last answered
	GuardsUntil time.Time      `json:"guardsUntil,omitzero"` // how long guards that may pass later are waited for
	WouldApply  bool           `json:"wouldApply,omitempty"` // autonomy observe: nothing is changed
	Applied     bool           `json:"applied"`              // the change is made and not undone
	AppliedAt   time.Time      `json:"appliedAt,omitzero"`
	InEffectAt  time.Time      `json:"inEffectAt,omitzero"` // the proof counts from here
	Deadline    time.Time      `json:"deadline,omitzero"`   // to take effect, or to be verified
	WaitsFor    string         `json:"waitsFor,omitempty"`  // the pull request that has to be merged
	MergeBy     string         `json:"mergeBy,omitempty"`   // who merges it: people or responder
	Result      string         `json:"result,omitempty"`    // once it is known, e.g. verified
	Reason      string         `json:"reason,omitempty"`    // code of the result
	Message     string         `json:"message,omitempty"`   // the result in words
	Samples     []Sample       `json:"samples"`             // of its proof
}

// Plan is what a lever would change.
type Plan struct {
	Digest       string          `json:"digest"` // that an approval names
	Kind         string          `json:"kind"`   // of the lever
	Target       Target          `json:"target"`
	Summary      string          `json:"summary"`
	Diff         []Change        `json:"diff"`
	Undo         string          `json:"undo"` // what is put back, in words
	Risk         string          `json:"risk"` // low, medium or high
	Why          string          `json:"why"`  // reason for the risk
	Locks        []string        `json:"locks"`
	MissingRight string          `json:"missingRight,omitempty"` // that the service lacks to make the change
	Unobservable string          `json:"unobservable,omitempty"` // what of its effect cannot be read back, and why
	Asks         string          `json:"asks,omitempty"`         // why people are asked, even at level auto
	LastGood     []Setting       `json:"lastGood,omitempty"`     // what becomes the last-good value once it is verified
	Payload      json.RawMessage `json:"payload,omitempty"`      // the lever's own data
	Class        string          `json:"class,omitempty"`        // of the change, if it is not its kind's
	Back         map[string]any  `json:"back,omitempty"`         // parameters of the same kind that take it back after the incident
	MergeWithin  string          `json:"mergeWithin,omitempty"`  // how long its pull request may wait to be merged
	Staged       string          `json:"staged,omitempty"`       // duration: how long its steps take beside the start of replicas; half done it is taken back. Absent: it has none
	Stops        bool            `json:"stops,omitempty"`        // its undo only stops it: what it did until then stays
	Unrepeatable bool            `json:"unrepeatable,omitempty"` // it is never applied again after an unknown outcome
	Ends         string          `json:"ends,omitempty"`         // why it only ends a change that was approved with its end: nobody is asked. Absent: it is a change of its own
	Stepwise     bool            `json:"stepwise,omitempty"`     // it goes on step by step after it was applied, and a pause stops the steps
	Rehold       *Rehold         `json:"rehold,omitempty"`       // hold that its undo begins again
	NodeOwners   *NodeOwners     `json:"nodeOwners,omitempty"`   // of a lever on a node: whom node.owners asks
	Touches      []Touched       `json:"touches,omitempty"`      // of a lever on a node: what else it acts on

	Capacity         Capacity          `json:"capacity"`
	OtherServices    []AffectedService `json:"otherServices,omitempty"`  // that lose replicas to it
	OtherWorkloads   []AffectedService `json:"otherWorkloads,omitempty"` // of no service and without GPUs, that lose replicas to it
	NodePool         *NodePool         `json:"nodePool,omitempty"`       // of a lever that takes a node out
	Shares           []Share           `json:"shares,omitempty"`         // of a lever that costs ready replicas
	Notes            []string          `json:"notes,omitempty"`
	Loading          string            `json:"loading,omitempty"`          // duration: how long the replicas that are there took to become ready
	Rounds           int               `json:"rounds,omitempty"`           // of pods that its rollout replaces one after the other; absent: it rolls nothing out, or starts all at once
	LowestReady      map[string]int    `json:"lowestReady,omitempty"`      // ready replicas that each workload keeps while the change is made step by step
	PreExistingDrift []Drift           `json:"preExistingDrift,omitempty"` // objects that were out of sync or unhealthy before
}

// Rehold is a hold that the undo of a change begins again.
type Rehold struct {
	Kind    string         `json:"kind"`    // of the lever that ends it
	Summary string         `json:"summary"` // of the hold
	Back    map[string]any `json:"back"`    // parameters of the lever that end it
}

// NodeOwners are the owners of the pool that a node is in.
type NodeOwners struct {
	Pool   string   `json:"pool,omitempty"` // absent: it is in none, and the service's owners are asked
	Owners []string `json:"owners,omitempty"`
}

// Touched is another service that a lever acts on, or a namespace with pods or
// objects of no service that it acts on.
type Touched struct {
	Service   string   `json:"service,omitempty"` // absent: of no service
	Namespace string   `json:"namespace"`
	Owners    []string `json:"owners,omitempty"`      // of the service
	App       string   `json:"application,omitempty"` // Argo CD application that deploys it; absent: its pods are on the node
}

// Target is the object that a lever changes.
type Target struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// Change is one field that a plan changes.
type Change struct {
	Path string `json:"path"`
	From string `json:"from"` // empty: it is added
	To   string `json:"to"`   // empty: it is removed
}

// Setting is a variable of a service with its value.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"` // empty: it is not set
}

// Capacity is what a lever does to the ready replicas of a service.
type Capacity struct {
	Unknown         bool     `json:"unknown,omitempty"`
	ReadyNow        int      `json:"readyNow"`
	LowestReady     int      `json:"lowestReady"` // while the change is made
	ReadyAfter      int      `json:"readyAfter"`
	TokensPerSecond *float64 `json:"tokensPerSecond,omitempty"` // that the service generated when the lever was planned
}

// AffectedService is another service that loses replicas to a lever.
type AffectedService struct {
	Service   string   `json:"service"`
	Namespace string   `json:"namespace,omitempty"` // of a workload of no service
	MinReady  int      `json:"minReady,omitempty"`
	Capacity  Capacity `json:"capacity"`
}

// NodePool is a pool of nodes that a lever takes one out of.
type NodePool struct {
	Name string   `json:"name"`
	Size int      `json:"size"`
	Out  []string `json:"out,omitempty"` // nodes that are out already, with the reason
}

// Share counts the replicas of services that a lever costs some of.
type Share struct {
	Namespace string `json:"namespace,omitempty"` // absent: of the whole catalog
	Unknown   string `json:"unknown,omitempty"`   // why they could not be counted
	Wanted    int    `json:"wanted"`
	Missing   int    `json:"missing"` // not ready now
	Lost      int    `json:"lost"`    // that the lever costs at worst
}

// Drift is an object that differs from its manifest or is unhealthy.
type Drift struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Sync      string `json:"sync,omitempty"`   // absent: Synced
	Health    string `json:"health,omitempty"` // absent: Healthy
}

// Guard is the answer of one guard.
type Guard struct {
	Guard string `json:"guard"`
	OK    bool   `json:"ok"`
	Wait  bool   `json:"wait,omitempty"` // it refuses now and is asked again
	Why   string `json:"why"`

	Run   string    `json:"run,omitempty"`   // run that it waits for
	Again bool      `json:"again,omitempty"` // that run acts on the same service: evidence is gathered again afterwards
	Until time.Time `json:"until,omitzero"`  // when a wait is over by itself
}

// Sample is one measurement of a proof.
type Sample struct {
	Time     time.Time `json:"time"`
	Verdict  string    `json:"verdict"`        // watching, recovering, verified, inconclusive, worse or failed
	Ends     string    `json:"ends,omitempty"` // the verdict if the proof ends with this sample unverified
	Reason   string    `json:"reason,omitempty"`
	Message  string    `json:"message,omitempty"`
	HeldFrom time.Time `json:"heldFrom,omitzero"` // since when every sample was good
	Values   []Reading `json:"values"`
}

// Reading is one value of a sample against its limit.
type Reading struct {
	Name  string   `json:"name"`
	Unit  string   `json:"unit,omitempty"`
	Value *float64 `json:"value,omitempty"` // absent: missing, stale or not a number
	Op    string   `json:"op"`
	Limit float64  `json:"limit"`
	OK    bool     `json:"ok"`
	Why   string   `json:"why,omitempty"` // code of why it is absent or not good
}

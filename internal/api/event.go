package api

import (
	"encoding/json"
	"time"
)

// Event is one line of GET /api/v1/runs/{run}/events. Only the fields of its
// kind are present.
type Event struct {
	Seq  uint64    `json:"seq"` // in the run; the first is 0
	Time time.Time `json:"time"`
	Kind string    `json:"kind"` // e.g. gate.opened

	State     string          `json:"state,omitempty"`
	Visit     int             `json:"visit,omitempty"`  // of the state; the first is 1
	To        string          `json:"to,omitempty"`     // the next state
	Effect    string          `json:"effect,omitempty"` // its idempotency key
	Action    string          `json:"action,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	ReadBack  bool            `json:"readBack,omitempty"` // the effect only reads what became of an earlier attempt
	NotBefore time.Time       `json:"notBefore,omitzero"` // of a retry
	HeldFrom  time.Time       `json:"heldFrom,omitzero"`  // of a look of a wait: since when its condition holds; absent: it does not
	Started   *Started        `json:"started,omitempty"`
	Alert     *Alert          `json:"alert,omitempty"`
	With      map[string]any  `json:"with,omitempty"`     // parameters of the check or lever; of state.entered the numbers and durations that are expressions
	Data      json.RawMessage `json:"data,omitempty"`     // what a check found, or what a lever did
	Facts     []string        `json:"facts,omitempty"`    // the data in words
	Gathered  []Gathered      `json:"gathered,omitempty"` // what the checks of a gather found
	Examined  []Examined      `json:"examined,omitempty"` // the edges that the run looked at, in order
	Plan      *Plan           `json:"plan,omitempty"`
	Digest    string          `json:"digest,omitempty"` // of the plan
	Guards    []Guard         `json:"guards,omitempty"`
	Gate      *Gate           `json:"gate,omitempty"`
	Tier      int             `json:"tier,omitempty"` // that is told; the first is 1
	Decision  *Decision       `json:"decision,omitempty"`
	Sample    *Sample         `json:"sample,omitempty"`
	Verdict   string          `json:"verdict,omitempty"`
	Then      string          `json:"then,omitempty"`     // what becomes of the change: keep, loan, undo or ask
	Loan      *Loan           `json:"loan,omitempty"`     // the change is owed back
	WaitsFor  string          `json:"waitsFor,omitempty"` // the pull request that has to be merged
	Once      string          `json:"once,omitempty"`     // the text of a notice that one run tells for all
	Ending    *Ending         `json:"ending,omitempty"`
	Reason    string          `json:"reason,omitempty"` // code
	Message   string          `json:"message,omitempty"`
}

// Gathered is what one check of a gather found.
type Gathered struct {
	Name    string          `json:"name"`  // of the evidence
	Check   string          `json:"check"` // its kind
	Data    json.RawMessage `json:"data,omitempty"`
	Facts   []string        `json:"facts,omitempty"`   // the data in words
	Reason  string          `json:"reason,omitempty"`  // code, if the check did not answer
	Unknown string          `json:"unknown,omitempty"` // why it did not answer
}

// Examined is an edge that a run looked at when it left a state.
type Examined struct {
	Edge   string   `json:"edge,omitempty"` // label or condition; absent: always taken
	To     string   `json:"to"`
	Result string   `json:"result"`           // true, false or unknown
	Why    string   `json:"why,omitempty"`    // unknown: what is missing; true: why it was not taken nevertheless
	Values []string `json:"values,omitempty"` // what the condition read
}

// Loan is a change that was kept for an incident and is owed back.
type Loan struct {
	Loan    string         `json:"loan"`           // its ID: run/state#visit of the change
	State   string         `json:"state"`          // of the playbook
	Kind    string         `json:"kind"`           // of the lever that gives it back
	Summary string         `json:"summary"`        // of the change
	Back    map[string]any `json:"back,omitempty"` // parameters that give it back; absent: only a person can
	Verdict string         `json:"verdict"`        // of its proof
	Since   time.Time      `json:"since"`
}

// Started is what a run starts with.
type Started struct {
	Run          string     `json:"run"`
	Playbook     string     `json:"playbook"`
	Digest       string     `json:"digest"`
	Service      string     `json:"service"`
	Autonomy     string     `json:"autonomy"`
	Override     *Override  `json:"override,omitempty"` // of the playbook's own level, by the configuration
	StartedBy    *StartedBy `json:"startedBy,omitempty"`
	Alert        *Alert     `json:"alert,omitempty"` // absent: a person started the run
	DivertedFrom string     `json:"divertedFrom,omitempty"`
	Truncated    bool       `json:"truncated,omitempty"`
}

// Ending is how a run ends.
type Ending struct {
	Status     string `json:"status"` // the outcome
	Reason     string `json:"reason,omitempty"`
	Why        string `json:"why"`
	DivertedTo string `json:"divertedTo,omitempty"` // playbook
}

package api

import "time"

// PolicyExplanation is what `responder policy explain -o json` prints.
type PolicyExplanation struct {
	Service string             `json:"service"`
	At      time.Time          `json:"at"`
	Policy  string             `json:"policy"` // the file
	Digest  string             `json:"digest"`
	Levers  []LeverExplanation `json:"levers"` // and gates
	Rights  []RightHolders     `json:"rights"` // about the service
}

// RightHolders are those who have a right.
type RightHolders struct {
	Right string   `json:"right"`         // approve, cancel, pause, unpause, resolve, release, promote or start
	Who   []string `json:"who,omitempty"` // user:ada, group:sre, service.owners, asked; absent: nobody
}

// LeverExplanation is what would become of a lever or gate.
type LeverExplanation struct {
	Playbook   string   `json:"playbook"`
	State      string   `json:"state"`
	Kind       string   `json:"kind"`              // lever or gate
	Lever      string   `json:"lever,omitempty"`   // of a lever: its kind, e.g. kube.scale
	Answer     string   `json:"answer"`            // denied, observed, asks or applies
	Autonomy   string   `json:"autonomy"`          // effective, policy included
	LevelBy    string   `json:"levelBy,omitempty"` // the setting of the configuration that it comes from, in place of the playbook's own
	HeldBy     []Limit  `json:"heldBy,omitempty"`  // what holds it below auto; all of them have to be raised
	Cap        *Limit   `json:"cap,omitempty"`     // of the policy, or of the track record
	Denied     []Cause  `json:"denied,omitempty"`
	Needs      []Need   `json:"needs,omitempty"`  // every one has to be met
	Within     string   `json:"within,omitempty"` // duration
	Tiers      []Tier   `json:"tiers,omitempty"`  // who is told while nobody decides
	BreakGlass []string `json:"breakGlass,omitempty"`
	Depends    []Cause  `json:"depends,omitempty"` // what may change the answer once there is a plan
}

// Cause is what one rule of the policy says.
type Cause struct {
	Rule   string `json:"rule"`  // its name
	Place  string `json:"place"` // e.g. policy prod-freeze, policy.yaml:14
	Effect string `json:"effect"`
	Why    string `json:"why"`
	Need   *Need  `json:"need,omitempty"` // of require_approval
	Cap    *Limit `json:"cap,omitempty"`  // of max_autonomy
}

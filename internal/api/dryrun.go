package api

// DryRun is what `responder dry-run -o json` prints.
type DryRun struct {
	Verdict  string        `json:"verdict"` // nothing-to-do, would-act, refused or no-match
	ExitCode int           `json:"exitCode"`
	Alerts   []DryRunAlert `json:"alerts"`
	Runs     []DryRunRun   `json:"runs"`
	Notes    []string      `json:"notes"`
}

// DryRunAlert is what became of one alert.
type DryRunAlert struct {
	Alert     Alert      `json:"alert"`
	Services  []string   `json:"services"`
	Why       string     `json:"why,omitempty"` // there is no service, or more than one
	Decisions []Dispatch `json:"decisions"`
	Playbooks []Match    `json:"playbooks"` // that are loaded
}

// Dispatch is what the dispatcher made of an alert.
type Dispatch struct {
	Decision string `json:"decision"` // e.g. matched, coalesced, unmatched, no-service or suppressed
	Playbook string `json:"playbook,omitempty"`
	Run      string `json:"run,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Match is whether and why a playbook matches an alert.
type Match struct {
	Playbook string       `json:"playbook"`
	Matched  bool         `json:"matched"`
	Sets     []MatcherSet `json:"sets"` // one for each entry of match; one that matches is enough
}

// MatcherSet is the result of one entry of match.
type MatcherSet struct {
	Matchers string     `json:"matchers"` // as written
	Matched  bool       `json:"matched"`
	Failed   []Mismatch `json:"failed,omitempty"`
}

// Mismatch is a matcher that does not hold.
type Mismatch struct {
	Matcher string `json:"matcher"`
	Label   string `json:"label"`
	Value   string `json:"value"`             // of the alert's label
	Missing bool   `json:"missing,omitempty"` // the alert has no such label
}

// DryRunRun is a run as far as it goes without a change.
type DryRunRun struct {
	Run    Run           `json:"run"`
	Events []Event       `json:"events"`
	Levers []DryRunLever `json:"levers"`
}

// DryRunLever is a lever or a gate that the run reached.
type DryRunLever struct {
	State    string         `json:"state"`
	Kind     string         `json:"kind"`              // lever or gate
	Step     string         `json:"step,omitempty"`    // of a lever: its kind, e.g. kube.scale
	Would    bool           `json:"would"`             // the service would apply it, or ask
	Refused  string         `json:"refused,omitempty"` // why it would not
	Plan     *Plan          `json:"plan,omitempty"`
	Digest   string         `json:"digest,omitempty"` // of the plan
	Guards   []Guard        `json:"guards,omitempty"`
	Approval DryRunApproval `json:"approval"`
	Then     []Branch       `json:"then"` // one for each result
}

// DryRunApproval is who the service would have asked.
type DryRunApproval struct {
	Autonomy string `json:"autonomy"` // effective: the lowest of configuration, service, playbook, state and policy
	Why      string `json:"why"`      // which of them is the lowest
	Needed   bool   `json:"needed"`
	Needs    []Need `json:"needs,omitempty"`  // every one has to be met
	Within   string `json:"within,omitempty"` // duration
	OnExpiry string `json:"onExpiry,omitempty"`
	Tiers    []Tier `json:"tiers,omitempty"` // who is told while nobody decides

	BreakGlass []string `json:"breakGlass,omitempty"` // who may approve alone, with a reason
}

// Branch is what follows a result of a lever or gate.
type Branch struct {
	Result  string   `json:"result"`
	First   string   `json:"first,omitempty"`   // what happens before: the undo
	To      string   `json:"to"`                // the next state, or end
	What    string   `json:"what"`              // that state in words
	Reaches []string `json:"reaches,omitempty"` // levers, gates, diverts and ends that may follow without another lever
}

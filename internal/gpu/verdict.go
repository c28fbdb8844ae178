package gpu

import "time"

// Verdict is what is thought of a GPU or a node.
type Verdict string

// Verdicts, mildest first.
const (
	Healthy   Verdict = "healthy"   // everything a verdict needs was read, and nothing is wrong
	Busy      Verdict = "busy"      // as healthy, at full load: the power cap or utilisation limits it, as it should
	Uncertain Verdict = "unknown"   // something that a verdict needs is missing, stale or cannot be true
	Throttled Verdict = "throttled" // slowed down: heat, power brake or hardware
	Degraded  Verdict = "degraded"  // works, and worse than it should: plan its repair
	Failing   Verdict = "failing"   // gives or will give errors: take it out
)

// Throttle is what slows a GPU down.
type Throttle string

// Kinds of throttling.
const (
	Thermal    Throttle = "thermal"
	PowerBrake Throttle = "power_brake"
	Hardware   Throttle = "hardware"
)

// Reason is one finding of one rule.
type Reason struct {
	Rule     string    `json:"rule"`           // stable name, e.g. thermal-hw
	Verdict  Verdict   `json:"verdict"`        // what this finding alone says
	Text     string    `json:"text"`           // one sentence for a person
	Evidence string    `json:"evidence"`       // the raw values
	Source   string    `json:"source"`         // where the rule comes from
	Since    time.Time `json:"since,omitzero"` // the first sign of it within what is remembered
}

// Judgement is the verdict about one GPU.
type Judgement struct {
	UUID     string   `json:"uuid"`
	Index    int      `json:"index"`
	Verdict  Verdict  `json:"verdict"`
	Throttle Throttle `json:"throttle,omitempty"` // the worst kind; only when a throttling rule fired
	Reset    bool     `json:"reset,omitempty"`    // a reset is what NVIDIA's documents ask for
	RMA      bool     `json:"rma,omitempty"`      // replacement is what they ask for
	Reasons  []Reason `json:"reasons"`            // worst first; a healthy GPU may have some that are no fault
}

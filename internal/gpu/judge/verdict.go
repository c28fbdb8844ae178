package judge

import "time"

// Verdict is the judgement of a GPU or a node.
type Verdict string

// Verdicts, mildest first.
const (
	Healthy   Verdict = "healthy"   // everything a verdict needs was read, and nothing is wrong
	Busy      Verdict = "busy"      // as healthy, at full load: the power cap or utilisation limits it, as it should
	Uncertain Verdict = "unknown"   // something that a verdict needs is missing, stale or cannot be true
	Degraded  Verdict = "degraded"  // works, and worse than it should: plan its repair
	Throttled Verdict = "throttled" // slowed down now: heat, power brake or hardware
	Failing   Verdict = "failing"   // gives or will give errors: take it out
)

// Verdicts returns all verdicts, mildest first.
func Verdicts() []Verdict {
	return []Verdict{Healthy, Busy, Uncertain, Degraded, Throttled, Failing}
}

// Enum returns the values of a verdict as text, mildest first.
func (Verdict) Enum() []string {
	var out []string
	for _, v := range Verdicts() {
		out = append(out, string(v))
	}
	return out
}

// WorseThan reports whether v is worse than o. An undefined verdict is worse than
// all others.
func (v Verdict) WorseThan(o Verdict) bool { return v.rank() > o.rank() }

func (v Verdict) rank() int {
	for i, x := range Verdicts() {
		if x == v {
			return i
		}
	}
	return len(Verdicts())
}

// Throttle is the cause of a slowdown.
type Throttle string

// Kinds of throttling.
const (
	Thermal    Throttle = "thermal"
	PowerBrake Throttle = "power_brake"
	Hardware   Throttle = "hardware"
)

// Reason is one finding of one rule.
type Reason struct {
	Rule     string    `json:"rule"`               // stable name, e.g. hw-thermal
	Verdict  Verdict   `json:"verdict"`            // what this finding alone says
	Text     string    `json:"text"`               // for a person, without a full stop
	Evidence string    `json:"evidence,omitempty"` // the raw values
	Source   string    `json:"source"`             // where the rule comes from
	Since    time.Time `json:"since,omitzero"`     // the first sign of it within what is remembered
}

// Judgement is the verdict about one GPU.
type Judgement struct {
	UUID     string   `json:"uuid"`
	Index    int      `json:"index"`
	Name     string   `json:"name,omitempty"`
	Verdict  Verdict  `json:"verdict"`
	Throttle Throttle `json:"throttle,omitempty"` // the worst kind; only when a throttling rule fired
	Reset    bool     `json:"reset,omitempty"`    // a reset of the GPU or a reboot is what NVIDIA's documents ask for
	RMA      bool     `json:"rma,omitempty"`      // replacement is what they ask for
	Repair   string   `json:"repair,omitempty"`   // the finding that asks for it; of several the worst of those that ask for a replacement, else for a reset
	Reasons  []Reason `json:"reasons"`            // worst first; those of a healthy GPU are no fault
}

// NodeJudgement is the verdict about a node: that of its worst GPU, or worse.
type NodeJudgement struct {
	Node    string      `json:"node"`
	Source  string      `json:"source,omitempty"` // of the snapshot; empty: there was none
	TakenAt time.Time   `json:"taken_at,omitzero"`
	Verdict Verdict     `json:"verdict"`
	Repair  string      `json:"repair,omitempty"` // the finding about the node as a whole that asks for a reset, of a GPU that cannot be told
	Reasons []Reason    `json:"reasons"`          // about the node as a whole
	GPUs    []Judgement `json:"gpus"`
}

// outcome is what a sign means.
type outcome struct {
	verdict    Verdict
	throttle   Throttle
	reset, rma bool
}

// sign is one observation of a rule.
type sign struct {
	outcome
	text     string
	evidence string
	since    time.Time
}

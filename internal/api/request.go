package api

// StartRequest is the body of POST /api/v1/runs. The credential says who starts
// the run. The header Idempotency-Key names the request: when it is sent again,
// it returns the run that the first one started.
type StartRequest struct {
	Playbook string            `json:"playbook"`
	Service  string            `json:"service"`
	Labels   map[string]string `json:"labels,omitempty"` // stand for the labels of an alert
	Reason   string            `json:"reason,omitempty"`
}

// DecisionRequest is the body of POST /api/v1/runs/{run}/approve, deny, replan,
// cancel, resolve and release. The credential says who decides, not the body, except
// in a sandbox that authenticates nobody.
type DecisionRequest struct {
	Reason     string `json:"reason,omitempty"`     // required for deny, cancel, resolve, release and to break the glass
	Digest     string `json:"digest,omitempty"`     // of the plan the person saw; approve, deny and replan
	Gate       string `json:"gate,omitempty"`       // absent: the one that is open; approve, deny and replan
	BreakGlass bool   `json:"breakGlass,omitempty"` // approve: alone, without the other approvals; for people that a policy names
	Applied    *bool  `json:"applied,omitempty"`    // resolve: whether the change is made
	As         string `json:"as,omitempty"`         // approve and deny in a sandbox that authenticates nobody: the name of another person; every other service refuses it
}

// PauseRequest is the body of POST and DELETE /api/v1/pauses. DELETE takes the
// same as query parameters. Without service, playbook and intake it is the pause
// of everything.
type PauseRequest struct {
	Service  string `json:"service,omitempty"`
	Playbook string `json:"playbook,omitempty"`
	Intake   bool   `json:"intake,omitempty"` // the receiver, instead of runs
	Reason   string `json:"reason,omitempty"` // required for POST
}

// Promotion is the body of POST /api/v1/ladder/promote. The credential says who
// promotes, not the body.
type Promotion struct {
	Playbook string `json:"playbook"`
	Service  string `json:"service"`
	Lever    string `json:"lever"` // its state, or its kind where that is enough
	Reason   string `json:"reason"`
}

package api

import "time"

// SandboxHeader is the header by which every answer to a request with a credential names
// the sandbox. Services with a real cluster do not send it.
const SandboxHeader = "Responder-Sandbox"

// Sandbox is the answer of GET /api/v1/sandbox: the simulated cluster of a service
// that 'responder serve --sandbox' runs. Other services answer 404.
type Sandbox struct {
	Scenario  string            `json:"scenario"`  // the present one
	Opened    time.Time         `json:"opened"`    // when its cluster opened, by the sandbox's clock
	Now       time.Time         `json:"now"`       // by the sandbox's clock
	Pace      float64           `json:"pace"`      // simulated seconds per real second, now
	Scenarios []SandboxScenario `json:"scenarios"` // that can be simulated
}

// SandboxScenario is an incident that can be simulated.
type SandboxScenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// SandboxFire is the body of POST /api/v1/sandbox/fire.
type SandboxFire struct {
	Scenario string `json:"scenario,omitempty"` // to simulate in a new cluster; absent: deliver the alerts of the present one
}

// SandboxFired is the answer of POST /api/v1/sandbox/fire. With a scenario, the status
// is 202 and the service restarts on the new cluster: wait until GET /api/v1/sandbox
// shows its opening, then deliver its alerts.
type SandboxFired struct {
	Scenario string         `json:"scenario"`
	Opened   time.Time      `json:"opened"` // of the scenario's cluster, by the sandbox's clock
	Alerts   []SandboxAlert `json:"alerts"` // delivered; none with a scenario
}

// SandboxAlert is an alert that was delivered.
type SandboxAlert struct {
	Name   string    `json:"name"`
	Status string    `json:"status"` // firing or resolved
	Starts time.Time `json:"starts"`
	Runs   []string  `json:"runs"` // that it started or joined before this delivery
}

package api

import "time"

// AlertList is the answer of GET /api/v1/alerts.
type AlertList struct {
	Alerts []ReceivedAlert `json:"alerts"`       // the most recently mentioned ones first
	More   bool            `json:"more"`         // there are others beyond the limit
	Now    time.Time       `json:"now,omitzero"` // by the service's clock, which is the sandbox's in one
}

// ReceivedAlert is an alert that was received, and what became of it.
type ReceivedAlert struct {
	Episode    string            `json:"episode"`          // fingerprint@start: one firing of one alert
	Labels     map[string]string `json:"labels,omitempty"` // absent: its notification is archived
	Firing     bool              `json:"firing"`
	Starts     time.Time         `json:"starts,omitzero"`
	Seen       time.Time         `json:"seen"`                 // when Alertmanager last mentioned it
	Resolved   time.Time         `json:"resolved,omitzero"`    // when that was learned
	Became     string            `json:"became"`               // run: it started one; joined: it was added to one; unmatched, no-service, paused, suppressed, quarantined; released: its run was released, and its next notification may start another; resolved: it resolved before it could start a run
	Runs       []string          `json:"runs"`                 // that it started or joined
	Reason     string            `json:"reason,omitempty"`     // why it has no run
	Nearest    string            `json:"nearest,omitempty"`    // of an unmatched one: the playbook of which the fewest matchers fail
	Mismatches []string          `json:"mismatches,omitempty"` // those matchers, with the values that they were compared with
	Repeats    int               `json:"repeats"`              // how often Alertmanager sent it again since, and nothing new came of it
	Repeated   time.Time         `json:"repeated,omitzero"`    // when it last did
	Waits      bool              `json:"waits"`                // it is decided again by itself
	Remedy     string            `json:"remedy,omitempty"`     // what to do
	Entry      uint64            `json:"entry,omitempty"`      // of the audit log: the notification that this was decided about
	Source     string            `json:"source,omitempty"`     // the alert's generatorURL
}

package api

import "time"

// Replay is what `responder replay -o json` prints.
type Replay struct {
	From        time.Time        `json:"from"`
	To          time.Time        `json:"to"`
	Interrupted bool             `json:"interrupted,omitempty"` // it is about a part of the span only
	Episodes    int              `json:"episodes"`              // that began in the span; an episode is one firing of one alert
	Runs        []ReplayRun      `json:"runs"`                  // in the order of their beginnings
	Without     []ReplayWithout  `json:"without"`               // episodes that had a part in no run
	Playbooks   []ReplayPlaybook `json:"playbooks"`             // those that had runs
	Queries     int              `json:"queries"`               // that Prometheus was asked
	Unread      int              `json:"unread,omitempty"`      // notifications that could not be read
	Notes       []string         `json:"notes"`                 // what the answer does not cover

	Compared *ReplayComparison `json:"compared,omitempty"` // with --against
}

// ReplayRun is a run that would have started, as far as the past carries it.
type ReplayRun struct {
	Run          string         `json:"run"`
	Playbook     string         `json:"playbook"`
	Service      string         `json:"service"`
	Began        time.Time      `json:"began"`
	Alert        Alert          `json:"alert"`                  // that started it
	Episodes     int            `json:"episodes"`               // of it, with those that joined
	DivertedFrom string         `json:"divertedFrom,omitempty"` // the run that handed over
	Path         []string       `json:"path"`                   // states, in order
	Steps        []PlaybookStep `json:"steps"`                  // edges, in order
	End          string         `json:"end"`                    // proposed, asked, under-way, no-answer, or the outcome of the run
	Lever        *ReplayLever   `json:"lever,omitempty"`        // proposed: the first change
	Message      string         `json:"message,omitempty"`      // of the end
	Took         string         `json:"took"`                   // duration, from its beginning
	Unknown      []string       `json:"unknown,omitempty"`      // evidence that it did not have
	Lasted       string         `json:"lasted,omitempty"`       // duration: how long the alert fired; absent: its end is not known
	Events       []Event        `json:"events,omitempty"`       // with -v
}

// ReplayLever is a change that a run would have proposed.
type ReplayLever struct {
	State string         `json:"state"`
	Step  string         `json:"step"`           // kind, e.g. kube.scale
	With  map[string]any `json:"with,omitempty"` // parameters that are not the defaults of the kind
}

// ReplayWithout is what became of episodes that had a part in no run.
type ReplayWithout struct {
	Alert    string `json:"alert"`              // its name
	Decision string `json:"decision"`           // unmatched, no-service, suppressed or quarantined
	Playbook string `json:"playbook,omitempty"` // that matches
	Reason   string `json:"reason"`             // of the first of them
	Episodes int    `json:"episodes"`
}

// ReplayPlaybook is how a playbook would have been used.
type ReplayPlaybook struct {
	Playbook string        `json:"playbook"`
	Episodes int           `json:"episodes"`
	Runs     int           `json:"runs"`
	Proposed []ReplayCount `json:"proposed"` // first changes, by lever
	Ended    []ReplayCount `json:"ended"`    // the other runs, by their end
	People   int           `json:"people"`   // runs that ended with people
}

// ReplayCount is how often something was.
type ReplayCount struct {
	What string `json:"what"`
	Runs int    `json:"runs"`
}

// ReplayComparison is where another set of playbooks comes to something else.
type ReplayComparison struct {
	Same    int                `json:"same"` // episodes of which the same becomes
	Differs []ReplayDifference `json:"differs"`
	Runs    []ReplayRun        `json:"runs"` // of the other set
}

// ReplayDifference is an episode of which something else becomes.
type ReplayDifference struct {
	Began   time.Time `json:"began"` // the alert
	Service string    `json:"service,omitempty"`
	Alert   string    `json:"alert"`
	Was     string    `json:"was"`     // in words
	Against string    `json:"against"` // in words
}

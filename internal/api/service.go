package api

import (
	"encoding/json"
	"time"
)

// ServiceList is the answer of GET /api/v1/services.
type ServiceList struct {
	Services []Service `json:"services"`
}

// Service is one entry of the catalog.
type Service struct {
	Service   string   `json:"service"` // its name
	Namespace string   `json:"namespace"`
	Workload  Workload `json:"workload"`
	Container string   `json:"container,omitempty"`
	Engine    string   `json:"engine,omitempty"`
	Model     string   `json:"model,omitempty"`
	Endpoint  string   `json:"endpoint,omitempty"`
	Gateway   string   `json:"gateway,omitempty"` // what its requests come through
	SLOs      []SLO    `json:"slos"`
	GitOps    *GitOps  `json:"gitops,omitempty"`
	Owners    []string `json:"owners"`
	Autonomy  string   `json:"autonomy"` // the ceiling for the service

	AutonomyOf map[string]string `json:"autonomyOf,omitempty"` // in place of it, by playbook, PLAYBOOK/STATE or kind of lever

	MinReady int    `json:"minReady"`
	MaxScale int    `json:"maxScale"`
	Selector string `json:"selector,omitempty"` // label matchers of its series
	LoadTime string `json:"loadTime,omitempty"` // duration: how long a replica takes to load its model
	Recovery string `json:"recovery,omitempty"` // duration: how long its objectives must hold before a loan is returned
	Warm     *Warm  `json:"warm,omitempty"`     // the last-good revision that is kept ready beside it

	Arming *Arming `json:"arming,omitempty"` // whether Responder can act on it; only of a service that is asked for by name
}

// Arming is whether Responder can act on a service, as far as the running service knows by
// itself: rights in the cluster, series in Prometheus and the state of GPUs are not looked at.
type Arming struct {
	Armed   bool           `json:"armed"`   // a playbook acts, or asks people whether it should; false as long as something is unknown
	Unknown []string       `json:"unknown"` // what has to be known first, where a playbook could act
	Acts    []string       `json:"acts"`    // playbooks that act by themselves
	Asks    []string       `json:"asks"`    // playbooks that ask people first
	Reasons []ArmingReason `json:"reasons"` // why playbooks do not act, and why levers are held
}

// ArmingReason is why playbooks do not act on a service, or a lever of theirs is held.
type ArmingReason struct {
	Why       string   `json:"why"`
	Do        string   `json:"do"`                  // what to do about it
	Playbooks []string `json:"playbooks,omitempty"` // of which it holds; with no levers absent: of all
	Levers    []string `json:"levers,omitempty"`    // of which it holds, as PLAYBOOK/STATE
}

// Warm is a revision that is kept ready beside a service.
type Warm struct {
	Route    Workload  `json:"route"` // the object that splits the requests
	Backend  string    `json:"backend,omitempty"`
	Workload *Workload `json:"workload,omitempty"`          // whose pods serve behind the backend
	Each     float64   `json:"percentPerReplica,omitempty"` // percent of the requests that one of its replicas takes
}

// Workload names a Kubernetes object in the service's namespace.
type Workload struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// SLO is an objective of a service.
type SLO struct {
	Name      string  `json:"name"`
	Objective float64 `json:"objective"`
	Window    string  `json:"window"`              // duration
	Threshold float64 `json:"threshold,omitempty"` // seconds
	Indicator string  `json:"indicator,omitempty"` // what is measured; absent: the name
	Model     string  `json:"model,omitempty"`     // only requests of this model
	Route     string  `json:"route,omitempty"`     // only series with the label route
	By        string  `json:"by,omitempty"`        // label whose every value must meet the objective

	CustomBuckets bool `json:"customBuckets,omitempty"` // the histogram has other buckets than the engine's own
}

// GitOps is where Git holds a service's manifests.
type GitOps struct {
	Application string    `json:"application,omitempty"`
	Repository  string    `json:"repository,omitempty"`
	Branch      string    `json:"branch,omitempty"`
	Path        string    `json:"path,omitempty"`
	Object      *Workload `json:"object,omitempty"`
	Component   string    `json:"component,omitempty"`
}

// PlaybookList is the answer of GET /api/v1/playbooks.
type PlaybookList struct {
	Playbooks []Playbook `json:"playbooks"`
}

// Playbook is one playbook that is loaded.
type Playbook struct {
	Playbook    string    `json:"playbook"` // its name
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"`
	Runbook     string    `json:"runbook,omitempty"`
	Digest      string    `json:"digest"`
	Source      string    `json:"source"`
	Autonomy    string    `json:"autonomy"`           // of its levers, unless override has another for one
	Override    *Override `json:"override,omitempty"` // by the configuration, in place of what the document says
	Start       string    `json:"start"`              // the first state
	States      int       `json:"states"`             // number of them
}

// PauseList is the answer of every method on /api/v1/pauses: the pauses in force
// after it.
type PauseList struct {
	Pauses []Pause `json:"pauses"`
	Note   string  `json:"note,omitempty"` // set when no service or playbook has the name
}

// Pause is a pause in force.
type Pause struct {
	Scope    string    `json:"scope"` // global, intake, service:NAME or playbook:NAME
	Service  string    `json:"service,omitempty"`
	Playbook string    `json:"playbook,omitempty"`
	Intake   bool      `json:"intake,omitempty"` // notifications are refused
	Since    time.Time `json:"since"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
}

// LastGoodList is the answer of GET /api/v1/last-good.
type LastGoodList struct {
	Good []LastGood `json:"good"`
}

// LastGood is the value of a variable that a run last verified.
type LastGood struct {
	Service  string    `json:"service"`
	Variable string    `json:"variable"` // e.g. --max-num-seqs, replicas, image
	Value    string    `json:"value"`    // empty: it was not set
	Commit   string    `json:"commit"`   // that has the value
	Verified time.Time `json:"verified"`
	Run      string    `json:"run"`   // that verified it
	Lever    string    `json:"lever"` // its kind
}

// LeverList is the answer of GET /api/v1/ladder, and of POST
// /api/v1/ladder/promote: the levers after it.
type LeverList struct {
	Levers []TrackRecord `json:"levers"`
}

// TrackRecord is what came of one lever of a playbook on a service so far, and
// how far it may go without people.
type TrackRecord struct {
	Service  string  `json:"service"`
	Playbook string  `json:"playbook"`
	Lever    string  `json:"lever"`  // the name of its state
	Kind     string  `json:"kind"`   // e.g. kube.scale
	Level    string  `json:"level"`  // the effective autonomy
	HeldBy   []Limit `json:"heldBy"` // what holds it at that level; empty at auto

	Tried        int `json:"tried"` // the change was made
	OK           int `json:"ok"`    // verified
	Improved     int `json:"improved"`
	Ineffective  int `json:"ineffective"` // had no effect, or made it worse
	Inconclusive int `json:"inconclusive"`
	Undone       int `json:"undone"`
	Overridden   int `json:"overridden"` // a person changed the target, or stopped the run
	Refused      int `json:"refused"`    // by its plan or a guard
	Denied       int `json:"denied"`     // by a person
	WouldApply   int `json:"wouldApply"` // autonomy observe
	Recovered    int `json:"recovered"`  // of those, after which the alert recovered by itself
	Watched      int `json:"watched"`    // of those, whose alert still fires

	InARow   int       `json:"inARow"`             // verified in a row
	Since    time.Time `json:"since,omitzero"`     // the first of them
	Results  []string  `json:"results"`            // verified, improved, ineffective or inconclusive, newest last
	Last     time.Time `json:"last,omitzero"`      // the last result
	Demoted  bool      `json:"demoted"`            // because it did not help
	Changed  time.Time `json:"changed,omitzero"`   // when it was demoted, or that was lifted
	Why      string    `json:"why,omitempty"`      // of that
	Proposal string    `json:"proposal,omitempty"` // a level that a person could raise, with the figures
}

// Limit holds a lever at a level.
type Limit struct {
	Level string `json:"level"`
	Rule  string `json:"rule"`
}

// AuditPage is the answer of GET /api/v1/audit. The next page starts at from=next.
type AuditPage struct {
	Entries []Entry `json:"entries"`
	Next    uint64  `json:"next"`
	More    bool    `json:"more"` // false: the log has no further entries

	// Archived is how many entries were passed over because they are archived: whether
	// they are of the stream and kind that were asked for, their segments tell.
	Archived int `json:"archived,omitempty"`
}

// Entry is one entry of the journal.
type Entry struct {
	Seq    uint64          `json:"seq"`
	Time   time.Time       `json:"time,omitzero"`
	Stream string          `json:"stream"`
	Index  uint64          `json:"index"` // in the stream
	Kind   string          `json:"kind"`
	Data   json.RawMessage `json:"data,omitempty"` // the record as it is stored: what the log proves, and not part of the API's version

	// Archived is the segment of the archive that has the entry. Then only Seq is known.
	Archived string `json:"archived,omitempty"`
}

// Readiness is the answer of GET /readyz, with status 503 unless it is ready.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Missing []string `json:"missing"` // in words

	Refusing string `json:"refusing,omitempty"` // why no notifications are taken in, or no alert starts a run, in words; runs go on, and people decide
}

// CodeStale is the code of a decision that is refused because it is about another plan.
const CodeStale = "stale"

// Problem is the body of every answer that is not a success, as {"error": {...}}.
type Problem struct {
	Code    string `json:"code"`           // for programs
	Message string `json:"message"`        // in words, one line
	Hint    string `json:"hint,omitempty"` // what to do
}

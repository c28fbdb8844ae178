package api

import (
	"encoding/json"
	"time"
)

// RunList is the answer of GET /api/v1/runs, newest run first.
type RunList struct {
	Runs []RunSummary `json:"runs"`
	Now  time.Time    `json:"now,omitzero"` // by the service's clock, which is the sandbox's in one
}

// RunSummary is a run in one line.
type RunSummary struct {
	Run          string    `json:"run"`                    // its ID
	Status       string    `json:"status"`                 // the phase of an open run, the outcome of one that has ended, or quarantined
	Why          string    `json:"why,omitempty"`          // why it ended, is held, paused or quarantined
	Service      string    `json:"service"`                // its name in the catalog
	Playbook     string    `json:"playbook"`               // its name
	State        string    `json:"state"`                  // of the playbook
	Alert        string    `json:"alert"`                  // the name of the first alert, or who started the run
	DivertedFrom string    `json:"divertedFrom,omitempty"` // the run that handed over to this one
	Loan         string    `json:"loan,omitempty"`         // the loan that the run gives back
	LoanLever    string    `json:"loanLever,omitempty"`    // kind of lever that gives it back; absent: only a person can
	Change       string    `json:"change,omitempty"`       // of that loan, in words
	Began        time.Time `json:"began"`
	Updated      time.Time `json:"updated"`
	Ended        time.Time `json:"ended,omitzero"` // absent while the run is open
}

// RunDetail is the answer of GET /api/v1/runs/{run}, and of every request that
// starts a run or decides about one: the run after it.
type RunDetail struct {
	Run      Run    `json:"run"`
	Document string `json:"document,omitempty"` // the playbook as it was loaded, which run.digest is the digest of

	Now time.Time `json:"now,omitzero"` // by the service's clock, which is the sandbox's in one
}

// RunReport is what `responder runs show -o json` prints.
type RunReport struct {
	Run    Run     `json:"run"`
	Events []Event `json:"events"`
}

// Run is a run with everything that is known about it now.
type Run struct {
	RunSummary

	Reason     string     `json:"reason,omitempty"`     // code of why it ended
	DivertedTo string     `json:"divertedTo,omitempty"` // the playbook that it handed over to
	Digest     string     `json:"digest"`               // of the playbook's document
	Autonomy   string     `json:"autonomy"`             // the configured ceiling: observe, suggest or auto
	Override   *Override  `json:"override,omitempty"`   // of the playbook's own level, by the configuration when the run began
	StartedBy  *StartedBy `json:"startedBy,omitempty"`  // the person who started it; absent: an alert did
	Alerts     []Alert    `json:"alerts"`               // the first one started the run, unless a person did
	Truncated  bool       `json:"truncated,omitempty"`  // a notification was truncated: more alerts may belong to it

	ServiceSpec Service             `json:"serviceSpec"` // the service as the run began with it
	Path        []Visit             `json:"path"`        // the states that were entered
	Evidence    map[string]Evidence `json:"evidence"`    // the latest of each state, by its name

	Effect   *Effect   `json:"effect,omitempty"`   // what the run is doing
	Lever    *Lever    `json:"lever,omitempty"`    // of the current state
	Gate     *Gate     `json:"gate,omitempty"`     // the question that is open
	Approval *Approval `json:"approval,omitempty"` // that was given for the current state

	Waiting            *Waiting            `json:"waiting,omitempty"`            // of a wait state
	Held               *Hold               `json:"held,omitempty"`               // the outcome of a change is unknown; a person has to resolve it
	Quarantine         *Quarantine         `json:"quarantine,omitempty"`         // the run cannot be processed; a person has to release it
	Paused             string              `json:"paused,omitempty"`             // the pause that it waits for
	CancelRequested    *Decision           `json:"cancelRequested,omitempty"`    // a person asked it to stop
	ObserveOnlyOutcome *ObserveOnlyOutcome `json:"observeOnlyOutcome,omitempty"` // what became of the alert after a run that only observed

	Locks         []string `json:"locks"`                // that it holds now
	LeversApplied int      `json:"leversApplied"`        // changes made so far
	LeversKept    int      `json:"leversKept"`           // of those, kept because they helped
	LeversStay    int      `json:"leversStay,omitempty"` // of those, kept without a proof that they helped
	Loans         []Loan   `json:"loans,omitempty"`      // of those kept, owed back after recovery
	Events        uint64   `json:"events"`               // so far; the next one has this seq
	Trace         string   `json:"trace,omitempty"`      // address of the page of its trace, from its end on; absent: tracing.link is not configured
}

// StartedBy is the person who started a run by hand.
type StartedBy struct {
	By     string            `json:"by"`               // user:ada
	Reason string            `json:"reason,omitempty"` // why
	Labels map[string]string `json:"labels,omitempty"` // given in place of an alert's
}

// Alert is one alert of a run.
type Alert struct {
	Fingerprint  string            `json:"fingerprint"`
	Status       string            `json:"status"`         // firing or resolved
	Since        time.Time         `json:"since,omitzero"` // when the status last changed
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt,omitzero"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// Visit is one step of the path through the playbook.
type Visit struct {
	State string    `json:"state"`
	Visit int       `json:"visit"` // the first is 1
	Time  time.Time `json:"time"`  // when it was entered
	Edge  string    `json:"edge,omitempty"`
	To    string    `json:"to,omitempty"` // the state that followed
}

// Evidence is what a check found.
type Evidence struct {
	Time  time.Time       `json:"time"`
	Check string          `json:"check"` // its kind, e.g. slo.burn
	Data  json.RawMessage `json:"data"`
	Facts []string        `json:"facts"` // the data in words, one line each

	Unknown string `json:"unknown,omitempty"` // why the check did not answer, inside a gather; data is then absent
}

// Effect is what a run has begun and does not know the outcome of.
type Effect struct {
	Action    string    `json:"action"`             // check, plan, guard, apply, settle, verify, undo, unwind or notify
	Attempt   int       `json:"attempt"`            // the first is 1
	Time      time.Time `json:"time"`               // when it was decided
	NotBefore time.Time `json:"notBefore,omitzero"` // a retry waits until then
	ReadBack  bool      `json:"readBack,omitempty"` // it only reads what became of an earlier attempt
	Key       string    `json:"key"`                // its idempotency key
}

// Waiting is where a wait state stands.
type Waiting struct {
	Until    time.Time `json:"until"`             // its end, or its deadline
	HeldFrom time.Time `json:"heldFrom,omitzero"` // since when its condition holds
	LookedAt time.Time `json:"lookedAt,omitzero"` // when its check was last asked
	Why      string    `json:"why,omitempty"`     // the check did not answer
}

// Hold is why a run waits for a person to say what became of a change.
type Hold struct {
	Action  string    `json:"action"`
	Effect  string    `json:"effect"` // its idempotency key
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// Quarantine is why a run cannot be processed.
type Quarantine struct {
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
	Phase   string    `json:"phase"` // of the run when it was quarantined
}

// ObserveOnlyOutcome is what became of the alerts of a run that only observed.
type ObserveOnlyOutcome struct {
	Known     bool      `json:"known"`               // false: they still fire and are watched
	Until     time.Time `json:"until,omitzero"`      // how long they are watched
	Recovered bool      `json:"recovered"`           // all of them resolved in that time
	After     string    `json:"after,omitempty"`     // duration since the run's end
	ChangedBy string    `json:"changedBy,omitempty"` // another run that changed the service meanwhile
}

// Override is the autonomy that the configuration sets for a playbook, in place
// of what its document says.
type Override struct {
	Level  string            `json:"level,omitempty"`  // of all its levers; absent: as the document says
	States map[string]string `json:"states,omitempty"` // of single levers, by state
	By     string            `json:"by"`               // the setting

	OfService *Override `json:"ofService,omitempty"` // what the run's service sets, before the rest and in place of its own level
}

package api

import "time"

// Fault is one thing that is wrong with a file, where, and what to do about it.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`           // from 1; 0: the whole file
	Column  int    `json:"column"`         // from 1, in characters
	Path    string `json:"path,omitempty"` // of the field, e.g. spec.states.triage.next[0].when
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// PlaybookLint is what `responder playbook lint -o json` prints.
type PlaybookLint struct {
	Playbooks int      `json:"playbooks"` // that may be loaded
	Problems  []Fault  `json:"problems"`
	Warnings  []Fault  `json:"warnings"`            // series that nobody knows, labels and buckets that they do not have
	Unchecked []string `json:"unchecked,omitempty"` // with a Prometheus: metrics that engines export and it does not have now, so that labels and buckets could not be compared
}

// PolicyLint is what `responder policy lint -o json` prints.
type PolicyLint struct {
	Rules    int     `json:"rules"` // of the policies that may be loaded
	Problems []Fault `json:"problems"`
}

// PlaybookTest is what `responder playbook test -o json` prints.
type PlaybookTest struct {
	Cases    []PlaybookCase     `json:"cases"`
	Failed   int                `json:"failed"`             // cases and worlds
	Coverage []PlaybookCoverage `json:"coverage,omitempty"` // with --cover: of each playbook
	Worlds   []PlaybookWorld    `json:"worlds,omitempty"`   // scenarios in a simulated fleet
	Figures  *WorldFigures      `json:"figures,omitempty"`  // of all worlds
}

// PlaybookWorld is a scenario that was played in a simulated fleet. Durations count
// from its first alert.
type PlaybookWorld struct {
	Result    string        `json:"result"` // ok or failed
	Scenario  string        `json:"scenario"`
	Title     string        `json:"title"`
	Cause     string        `json:"cause,omitempty"` // of the incident; absent: there is none to name
	File      string        `json:"file"`
	Alerts    []string      `json:"alerts"` // that fired, the first one first
	Runs      []WorldRun    `json:"runs"`
	Changes   []WorldChange `json:"changes"`
	Outcome   string        `json:"outcome"`             // of the last run of the first service
	Named     bool          `json:"named"`               // people were told the cause
	Recovered string        `json:"recovered,omitempty"` // when the last bad minute ended; absent: the objectives are missed at the end
	Bad       int           `json:"badMinutes"`          // in which a service missed its objectives
	Known     string        `json:"known,omitempty"`     // what it fails in is known, and why that is accepted
	Wrong     []string      `json:"wrong,omitempty"`     // of a failed one: how it differs from what is expected
	Timeline  []WorldLine   `json:"timeline,omitempty"`  // of a failed one, and with --verbose
}

// WorldRun is a run in a simulated fleet.
type WorldRun struct {
	Playbook string   `json:"playbook"`
	Service  string   `json:"service"`
	Path     []string `json:"path"`              // states, in the order of the run
	Outcome  string   `json:"outcome"`           // or the phase of one that is open
	Returns  bool     `json:"returns,omitempty"` // whether it returns a loan
}

// WorldChange is a change in a simulated fleet.
type WorldChange struct {
	Lever   string `json:"lever"` // its kind
	After   string `json:"after"`
	Returns bool   `json:"returns,omitempty"` // whether it returns a loan
	Verdict string `json:"verdict,omitempty"`
	Undone  string `json:"undone,omitempty"` // when
}

// WorldLine is something that happened in a simulated fleet.
type WorldLine struct {
	After string `json:"after"`
	Run   string `json:"run,omitempty"` // absent: no run did it
	Text  string `json:"text"`
}

// WorldFigures are the sums over all scenarios.
type WorldFigures struct {
	Scenarios  int `json:"scenarios"`
	Causes     int `json:"causes"`     // scenarios that have a cause to name
	Named      int `json:"named"`      // of them, those whose cause people were told
	Levers     int `json:"levers"`     // scenarios with the right changes, or with none where none is right
	Harmful    int `json:"harmful"`    // harmful or needless changes
	Useless    int `json:"useless"`    // changes that did not address the cause
	TakenBack  int `json:"takenBack"`  // of them, those that were undone, given back, or are owed by an open run
	Curable    int `json:"curable"`    // scenarios that a lever or time can repair
	Recovered  int `json:"recovered"`  // of them, those that met their objectives at the end
	BadMinutes int `json:"badMinutes"` // in which a service missed its objectives
}

// PlaybookCase is one case of a test of a playbook.
type PlaybookCase struct {
	Result  string         `json:"result"` // ok or failed
	Case    string         `json:"case"`
	File    string         `json:"file"`
	Line    int            `json:"line"`
	Path    []string       `json:"path"`            // states, in the order of the run
	Steps   []PlaybookStep `json:"steps"`           // the edges that it took, and its end
	Levers  []string       `json:"levers"`          // applied, with their parameters
	Outcome string         `json:"outcome"`         // of the run; empty: it has none
	Took    string         `json:"took"`            // duration, in the time of the run
	Wrong   []string       `json:"wrong,omitempty"` // of a failed case: how it differs from what is expected
}

// PlaybookStep is an edge of a playbook that a run took. The last one leads
// nowhere: it tells how the run ended.
type PlaybookStep struct {
	After string `json:"after"` // duration since the run began
	From  string `json:"from"`
	To    string `json:"to,omitempty"`
	Why   string `json:"why"` // label, condition or signal
}

// PlaybookCoverage is what the cases of a playbook leave out.
type PlaybookCoverage struct {
	Playbook string         `json:"playbook"`
	States   int            `json:"states"`  // of the playbook
	Edges    int            `json:"edges"`   // of the playbook
	Unseen   []string       `json:"unseen"`  // states that no case entered
	Untaken  []PlaybookEdge `json:"untaken"` // edges that no case took
}

// PlaybookEdge is an edge of a playbook.
type PlaybookEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why,omitempty"` // label, condition or signal; absent: otherwise
}

// PolicyTest is what `responder policy test -o json` prints.
type PolicyTest struct {
	Cases  []PolicyCase `json:"cases"`
	Failed int          `json:"failed"`
	Unhit  []PolicyRule `json:"unhit"` // rules that made no difference in any case
}

// PolicyCase is one case of a test of a policy.
type PolicyCase struct {
	Result string `json:"result"` // ok or failed
	Case   string `json:"case"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Got    string `json:"got"`            // what the policy says
	Want   string `json:"want,omitempty"` // of a failed case
}

// PolicyRule is one rule of a policy.
type PolicyRule struct {
	Name       string   `json:"name"`
	Place      string   `json:"place"` // e.g. policy prod-freeze, policy.yaml:14
	Line       int      `json:"line"`
	Effect     string   `json:"effect"`               // e.g. deny or require_approval
	When       string   `json:"when,omitempty"`       // absent: always
	Says       string   `json:"says"`                 // the effect in a few words
	BreakGlass []string `json:"breakGlass,omitempty"` // who may approve alone, with a reason
}

// Verification is what `responder audit verify -o json` prints.
type Verification struct {
	Intact      bool        `json:"intact"`
	Origin      string      `json:"origin"` // of the journal
	Since       string      `json:"since"`  // when it was created
	Entries     uint64      `json:"entries"`
	Streams     uint64      `json:"streams"`
	Archived    uint64      `json:"archived"`           // entries of which the file has only the hash
	Segments    uint64      `json:"segments"`           // of the archive, which have their bodies by the journal
	Checkpoints uint64      `json:"checkpoints"`        // with a valid signature and the right root
	Signed      uint64      `json:"signed"`             // entries that the last of them covers
	Unsigned    uint64      `json:"unsigned"`           // entries after it: consistent, not yet signed
	Root        string      `json:"root"`               // over all entries
	Continues   bool        `json:"continues"`          // the journal continues the checkpoint that was given, or the one kept beside it
	Redacted    []Redaction `json:"redacted,omitempty"` // entries of which a text was taken out afterwards
	Overdue     string      `json:"overdue,omitempty"`  // why more entries are unsigned than time allows: then it is not intact
	Finding     *Finding    `json:"finding,omitempty"`  // the first thing that is wrong
}

// Finding is what is wrong with entries of a journal.
type Finding struct {
	Seq     uint64    `json:"seq"`  // the first of them
	Last    uint64    `json:"last"` // the last of them
	Stream  string    `json:"stream,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	Time    time.Time `json:"time,omitzero"`
	Problem string    `json:"problem"`
}

// Demo is what `responder demo -o json` prints.
type Demo struct {
	Scenario string       `json:"scenario"`
	Run      string       `json:"run"`
	Playbook string       `json:"playbook"`
	Service  string       `json:"service"`
	Outcome  string       `json:"outcome"`
	Message  string       `json:"message"`
	Levers   int          `json:"levers"` // changes applied
	Timeline []DemoMoment `json:"timeline"`
	Repair   []DemoPhase  `json:"repair"` // where the time from the incident to the end went
	Figures  []DemoFigure `json:"figures"`
	Audit    Verification `json:"audit"`
	Verified bool         `json:"verified"`          // the journal is intact, and all of it is signed
	Journal  string       `json:"journal,omitempty"` // its file; absent: it was temporary
}

// DemoMoment is one line of a demo's timeline.
type DemoMoment struct {
	At   time.Time `json:"at"` // in the simulated world
	What string    `json:"what"`
}

// DemoPhase is a part of the time to repair.
type DemoPhase struct {
	Name string `json:"name"` // detect, notify, decide, approval, act, verify or undo
	Took string `json:"took"` // duration in the simulated world
}

// DemoFigure is a measured value before the run and after it.
type DemoFigure struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit,omitempty"`
	Before *float64 `json:"before"` // null: there is no data
	After  *float64 `json:"after"`  // null: there is no data
	Target string   `json:"target,omitempty"`
}

// Incident is what `responder report RUN -o json` prints: one run for a review afterwards.
type Incident struct {
	Run      string    `json:"run"`
	Playbook string    `json:"playbook"`
	Service  string    `json:"service"`
	Alert    string    `json:"alert"`
	Source   string    `json:"source,omitempty"` // the alert's query in Prometheus
	Fired    time.Time `json:"fired,omitzero"`   // the alert; absent: a person started the run
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended,omitzero"` // absent: it has not
	Outcome  string    `json:"outcome"`
	Message  string    `json:"message,omitempty"`

	Cause        *IncidentCause `json:"cause,omitempty"`        // absent: none is known
	CauseUnknown string         `json:"causeUnknown,omitempty"` // why none is

	Phases    []IncidentPhase    `json:"phases"` // where the time from the alert to the end went
	Changes   []IncidentChange   `json:"changes"`
	Decisions []IncidentDecision `json:"decisions"`
	Timeline  []IncidentMoment   `json:"timeline"`
	Evidence  []IncidentEvidence `json:"evidence"`
	Budget    []IncidentBudget   `json:"budget"`          // of the error budget, as far as checks measured it
	Spent     []IncidentSpending `json:"spent,omitempty"` // of error budgets, in each part of the time; absent: the service could not be asked
}

// RunBudget is the answer of GET /api/v1/runs/{run}/budget.
type RunBudget struct {
	Spent []IncidentSpending `json:"spent"`
}

// IncidentSpending is what was spent of the error budget of an objective in each part of
// an incident's time, as Prometheus counts requests.
type IncidentSpending struct {
	Objective string                 `json:"objective"`
	Value     string                 `json:"value,omitempty"` // of the objective's label
	Why       string                 `json:"why,omitempty"`   // why nothing, or no share, is known
	Parts     []IncidentSpendingPart `json:"parts"`
}

// IncidentSpendingPart is one part of the time.
type IncidentSpendingPart struct {
	Name     string   `json:"name"`               // as in phases
	Requests *float64 `json:"requests,omitempty"` // that ended; absent: not known, as for a part shorter than two scrapes
	Bad      *float64 `json:"bad,omitempty"`      // of these; absent: not known, as for a part in which none ended
	Share    *float64 `json:"share,omitempty"`    // of the budget of the whole period, 1 is all of it; absent: not known
}

// IncidentCause is what a run took for the cause: the branch of the playbook that led to
// the last change that helped, else to the first change or end.
type IncidentCause struct {
	At       time.Time `json:"at"`
	State    string    `json:"state"`    // that decided
	Branch   string    `json:"branch"`   // its name in the playbook
	To       string    `json:"to"`       // the state that it led to
	Helped   bool      `json:"helped"`   // a change that it led to was verified, or improved the service
	Values   []string  `json:"values"`   // what its condition read: name = value
	Evidence []string  `json:"evidence"` // that its condition read, in words
	RuledOut []string  `json:"ruledOut"` // branches before it whose conditions were false
	Unknown  []string  `json:"unknown"`  // branches before it whose conditions could not be told, and why
}

// IncidentBudget is what a check measured of an error budget.
type IncidentBudget struct {
	At        time.Time `json:"at"`
	State     string    `json:"state"`
	Objective string    `json:"objective"` // that burned most
	Left      float64   `json:"left"`      // share that was left of it over its period, as of the last ten minutes: 1 is all of it, negative is overspent
}

// IncidentPhase is a part of an incident's time.
type IncidentPhase struct {
	Name    string  `json:"name"` // notify, decide, approval, act, verify or undo
	Seconds float64 `json:"seconds"`
}

// IncidentChange is a change that was planned.
type IncidentChange struct {
	State   string    `json:"state"`
	Lever   string    `json:"lever"`
	Summary string    `json:"summary"`
	Fields  []string  `json:"fields"`           // path: from -> to
	Applied time.Time `json:"applied,omitzero"` // absent: it was not
	Result  string    `json:"result"`
}

// IncidentDecision is a person's.
type IncidentDecision struct {
	At            time.Time `json:"at"`
	What          string    `json:"what"`
	By            string    `json:"by"`
	Channel       string    `json:"channel"`
	Reason        string    `json:"reason,omitempty"`
	WaitedSeconds float64   `json:"waitedSeconds"` // since the question; 0: it answered none
}

// IncidentMoment is a line of the timeline.
type IncidentMoment struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// IncidentEvidence is what checks found in a state.
type IncidentEvidence struct {
	State string   `json:"state"`
	Lines []string `json:"lines"`
}

// ConfigCheck is what `responder config check -o json` prints.
type ConfigCheck struct {
	File       string `json:"file"`
	Listen     string `json:"listen"`
	Autonomy   string `json:"autonomy"` // at most
	Services   int    `json:"services"` // that the file lists
	Playbooks  int    `json:"playbooks"`
	Prometheus string `json:"prometheus,omitempty"` // absent: none is configured
	Cluster    string `json:"cluster,omitempty"`    // absent: none is configured
	Discovery  bool   `json:"discovery"`            // services are found in the cluster, too

	DiscoveryNamespaces []string `json:"discoveryNamespaces,omitempty"` // where they are found; absent: everywhere

	IncidentWindow string `json:"incidentWindow,omitempty"` // incident.window; absent: 0

	Levels []string `json:"levels,omitempty"` // playbooks.autonomy: what is set in place of playbooks' own levels

	NodePools []string `json:"nodePools,omitempty"` // with their owners and labels; absent: the services' owners decide about nodes

	DefaultSLOs []string `json:"defaultSLOs"` // the objectives of services that declare none, in words
	Defaulted   []string `json:"defaulted"`   // those of the listed services, by name

	Repositories []string `json:"repositories"`     // of Git, by their addresses
	ArgoCD       string   `json:"argocd,omitempty"` // absent: none is configured
	Channels     []string `json:"channels"`
	Keep         string   `json:"keep"`              // journal.keep
	Archive      string   `json:"archive,omitempty"` // absent: nothing of the journal is archived

	Policy *ConfigPolicy  `json:"policy,omitempty"` // absent: none is configured
	Rights []RightHolders `json:"rights"`           // who may do what, about any service

	Warnings []string `json:"warnings"` // what the service warns of when it starts with it
}

// ConfigPolicy is the policy of a configuration.
type ConfigPolicy struct {
	File       string       `json:"file"`
	Rules      int          `json:"rules"`
	BreakGlass []PolicyRule `json:"breakGlass"` // rules that let some people approve alone
}

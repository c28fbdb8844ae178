package api

import "time"

// DigestPage is the answer of GET /api/v1/report: runs that began in a period, newest
// first, each in a few numbers.
type DigestPage struct {
	Since      time.Time   `json:"since"`             // runs that began then or later
	Until      time.Time   `json:"until"`             // and before this; the time of the service if the request has none. Later pages must ask with it
	Runs       []RunDigest `json:"runs"`              // newest first
	Archived   int         `json:"archived"`          // runs of the page whose events are archived, by the time in their IDs: nothing more is known of them here
	Unreadable []string    `json:"unreadable"`        // runs of the page that this version cannot read
	Next       string      `json:"next,omitempty"`    // the next page's parameter before; absent: this is the last page
	Alerts     *AlertTally `json:"alerts,omitempty"`  // only in the first page, and only without service and playbook
	Service    string      `json:"service,omitempty"` // of which the runs are; absent: of all
	Playbook   string      `json:"playbook,omitempty"`
}

// AlertTally counts the alerts that began to fire in a period. Alerts that were last
// mentioned before KnownSince are not in it.
type AlertTally struct {
	Received       int              `json:"received"`       // episodes: repeats and duplicates count once
	WithRun        int              `json:"withRun"`        // they started or joined a run
	Unmatched      int              `json:"unmatched"`      // no playbook matches them
	NoService      int              `json:"noService"`      // they belong to no service of the catalog
	Suppressed     int              `json:"suppressed"`     // something prevented a run, such as a pause
	Quarantined    int              `json:"quarantined"`    // their notification could not be processed
	Resolved       int              `json:"resolved"`       // they resolved before they could start a run
	KnownSince     time.Time        `json:"knownSince"`     // alerts that were last mentioned before are forgotten; of alerts without a run, only the most recent are kept
	UnmatchedNames []UnmatchedAlert `json:"unmatchedNames"` // the most frequent first
	MoreUnmatched  bool             `json:"moreUnmatched"`  // there are more unmatched alerts than were looked at for their names
}

// UnmatchedAlert is a name of alerts that no playbook matches.
type UnmatchedAlert struct {
	Alert    string `json:"alert"`             // empty: the notifications are archived
	Count    int    `json:"count"`             // alerts
	Nearest  string `json:"nearest,omitempty"` // the playbook with the fewest matchers that fail; absent: none is close
	Mismatch string `json:"mismatch,omitempty"`
}

// RunDigest is one run in the numbers of a report over a period.
type RunDigest struct {
	Run          string          `json:"run"`
	Service      string          `json:"service"`
	Playbook     string          `json:"playbook"`
	Alert        string          `json:"alert"`  // the name of the first alert, or who started the run
	Alerts       int             `json:"alerts"` // that the run remembers
	Began        time.Time       `json:"began"`
	Ended        time.Time       `json:"ended,omitzero"` // absent: it has not
	Status       string          `json:"status"`         // as of RunSummary
	Why          string          `json:"why,omitempty"`
	Became       string          `json:"became"`                 // responder, itself, people, nothing-to-do, observed, diverted, loan-return or open
	DivertedFrom string          `json:"divertedFrom,omitempty"` // the run that handed over to this one
	Cause        string          `json:"cause,omitempty"`        // the branch that led to the change that helped, else to the first change or end
	Phases       []IncidentPhase `json:"phases"`                 // where the time went; of a run that another handed over, without the time before
	Changes      []DigestChange  `json:"changes"`
	Attention    []string        `json:"attention"` // why people should look at the run; empty: they need not
}

// DigestChange is a change that a run planned, or that its lever refused to plan.
type DigestChange struct {
	Lever         string  `json:"lever"`                   // kind, e.g. kube.scale
	State         string  `json:"state"`                   // of the playbook
	Planned       bool    `json:"planned"`                 // there was a plan; false: the lever refused to make one
	Question      string  `json:"question,omitempty"`      // what came of the question to people: approved, denied, expired, withdrawn, void or open; absent: nobody was asked
	WaitedSeconds float64 `json:"waitedSeconds,omitempty"` // for people, over all questions about it
	Applied       bool    `json:"applied"`
	Verdict       string  `json:"verdict,omitempty"` // verified, improved, no_effect, worse or inconclusive; refused by a guard or the lever; declined: its pull request was closed; would-apply: autonomy observe. Absent: it was not judged
	Undone        bool    `json:"undone"`
}

// PeriodReport is what `responder report --since -o json` prints.
type PeriodReport struct {
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Service  string    `json:"service,omitempty"` // of which the runs are; absent: of all
	Playbook string    `json:"playbook,omitempty"`

	Alerts       *AlertTally      `json:"alerts,omitempty"` // absent: only the runs of a service or a playbook were asked for
	Runs         PeriodRuns       `json:"runs"`
	Changes      PeriodChanges    `json:"changes"`
	Services     []PeriodGroup    `json:"services"`     // most runs first
	Playbooks    []PeriodGroup    `json:"playbooks"`    // most runs first
	Levers       []PeriodLever    `json:"levers"`       // most changes first
	Repair       []PeriodPhase    `json:"repair"`       // of the runs that Responder resolved: where the time from the alert to the end went
	Autonomy     []PeriodAutonomy `json:"autonomy"`     // what waiting for approvals cost, and what it protected from; most waited first
	Causes       []PeriodCause    `json:"causes"`       // most runs first
	LookAt       []PeriodLook     `json:"lookAt"`       // runs that people should look at, newest first
	Archived     int              `json:"archived"`     // runs of the period that are archived and in none of the numbers
	Unreadable   []string         `json:"unreadable"`   // runs of the period that this version cannot read, and in none of the numbers
	AlertsInRuns int              `json:"alertsInRuns"` // alerts that the runs remember
}

// PeriodRuns counts runs by what became of them. The parts add up to the total.
type PeriodRuns struct {
	Total       int `json:"total"`
	Responder   int `json:"responder"`   // ended resolved, after a change that helped
	Itself      int `json:"itself"`      // the alert resolved without a change of Responder that is known to have helped
	People      int `json:"people"`      // people took over, stopped or released it
	NothingToDo int `json:"nothingToDo"` // the playbook found nothing to do
	Observed    int `json:"observed"`    // autonomy observe, and the alert is not known to have resolved without a change
	Diverted    int `json:"diverted"`    // handed to another playbook, whose run counts by itself
	LoanReturns int `json:"loanReturns"` // gave back what an earlier run had lent: no incidents
	Open        int `json:"open"`
}

// PeriodChanges counts changes.
type PeriodChanges struct {
	Proposed int `json:"proposed"` // planned
	Approved int `json:"approved"` // by people
	Denied   int `json:"denied"`
	Expired  int `json:"expired"` // nobody decided in time
	Applied  int `json:"applied"`
	Undone   int `json:"undone"` // of those
}

// PeriodGroup counts the runs of a service or a playbook.
type PeriodGroup struct {
	Name          string   `json:"name"`
	Runs          int      `json:"runs"`
	Responder     int      `json:"responder"`
	Itself        int      `json:"itself"`
	People        int      `json:"people"`
	Open          int      `json:"open"`
	Other         int      `json:"other"` // everything else of PeriodRuns
	Applied       int      `json:"applied"`
	Verified      int      `json:"verified"`                // of those
	Undone        int      `json:"undone"`                  // of those
	MedianSeconds *float64 `json:"medianSeconds,omitempty"` // from the alert to the end of the runs that Responder resolved; absent: it resolved none
}

// PeriodLever counts the changes of a kind of lever. The verdicts, refused, unjudged and not
// applied add up to the changes.
type PeriodLever struct {
	Lever        string `json:"lever"`
	Changes      int    `json:"changes"`
	Verified     int    `json:"verified"`
	Improved     int    `json:"improved"`
	NoEffect     int    `json:"noEffect"`
	Worse        int    `json:"worse"`
	Inconclusive int    `json:"inconclusive"`
	Refused      int    `json:"refused"`    // by a guard or the lever itself; nothing was changed
	Unjudged     int    `json:"unjudged"`   // applied, and without a verdict: under way, or ended before its proof
	NotApplied   int    `json:"notApplied"` // denied, expired, withdrawn, declined, only observed, or not decided yet
	Undone       int    `json:"undone"`     // of the changes
}

// PeriodPhase is a part of the time to repair, over the runs in which it occurred.
type PeriodPhase struct {
	Name          string  `json:"name"` // of IncidentPhase, or total
	Runs          int     `json:"runs"`
	MedianSeconds float64 `json:"medianSeconds"`
	P90Seconds    float64 `json:"p90Seconds"`
}

// PeriodAutonomy is what asking people about a kind of lever cost, and what it protected from.
type PeriodAutonomy struct {
	Lever         string  `json:"lever"`
	Approved      int     `json:"approved"`      // approved by people and applied
	Verified      int     `json:"verified"`      // of those
	WaitedSeconds float64 `json:"waitedSeconds"` // that the questions about the verified ones waited
	NotVerified   int     `json:"notVerified"`   // of those approved: every other verdict, and none
	Worse         int     `json:"worse"`         // of those
	Denied        int     `json:"denied"`        // people said no: with a higher autonomy it would have been applied
}

// PeriodCause is a branch of a playbook that runs took.
type PeriodCause struct {
	Cause    string `json:"cause"`
	Playbook string `json:"playbook"`
	Runs     int    `json:"runs"`
	Resolved int    `json:"resolved"` // of those, by Responder
}

// PeriodLook is a run that people should look at.
type PeriodLook struct {
	Run     string    `json:"run"`
	Service string    `json:"service"`
	Began   time.Time `json:"began"`
	Status  string    `json:"status"`
	Why     []string  `json:"why"`
}

// ReportPreview is the answer of GET /api/v1/report/preview: the summary of a report of the
// configuration as it would be sent with what is known now.
type ReportPreview struct {
	Name  string    `json:"name"`
	To    []string  `json:"to"`    // channels
	Since time.Time `json:"since"` // runs that began then or later
	Until time.Time `json:"until"` // and before this, when the report is due; not after now: it is late, and sent next
	Now   time.Time `json:"now"`   // until when the preview knows what happened
	Text  string    `json:"text"`  // empty: none would be sent, because no run began in the period and skip_empty is set
}

package machine

import (
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Consent is what guards, policy and people said of the current state: of its
// lever, or of a gate that is a state of its own. Without it no lever applies
// and no gate is left by a yes.
type Consent struct {
	Guards    []GuardVerdict `json:"guards,omitempty"`
	Terms     *Terms         `json:"terms,omitempty"`    // what the policy demands, as the guards last answered
	WaitUntil time.Time      `json:"waitUntil,omitzero"` // while guards let it wait: when that ends
	FirstAsk  time.Time      `json:"firstAsk,omitzero"`  // when people were first asked on this visit: they look at the evidence since
	AskedAt   time.Time      `json:"askedAt,omitzero"`   // when the last question was opened
	Approved  *Decision      `json:"approved,omitempty"` // of the digest in it: the one that completed what is needed
	Votes     []Decision     `json:"votes,omitempty"`    // all approvals of that question, Approved last
	GoodUntil time.Time      `json:"goodUntil,omitzero"` // of the approval; later people are asked again
}

// Terms are what the platform team's policy demands of a lever or gate, at the
// moment its guards are asked. They can only tighten what the playbook says.
type Terms struct {
	Policy     string        `json:"policy,omitempty"`     // digest of the policy in force; empty: none is configured
	Cap        *Cap          `json:"cap,omitempty"`        // highest autonomy allowed; nil: no rule says
	Needs      []Need        `json:"needs,omitempty"`      // every one has to be met before the lever applies
	Within     time.Duration `json:"within,omitempty"`     // time people have, if a rule shortens it; 0: the playbook's
	Remind     time.Duration `json:"remind,omitempty"`     // after the gate opened, once; 0: no reminder
	Tiers      []Tier        `json:"tiers,omitempty"`      // who else is told while nobody decides, in order of time
	BreakGlass []string      `json:"breakGlass,omitempty"` // user:... and group:... who may approve alone, with a reason
	GlassOwn   bool          `json:"glassOwn,omitempty"`   // they may do so also for a run that they asked for themselves
	Merge      *Merger       `json:"merge,omitempty"`      // who merges the pull request of the change; nil: no rule says, so people do
}

// Merger is who merges a pull request, as a rule says.
type Merger struct {
	By   MergeBy `json:"by"`
	Rule string  `json:"rule"` // as people find it: "policy canary, policy.yaml:14"
}

// MergeBy is one who merges.
type MergeBy string

// Who merges.
const (
	MergePeople    MergeBy = "people"
	MergeResponder MergeBy = "responder" // as soon as no review or check that the forge requires is missing
)

// MergeBy is who merges a pull request of the current lever: people, unless the
// policy says otherwise.
func (s State) MergeBy() MergeBy {
	if m := s.terms().Merge; m != nil && m.By == MergeResponder {
		return MergeResponder
	}
	return MergePeople
}

// Cap is the highest autonomy a rule allows.
type Cap struct {
	Level playbook.Autonomy `json:"level"`
	Rule  string            `json:"rule"` // as people find it: "policy canary, policy.yaml:14", or the ladder's word
}

// Awaits says which merge the run waits for, and until when; empty: for none.
func (s State) Awaits() (what string, until time.Time) {
	l := s.Lever
	if l == nil || l.Waits == "" || s.Phase != PhaseSettling && s.Phase != PhaseUnwinding {
		return "", time.Time{}
	}
	what = "the merge of " + l.Waits + " by " + string(s.MergeBy())
	if _, more, found := strings.Cut(l.Message, l.Waits); found {
		if _, needs, found := strings.Cut(more, ": "); found {
			what += ": " + needs
		}
	}
	return what, l.Deadline
}

// Need is one demand for approval: so many distinct people of a set.
type Need struct {
	Rule   string   `json:"rule"`             // who asks: "policy two-for-high, policy.yaml:14", "playbook bad-rollout, state rollback"
	From   []string `json:"from"`             // user:..., group:..., service.owners
	Quorum int      `json:"quorum"`           // distinct people, at least 1
	Strong bool     `json:"strong,omitempty"` // counts only through a door that authenticates strongly
}

// Tier is an escalation of an open gate: who is told, and when.
type Tier struct {
	After time.Duration `json:"after"` // from the gate's opening
	To    []string      `json:"to"`    // channels by their configured names
}

// Gate is an open question to people.
type Gate struct {
	ID       string          `json:"id"`               // run/state#visit/gate#n
	Digest   string          `json:"digest,omitempty"` // of the plan asked about; empty for a gate state
	Opened   time.Time       `json:"opened"`
	Deadline time.Time       `json:"deadline"`
	OnExpiry playbook.Expiry `json:"onExpiry"`
	Text     string          `json:"text,omitempty"`

	Needs      []Need   `json:"needs"`                // every one has to be met; service.owners is replaced by their names
	BreakGlass []string `json:"breakGlass,omitempty"` // user:... and group:... who may approve alone, with a reason
	NotBy      string   `json:"notBy,omitempty"`      // who asked for the run: their own yes does not count
	GlassOwn   bool     `json:"glassOwn,omitempty"`   // but they may break the glass, if they are among BreakGlass

	RemindAt time.Time `json:"remindAt,omitzero"` // zero: people are not reminded
	Reminded bool      `json:"reminded,omitempty"`
	Tiers    []Tier    `json:"tiers,omitempty"` // in order of time
	Told     int       `json:"told,omitempty"`  // of Tiers, those escalated to so far

	Votes []Decision `json:"votes,omitempty"` // approvals that count so far; they die with the gate
}

// Decision is what a person decided, through whichever door.
type Decision struct {
	Gate       string   `json:"gate,omitempty"`   // empty: the one that is open
	Digest     string   `json:"digest,omitempty"` // the plan the person saw; must match when given
	Approve    bool     `json:"approve"`
	By         string   `json:"by"` // user:ada
	Groups     []string `json:"groups,omitempty"`
	Door       string   `json:"door"`                 // cli, api, slack, web, demo
	Strong     bool     `json:"strong,omitempty"`     // the door authenticates strongly
	BreakGlass bool     `json:"breakGlass,omitempty"` // approves alone, past the needs; takes a reason
	Reason     string   `json:"reason,omitempty"`
}

package machine

import (
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Consent holds the answers of guards, policy and people about the current
// state: its lever, or the gate that is the state. Without it no lever is
// applied and no gate is left with an approval.
type Consent struct {
	Guards    []GuardVerdict `json:"guards,omitempty"`
	Terms     *Terms         `json:"terms,omitempty"`    // the policy's demands, as the guards last answered
	WaitFrom  time.Time      `json:"waitFrom,omitzero"`  // beginning of the wait, while guards let it wait
	WaitUntil time.Time      `json:"waitUntil,omitzero"` // its end
	WaitTold  bool           `json:"waitTold,omitempty"` // people were told of the wait
	FirstAsk  time.Time      `json:"firstAsk,omitzero"`  // when people were first asked on this visit, with the evidence of then
	AskedAt   time.Time      `json:"askedAt,omitzero"`   // when the last question was opened
	Approved  *Decision      `json:"approved,omitempty"` // of its digest: the one that completed the needs
	Votes     []Decision     `json:"votes,omitempty"`    // all approvals of that question, Approved last
	GoodUntil time.Time      `json:"goodUntil,omitzero"` // of the approval; later people are asked again
}

// Terms are the policy's demands for a lever or gate when its guards are
// evaluated. They can only tighten the playbook.
type Terms struct {
	Policy     string        `json:"policy,omitempty"`     // digest of the policy in force; empty: none is configured
	Cap        *Cap          `json:"cap,omitempty"`        // highest autonomy allowed; nil: not limited
	Needs      []Need        `json:"needs,omitempty"`      // all must be met before the lever is applied
	Within     time.Duration `json:"within,omitempty"`     // deadline, if a rule shortens it; 0: that of the playbook
	Remind     time.Duration `json:"remind,omitempty"`     // after the gate opened, once; 0: no reminder
	Tiers      []Tier        `json:"tiers,omitempty"`      // further channels to notify while nobody decides, in order of time
	BreakGlass []string      `json:"breakGlass,omitempty"` // user:... and group:... who may approve alone, with a reason
	GlassOwn   bool          `json:"glassOwn,omitempty"`   // they may also do so for a run they started
	Approvers  []string      `json:"approvers,omitempty"`  // user:... and group:... whom a playbook may name beside the owners
	Merge      *Merger       `json:"merge,omitempty"`      // who merges the pull request of the change; nil: people
}

// Merger is who merges a pull request, by a rule.
type Merger struct {
	By   MergeBy `json:"by"`
	Rule string  `json:"rule"` // for people: "policy canary, policy.yaml:14"
}

// MergeBy is who merges.
type MergeBy string

// The values of MergeBy.
const (
	MergePeople    MergeBy = "people"
	MergeResponder MergeBy = "responder" // as soon as no review or check that the forge requires is missing
)

// MergeBy returns who merges a pull request of the current lever: people,
// unless the policy sets otherwise.
func (s State) MergeBy() MergeBy {
	if m := s.terms().Merge; m != nil && m.By == MergeResponder {
		return MergeResponder
	}
	return MergePeople
}

// Cap is the highest autonomy that a rule allows.
type Cap struct {
	Level playbook.Autonomy `json:"level"`
	Rule  string            `json:"rule"` // for people: "policy canary, policy.yaml:14", or the track record

	// Touched is set if the cap is that of something else that the lever touches.
	Touched bool `json:"touched,omitempty"`
}

// Awaits returns the merge that the run waits for, and until when; empty: none.
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

// Need is one demand for approval: a number of distinct people of a set.
type Need struct {
	Rule   string   `json:"rule"`             // origin: "policy two-for-high, policy.yaml:14", "playbook bad-rollout, state rollback"
	From   []string `json:"from"`             // user:..., group:..., service.owners, node.owners
	Among  []string `json:"among,omitempty"`  // they also have to be among these: owners, of whom a playbook names some; empty: all of From count
	As     string   `json:"as,omitempty"`     // what they are asked as, if that does not follow from the names: "owners of node pool h100"
	Quorum int      `json:"quorum"`           // distinct people, at least 1
	Strong bool     `json:"strong,omitempty"` // counts only decisions with strong authentication
	For    []string `json:"for,omitempty"`    // services that it speaks for: of a lever that acts on several; empty: the run's own

	// Unknown is the expression of the quorum where no run has evaluated it, which
	// a run does before it asks. Nothing meets such a need. It is never stored.
	Unknown string `json:"-"`
}

// Tier is an escalation of an open gate: which channels are notified, and when.
type Tier struct {
	After time.Duration `json:"after"` // from the gate's opening
	To    []string      `json:"to"`    // channels by their configured names
}

// Gate is an open question to people.
type Gate struct {
	ID       string          `json:"id"`               // run/state#visit/gate#n
	Digest   string          `json:"digest,omitempty"` // of the plan in question; empty for a gate state
	Opened   time.Time       `json:"opened"`
	Deadline time.Time       `json:"deadline"`
	OnExpiry playbook.Expiry `json:"onExpiry"`
	Text     string          `json:"text,omitempty"`

	// Undo marks the question whether an unproven change is taken back: approve
	// takes it back, deny keeps it, and Unanswered happens if nobody decides.
	Undo       bool        `json:"undo,omitempty"`
	Unanswered Consequence `json:"unanswered,omitempty"`

	// Follows is what will become of the change in question, by the verdict of
	// its proof.
	Follows []FateLine `json:"follows,omitempty"`

	Needs      []Need   `json:"needs"`                // all must be met; service.owners and node.owners are replaced by the owners' names
	BreakGlass []string `json:"breakGlass,omitempty"` // user:... and group:... who may approve alone, with a reason
	NotBy      string   `json:"notBy,omitempty"`      // who started the run: their own approval does not count
	GlassOwn   bool     `json:"glassOwn,omitempty"`   // but they may break the glass, if they are in BreakGlass

	RemindAt time.Time `json:"remindAt,omitzero"` // zero: people are not reminded
	Reminded bool      `json:"reminded,omitempty"`
	Tiers    []Tier    `json:"tiers,omitempty"` // in order of time
	Told     int       `json:"told,omitempty"`  // number of Tiers that were notified

	Votes []Decision `json:"votes,omitempty"` // approvals that count so far; closing the gate discards them
}

// Decision is a person's decision, through any channel.
type Decision struct {
	Gate       string   `json:"gate,omitempty"`   // empty: the open one
	Digest     string   `json:"digest,omitempty"` // the plan the person saw; must match if set
	Approve    bool     `json:"approve"`
	By         string   `json:"by"` // user:ada
	Groups     []string `json:"groups,omitempty"`
	Person     bool     `json:"person,omitempty"`     // the configuration declares whose credential it is, so it is nobody's second one
	Channel    string   `json:"door"`                 // api, slack, web; sandbox: in a name that nobody proved
	Strong     bool     `json:"strong,omitempty"`     // the channel has strong authentication
	BreakGlass bool     `json:"breakGlass,omitempty"` // approves alone, bypassing the needs; requires a reason
	Reason     string   `json:"reason,omitempty"`

	// Lacks lists the services, of those that the lever acts on, about which the person
	// lacks the right to approve. A need that speaks for one of them does not count it.
	Lacks []string `json:"lacks,omitempty"`
}

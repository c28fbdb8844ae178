package api

import "time"

// Gate is a question to people.
type Gate struct {
	Gate       string     `json:"gate"`             // its ID, which a decision may name
	Digest     string     `json:"digest,omitempty"` // of the plan that it is about
	Opened     time.Time  `json:"opened"`
	Deadline   time.Time  `json:"deadline"`
	OnExpiry   string     `json:"onExpiry"`             // what follows when nobody decides in time
	TakeBack   bool       `json:"takeBack,omitempty"`   // it asks whether an unproven change is taken back: approve does, deny keeps it
	Unanswered string     `json:"unanswered,omitempty"` // of that question: keep or undo when nobody decides
	Follows    []Follow   `json:"follows,omitempty"`    // what will become of the change in question, by the verdict of its proof
	Text       string     `json:"text,omitempty"`
	Needs      []Need     `json:"needs"`                // every one has to be met
	BreakGlass []string   `json:"breakGlass,omitempty"` // who may approve alone, with a reason
	NotBy      string     `json:"notBy,omitempty"`      // who asked for the run and cannot approve it
	GlassOwn   bool       `json:"glassOwn,omitempty"`   // but may break the glass
	RemindAt   time.Time  `json:"remindAt,omitzero"`
	Reminded   bool       `json:"reminded,omitempty"`
	Tiers      []Tier     `json:"tiers,omitempty"` // who is told while nobody decides
	Told       int        `json:"told,omitempty"`  // tiers told so far
	Votes      []Decision `json:"votes"`           // approvals that count so far
}

// Follow is what will become of a change by one verdict.
type Follow struct {
	Verdict string `json:"verdict"` // verified, improved, no_effect, worse or inconclusive
	Text    string `json:"text"`
}

// Need is one approval that a gate needs.
type Need struct {
	Rule   string   `json:"rule"`            // that asks for it
	From   []string `json:"from"`            // user:... and group:...
	Among  []string `json:"among,omitempty"` // they also have to be among these, e.g. the owners
	As     string   `json:"as,omitempty"`    // what they are asked as, e.g. owners of node pool h100
	Quorum int      `json:"quorum"`
	Strong bool     `json:"strong,omitempty"` // only with strong authentication
	For    []string `json:"for,omitempty"`    // services that it speaks for, of a lever that acts on several

	Unknown string `json:"unknown,omitempty"` // the playbook's expression for the quorum, which no run has evaluated
}

// Tier is who is told when nobody has decided for some time.
type Tier struct {
	After string   `json:"after"` // duration since the gate was opened
	To    []string `json:"to"`    // channels
}

// Decision is what a person decided.
type Decision struct {
	Gate       string   `json:"gate,omitempty"`
	Digest     string   `json:"digest,omitempty"` // of the plan that the person saw
	Approve    bool     `json:"approve"`
	By         string   `json:"by"` // user:ada
	Groups     []string `json:"groups,omitempty"`
	Person     bool     `json:"person,omitempty"` // the configuration declares whose credential it is
	Channel    string   `json:"channel"`          // api, slack, web or demo
	Strong     bool     `json:"strong,omitempty"`
	BreakGlass bool     `json:"breakGlass,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Lacks      []string `json:"lacks,omitempty"` // services of the lever about which the person lacks the right to approve
}

// Approval is the approval of the current state's question.
type Approval struct {
	Approved  *Decision  `json:"approved,omitempty"` // the one that completed it
	Votes     []Decision `json:"votes"`              // all of them
	GoodUntil time.Time  `json:"goodUntil,omitzero"` // then people are asked again
}

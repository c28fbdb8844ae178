package slack

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

// State is the state of an approval, as people read it.
type State string

// The states of an approval.
const (
	Open      State = "open"      // people may decide
	Approved  State = "approved"  // every demand for approval is met
	Denied    State = "denied"    // one person denied
	Expired   State = "expired"   // the deadline passed without a decision
	Withdrawn State = "withdrawn" // nothing is left to decide: the alert resolved or the run was stopped
	Voided    State = "voided"    // the world changed; a new plan follows
)

// Approval is the one message of a gate: what is broken, the evidence, what
// exactly will change, and what happens if the change does not help. All texts
// come from outside and are neutralised here. Empty fields are left out.
type Approval struct {
	ID    string // opaque identifier of the gate: 8 to 64 letters, digits, - and _
	Title string // the question: "roll back deployment llm/chat-api to revision 41"
	Link  string // the run's page; may be empty

	Service     string
	Environment string
	Alert       string
	Playbook    string
	Step        string        // the playbook's state
	Since       time.Time     // when the episode began
	Burning     time.Duration // duration of the burn at the time of rendering
	Budget      *Budget       // nil: unknown

	Evidence     []string // one line each, in the order in which it was gathered
	Plan         Plan
	Capacity     string
	Risk         string
	Guards       []string
	Verification []string
	Undo         []string // what follows from each verdict of the proof, and how it is taken back
	Deadline     time.Time
	Expiry       string // what happens at the deadline: "the run ends, nothing is changed"

	Needs           []Need
	OfferBreakGlass bool // show the button; permission is checked elsewhere

	State   State
	Outcome *Outcome // nil while open
	Notes   []string // later events: "approval void: replicas changed from 4 to 6"
}

// Budget is the service's error budget.
type Budget struct {
	Left    float64   // remaining share: 1 is all of it, negative is overspent
	Burn    float64   // burn rate: 1 uses the budget up exactly by the end of its window; 0: unknown
	RunsOut time.Time // at this rate; zero: never
}

// Need is one demand for approval and the votes it has.
type Need struct {
	Rule   string   // origin of the demand: "policy two-for-high, policy.yaml:14"
	From   []string // who may approve
	As     string   // what they are asked as; may be empty
	Quorum int      // how many approvals it needs
	By     []string // who approved
	Strong bool     // counts only with strong authentication, so not through this message
}

// Outcome is how a gate ended.
type Outcome struct {
	Who        []string // identities, not display names; empty: nobody
	At         time.Time
	Why        string
	Channel    string // "slack", "cli", "api"
	BreakGlass bool   // one person approved alone, as an exception
}

// Message renders the approval in its current state. Only an open approval has
// buttons.
func (a Approval) Message() Message {
	blocks := []slack.Block{header(a.heading())}
	blocks = append(blocks, a.banner()...)
	blocks = append(blocks, table(a.facts())...)
	blocks = append(blocks, titled("Why", a.Evidence, 1300)...)
	blocks = append(blocks, a.Plan.blocks(a.Link)...)
	blocks = append(blocks, titled("Guards", a.Guards, 450)...)
	if len(a.Verification) > 0 {
		blocks = append(blocks, small(marked("*Verified by*")), section(plain(proof(a.Verification, 450))))
	}
	blocks = append(blocks, titled("What will follow", a.Undo, 700)...)
	blocks = append(blocks, a.demands()...)
	blocks = append(blocks, titled("Since then", a.Notes, 400)...)
	if a.State == Open {
		blocks = append(blocks, a.buttons(true))
	}
	if f := a.footer(); f != "" {
		blocks = append(blocks, small(marked(f)))
	}
	return Message{text: a.fallback(), blocks: blocks}
}

func (a Approval) heading() string {
	words := map[State]string{
		Open: "Approval needed", Approved: "Approved", Denied: "Denied",
		Expired: "Expired", Withdrawn: "Withdrawn", Voided: "Plan voided",
	}[a.State]
	if words == "" {
		words = string(a.State)
	}
	if a.Outcome != nil && a.Outcome.BreakGlass {
		words = "BREAK-GLASS: " + words
	}
	return words + ": " + a.Title
}

// footer links to the run's page and shows enough of the digest to compare.
func (a Approval) footer() string {
	var parts []string
	if a.Link != "" {
		parts = append(parts, link(a.Link, "Open the run"))
	}
	if a.Plan.Digest != "" {
		parts = append(parts, "plan "+code(short(a.Plan.Digest), 24))
	}
	return strings.Join(parts, "  ·  ")
}

// fallback returns the text of notifications and screen readers.
func (a Approval) fallback() string {
	s := line(a.heading(), 400)
	if a.Service != "" {
		s = line(a.Service, 100) + " · " + s
	}
	if o := a.Outcome; o != nil && len(o.Who) > 0 {
		s += " (" + line(strings.Join(o.Who, ", "), 200) + ")"
	}
	return s
}

// banner states at the top of the message how the gate ended.
func (a Approval) banner() []slack.Block {
	o := a.Outcome
	if o == nil {
		return nil
	}
	s := "*" + line(string(a.State), 40) + "*"
	if o.BreakGlass {
		s = ":rotating_light: *BREAK-GLASS* · " + s + " without the required approvals"
	}
	if len(o.Who) > 0 {
		s += " by " + codes(o.Who, 200)
	}
	if !o.At.IsZero() {
		s += " · " + when(o.At)
	}
	if o.Channel != "" {
		s += " · through " + code(o.Channel, 20)
	}
	blocks := []slack.Block{section(marked(s))}
	if o.Why != "" {
		blocks = append(blocks, section(plain("Reason: "+line(o.Why, 500))))
	}
	return blocks
}

func (a Approval) facts() [][2]string {
	service := code(a.Service, 80)
	if a.Environment != "" {
		service += " in " + code(a.Environment, 40)
	}
	pairs := [][2]string{{"Service", service}}
	if a.Alert != "" {
		pairs = append(pairs, [2]string{"Alert", code(a.Alert, 80)})
	}
	if !a.Since.IsZero() {
		pairs = append(pairs, [2]string{"Burning for", lasting(a.Burning) + ", since " + when(a.Since)})
	}
	pairs = append(pairs, [2]string{"Error budget", a.Budget.words()})
	if a.Risk != "" {
		pairs = append(pairs, [2]string{"Risk", code(a.Risk, 60)})
	}
	if a.Capacity != "" {
		pairs = append(pairs, [2]string{"Ready replicas", code(a.Capacity, 180)})
	}
	if a.Playbook != "" {
		pairs = append(pairs, [2]string{"Playbook", code(strings.Trim(a.Playbook+" / "+a.Step, " /"), 120)})
	}
	if a.State == Open && !a.Deadline.IsZero() {
		s := when(a.Deadline)
		if a.Expiry != "" {
			s += ", then " + code(a.Expiry, 120)
		}
		pairs = append(pairs, [2]string{"Decide until", s})
	}
	return pairs
}

func (b *Budget) words() string {
	if b == nil {
		return ""
	}
	s := fmt.Sprintf("%.1f %% left", 100*b.Left)
	if b.Left < 0 {
		s = fmt.Sprintf("overspent by %.1f %%", -100*b.Left)
	}
	if b.Burn > 0 {
		s += fmt.Sprintf(", burning %.3g times too fast", b.Burn)
	}
	if !b.RunsOut.IsZero() && b.Left > 0 {
		s += ", gone " + when(b.RunsOut)
	}
	return s
}

// demands shows who must approve and who has: "1 of 2 (ada)".
func (a Approval) demands() []slack.Block {
	if len(a.Needs) == 0 {
		return nil
	}
	const limit = 900
	var b strings.Builder
	b.WriteString("*Approvals*")
	for i, n := range a.Needs {
		l := "\n" + n.words()
		if size(b.String())+size(l) > limit {
			fmt.Fprintf(&b, "\n… %d more demands", len(a.Needs)-i)
			break
		}
		b.WriteString(l)
	}
	return []slack.Block{section(marked(b.String()))}
}

func (n Need) words() string {
	s := fmt.Sprintf("%d of %d", len(n.By), max(n.Quorum, 1))
	if len(n.By) > 0 {
		s += " (" + codes(n.By, 200) + ")"
	}
	if len(n.From) > 0 {
		s += " from " + codes(n.From, 200)
	}
	if n.As != "" {
		s += ", " + code(n.As, 160)
	}
	if n.Rule != "" {
		s += " · " + code(n.Rule, 160)
	}
	if n.Strong {
		s += " · needs strong authentication: approve on the command line"
	}
	return s
}

// buttons returns the possible answers. The details dialog shows them without
// its own button.
func (a Approval) buttons(details bool) slack.Block {
	// A demand for strong authentication cannot be met in Slack. A person may
	// still deny, and another demand may count this vote.
	elements := []slack.BlockElement{}
	if len(a.Needs) == 0 || slices.ContainsFunc(a.Needs, func(n Need) bool { return !n.Strong }) {
		elements = append(elements, button(KindApprove, "Approve", a.ID, slack.StylePrimary))
	}
	elements = append(elements, button(KindDeny, "Deny", a.ID, slack.StyleDanger))
	if a.Plan.Digest != "" { // a gate state has no plan
		elements = append(elements, button(KindReplan, "Re-plan", a.ID, ""))
	}
	if details {
		elements = append(elements, button(KindDetails, "Details", a.ID, ""))
	}
	if a.OfferBreakGlass {
		elements = append(elements, button(KindBreakGlass, "Break glass", a.ID, slack.StyleDanger))
	}
	return slack.NewActionBlock("", elements...)
}

// short returns a prefix of the digest that is long enough for a person to
// compare.
func short(digest string) string {
	if _, hex, ok := strings.Cut(digest, ":"); ok {
		digest = hex
	}
	return digest[:min(len(digest), 12)]
}

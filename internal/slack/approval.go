package slack

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

// State is where an approval stands. The words are what people read.
type State string

// The states.
const (
	Open      State = "open"      // people may decide
	Approved  State = "approved"  // enough people said yes
	Denied    State = "denied"    // somebody said no
	Expired   State = "expired"   // nobody decided in time
	Withdrawn State = "withdrawn" // nothing left to decide, as the alert resolved or the run was stopped
	Voided    State = "voided"    // the world changed; a new plan follows
)

// Approval is the one message of a gate: what is broken, why we think so, what
// exactly will change, and what happens if it does not help. Every text is
// from outside and neutralised here; empty fields are left out.
type Approval struct {
	ID    string // opaque, of the gate; 8 to 64 letters, digits, - and _
	Title string // what is asked: "roll back deployment llm/chat-api to revision 41"
	Link  string // the run's page; empty: none

	Service     string
	Environment string
	Alert       string
	Playbook    string
	Step        string        // the playbook's state
	Since       time.Time     // when the episode began
	Burning     time.Duration // how long it burns, at the time of rendering
	Budget      *Budget       // nil: not known

	Evidence     []string // one line each, in the order in which it led here
	Plan         Plan
	Capacity     string
	Risk         string
	Guards       []string
	Verification []string
	Undo         []string // what is undone if it does not help
	Deadline     time.Time
	Expiry       string // what happens at the deadline: "the run ends, nothing is changed"

	Needs           []Need
	OfferBreakGlass bool // show the button; who may press it is checked elsewhere

	State   State
	Outcome *Outcome // who decided; nil while open
	Notes   []string // what happened since: "the earlier plan was voided: replicas changed from 4 to 6"
}

// Budget is the service's error budget.
type Budget struct {
	Left    float64   // share that is left, 1 is all of it; negative: overspent
	Burn    float64   // times as fast as the budget allows; 0: not known
	RunsOut time.Time // at this rate; zero: it does not
}

// Need is one demand for approval and how far it is met.
type Need struct {
	Rule   string   // who asks: "policy two-for-high, policy.yaml:14"
	From   []string // who may say yes
	Quorum int      // how many of them
	By     []string // who did
	Strong bool     // counts only through a door that authenticates strongly, so not by this message
}

// Outcome is how a gate ended.
type Outcome struct {
	Who        []string // by their identity, not their display name; empty: nobody
	At         time.Time
	Why        string
	Door       string // "slack", "cli", "api"
	BreakGlass bool   // one person decided alone, by exception
}

// Message renders the approval in its present state. Buttons are there while
// it is open only.
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
	blocks = append(blocks, titled("If it does not help", a.Undo, 450)...)
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

// footer leads to the page and shows enough of the digest to compare.
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

// fallback is what a notification and a screen reader give.
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

// banner says how the gate ended, on top, where people look.
func (a Approval) banner() []slack.Block {
	o := a.Outcome
	if o == nil {
		return nil
	}
	s := "*" + line(string(a.State), 40) + "*"
	if o.BreakGlass {
		s = ":rotating_light: *BREAK-GLASS* · " + s + " by one person alone, by exception"
	}
	if len(o.Who) > 0 {
		s += " by " + codes(o.Who, 200)
	}
	if !o.At.IsZero() {
		s += " · " + when(o.At)
	}
	if o.Door != "" {
		s += " · through " + code(o.Door, 20)
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
		pairs = append(pairs, [2]string{"Capacity", code(a.Capacity, 180)})
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

// demands shows who has to say yes, and who did: "1 of 2 (ada)".
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
	if n.Rule != "" {
		s += " · " + code(n.Rule, 160)
	}
	if n.Strong {
		s += " · needs a door with strong authentication: use the command line"
	}
	return s
}

// buttons are the ways to answer; details has no place inside the details.
func (a Approval) buttons(details bool) slack.Block {
	// A demand for strong authentication cannot be met here, but a person may
	// still deny, and another demand may take this vote.
	elements := []slack.BlockElement{}
	if len(a.Needs) == 0 || slices.ContainsFunc(a.Needs, func(n Need) bool { return !n.Strong }) {
		elements = append(elements, button(KindApprove, "Approve", a.ID, slack.StylePrimary))
	}
	elements = append(elements, button(KindDeny, "Deny", a.ID, slack.StyleDanger))
	if a.Plan.Digest != "" { // a gate state asks about none
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

// short is enough of a digest for a person to compare.
func short(digest string) string {
	if _, hex, ok := strings.Cut(digest, ":"); ok {
		digest = hex
	}
	return digest[:min(len(digest), 12)]
}

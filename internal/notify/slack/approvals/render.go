package approvals

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/runview"
)

// approval returns the run's message while it has a question, and after.
func (s *timeline) approval(id, link string, budget *slack.Budget, now time.Time) slack.Approval {
	st, g := s.run, s.gate
	a := slack.Approval{
		ID: id, Title: g.Text, Link: link,
		Service: st.Start.Service.Name, Environment: st.Start.Service.Namespace,
		Alert: st.Start.Cause(), Playbook: st.Start.Playbook, Step: s.title(s.at),
		Since: st.Start.Alert.StartsAt, Burning: s.burning(now), Budget: budget,
		Evidence: s.evidence.Lines(), Guards: s.guards, Deadline: g.Deadline, Expiry: runview.ExpiryLine(*g),
		Needs: needs(*g, s.voted), OfferBreakGlass: s.breakable(),
		State: s.state, Outcome: s.end, Notes: s.notes,
	}
	if st.Start.ByHand() {
		a.Since = time.Time{} // a manual run has no alert
	}
	if p := s.about; p != nil {
		if !g.Undo {
			a.Title = p.Summary
		}
		a.Plan = plan(*p, g.Digest)
		a.Capacity, a.Risk = runview.CapacityLine(p.Capacity), runview.RiskLine(*p)
		a.Undo = append(runview.FollowLines(*g), "take back: "+p.Undo)
		a.Verification = machine.ProofTexts(st.ProofLines(s.at, g.Opened))
	}
	return a
}

// breakable reports whether a person may approve alone through Slack.
func (s *timeline) breakable() bool { return len(s.gate.BreakGlass) > 0 && !anyStrong(s.gate.Needs) }

// burning returns how long the alert fired: until now, or until it resolved.
func (s *timeline) burning(now time.Time) time.Duration {
	end := now
	if s.final() {
		end = s.run.Ended
	}
	return max(0, end.Sub(s.run.Start.Alert.StartsAt).Round(time.Second))
}

// acting returns the message of a run that changes something without asking.
func (s *timeline) acting(link string) slack.Notice {
	n := slack.Notice{Title: "Acting: " + s.summary(), Link: link, Facts: []slack.Fact{
		{Name: "Service", Value: s.run.Start.Service.Name},
		{Name: "Alert", Value: s.run.Start.Cause()},
		{Name: "Playbook", Value: s.run.Start.Playbook},
	}}
	if s.final() {
		n.Title = fmt.Sprintf("%s: %s", s.run.Ending.Outcome, s.summary())
		n.Text = s.run.Ending.Message
	}
	for _, l := range s.thread {
		n.Lines = append(n.Lines, l.Text)
	}
	return n
}

// details returns everything about the question, in pages.
func (s *timeline) details(id, link string, page int, origin slack.Origin) slack.Details {
	d := slack.Details{ID: id, Title: s.gate.Text, Link: link, Page: page, Origin: origin, Decide: s.state == slack.Open}
	d.Needs, d.OfferBreakGlass = needs(*s.gate, s.voted), s.breakable()
	if s.about != nil {
		d.Plan = plan(*s.about, s.gate.Digest)
		if !s.gate.Undo {
			d.Title = s.about.Summary
		}
	}
	add := func(title string, lines []string) {
		if len(lines) > 0 {
			d.Sections = append(d.Sections, slack.Section{Title: title, Lines: lines})
		}
	}
	add("Why", s.evidence.Lines())
	if p := s.about; p != nil {
		add("Risk", []string{runview.RiskLine(*p), "ready: " + runview.CapacityLine(p.Capacity)})
		add("What will follow", append(runview.FollowLines(*s.gate), "take back: "+p.Undo))
		add("Good to know", p.Notes)
	}
	add("Guards", s.guards)
	var proof []string
	for _, l := range s.run.ProofLines(s.at, s.gate.Opened) {
		if proof = append(proof, l.Text); l.Query != "" {
			proof = append(proof, "measured by "+l.Query)
		}
	}
	add("Verified by", proof)
	var who []string
	for _, n := range d.Needs {
		who = append(who, fmt.Sprintf("%d of %d from %s (%s)", len(n.By), n.Quorum, strings.Join(n.From, ", "), n.Rule))
	}
	add("Who decides", who)
	add("Since then", s.notes)
	return d
}

// entry returns the run as an entry of a list.
func (s *timeline) entry(id, link string) slack.Entry {
	e := slack.Entry{ID: id, Service: s.run.Start.Service.Name, Title: s.gate.Text, Deadline: s.gate.Deadline, State: s.state, Link: link}
	if s.about != nil && s.gate.Undo {
		e.Risk = string(s.about.Risk)
	} else if s.about != nil {
		e.Title, e.Risk = s.about.Summary, string(s.about.Risk)
	}
	var votes []string
	for _, n := range needs(*s.gate, s.voted) {
		v := fmt.Sprintf("%d of %d", len(n.By), n.Quorum)
		if len(n.By) > 0 {
			v += " (" + strings.Join(n.By, ", ") + ")"
		}
		votes = append(votes, v)
	}
	e.Votes = strings.Join(votes, ", ")
	return e
}

func needs(g machine.Gate, votes []machine.Decision) []slack.Need {
	out := make([]slack.Need, len(g.Needs))
	for i, n := range g.Needs {
		out[i] = slack.Need{Rule: n.Rule, From: n.From, As: n.As, Quorum: max(1, n.Quorum), By: n.Given(votes), Strong: n.Strong}
	}
	return out
}

func anyStrong(needs []machine.Need) bool {
	for _, n := range needs {
		if n.Strong {
			return true
		}
	}
	return false
}

func plan(p machine.Plan, digest string) slack.Plan {
	object := p.Target.Kind
	if p.Target.Name != "" {
		object += " " + strings.TrimPrefix(p.Target.Namespace+"/"+p.Target.Name, "/")
	}
	out := slack.Plan{Summary: p.Summary, Digest: digest}
	for _, f := range p.Diff {
		out.Changes = append(out.Changes, slack.Change{Object: object, Field: f.Path, From: f.From, To: f.To})
	}
	return out
}

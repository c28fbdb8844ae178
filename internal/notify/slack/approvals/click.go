package approvals

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
)

// channel names Slack in recorded decisions.
const channel = "slack"

// answerWithin limits how long the answer to a click may take.
const answerWithin = 10 * time.Second

// Click carries out what a person did in Slack. It is called after Slack was
// answered, from several goroutines at once. A person whose click had no effect
// is told why.
func (a *Approvals) Click(ctx context.Context, c slack.Click) {
	q, why := a.question(ctx, c.ID)
	if why != "" {
		a.refuse(ctx, c, "closed", why)
		return
	}
	switch c.Kind {
	case slack.KindDeny, slack.KindBreakGlass, slack.KindDetails:
		a.open(ctx, c, q) // a dialog: Slack allows three seconds
		return
	}
	who, err := a.o.Names.Person(ctx, c.UserID)
	if err != nil {
		a.refuse(ctx, c, "unknown_person", "Not accepted: "+err.Error()+". "+a.commandLine(q.run))
		return
	}
	cmd, ok := command(c, q, who)
	if !ok {
		a.refuse(ctx, c, "unknown_action", "This button belongs to another version of the service.")
		return
	}
	if err := a.o.Control.Command(ctx, q.run, cmd); err != nil {
		// The run has journaled the ignored command; the person is told why.
		a.answer(ctx, c, "Not accepted: "+err.Error()+". "+a.commandLine(q.run))
		return
	}
	a.sender.mark(q.run)
	a.sender.wake()
}

// startWithin limits how long a click waits for the questions to be loaded: a
// dialog has to be open three seconds after the click.
const startWithin = 2 * time.Second

// question returns the question behind the identifier of a button, or why there
// is none.
func (a *Approvals) question(ctx context.Context, id string) (question, string) {
	if !a.started(ctx) {
		return question{}, "The service is starting. Try again in a moment, or use the command line."
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	q, ok := a.memory.asked[id]
	if !ok {
		return question{}, "This question is closed: it was decided or withdrawn, or is no longer known. This click changed nothing."
	}
	return q, ""
}

// started waits for the questions to be loaded. A click that is consumed while
// the service stops comes with an ended ctx; questions that are already loaded
// are still used.
func (a *Approvals) started(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	select {
	case <-a.loaded:
		return true
	default:
	}
	select {
	case <-a.loaded:
		return true
	case <-ctx.Done():
		return false
	}
}

// command converts a click to a command of the run. The run checks whether the
// person may decide and whether the question is still open.
func command(c slack.Click, q question, who Person) (machine.Command, bool) {
	by := machine.Decision{Gate: q.gate, Digest: q.digest, By: "user:" + who.Name, Groups: who.Groups, Person: who.Declared, Channel: channel, Reason: c.Reason}
	cmd := machine.Command{Kind: machine.CmdDecide, Decision: &by}
	switch c.Kind {
	case slack.KindApprove:
		by.Approve = true
	case slack.KindBreakGlassSubmitted:
		by.Approve, by.BreakGlass = true, true
	case slack.KindDenySubmitted:
	case slack.KindReplan:
		cmd.Kind = machine.CmdReplan
	default:
		return machine.Command{}, false
	}
	return cmd, true
}

// open shows a dialog. Anybody in the channel may open it: it decides nothing
// and shows no more than the channel does.
func (a *Approvals) open(ctx context.Context, c slack.Click, q question) {
	state, events, ok := a.o.Runs.Run(q.run)
	s := newTimeline(state, events)
	if !ok || s.gate == nil {
		a.refuse(ctx, c, "closed", "This run cannot be read at the moment. "+a.commandLine(q.run))
		return
	}
	id, ok := a.newest(c.ID, q, s)
	if c.Kind != slack.KindDetails && !ok {
		a.refuse(ctx, c, "closed", "This question is closed: it was decided or withdrawn, or another plan replaced it. This click changed nothing.")
		return
	}
	title := s.gate.Text
	if s.about != nil {
		title = s.about.Summary
	}
	var m slack.Modal
	switch c.Kind {
	case slack.KindDeny:
		m = slack.Deny{ID: id, Title: title, Origin: c.Origin()}.Modal()
	case slack.KindBreakGlass:
		m = slack.BreakGlass{ID: id, Title: title, Origin: c.Origin()}.Modal()
	default:
		m = s.details(id, a.o.Link(q.run), c.Page, c.Origin()).Modal()
	}
	if err := a.o.Slack.OpenModal(ctx, c, m); err != nil {
		var no *fault.Error
		if errors.As(err, &no) && no.Reason == fault.TooLate {
			a.answer(ctx, c, "Slack took too long to show the dialog. Press the button again. "+a.commandLine(q.run))
			return
		}
		a.log.Warn("slack dialog not shown", "run", q.run, "err", err)
		a.answer(ctx, c, "The dialog could not be shown. "+a.commandLine(q.run))
	}
}

// newest returns the identifier of the question that a dialog shows, which is
// the run's newest whatever was clicked, and reports whether the click was on
// that question and it is open. So the buttons of a dialog always stand for
// what the dialog shows.
func (a *Approvals) newest(id string, q question, s *timeline) (string, bool) {
	if q.gate == s.gate.ID {
		return id, s.state == slack.Open
	}
	if t, ok := a.ticket(q.run); ok && t.gate == s.gate.ID {
		return t.id, false
	}
	return id, false
}

// commandLine returns how to decide without Slack.
func (a *Approvals) commandLine(run string) string {
	return fmt.Sprintf("On the command line: responder runs show %s, then responder approve %s, or responder deny %s --reason ...", run, run, run)
}

// refuse journals a click without effect and tells the person. It keeps only
// who clicked and the kind of the click.
func (a *Approvals) refuse(ctx context.Context, c slack.Click, reason, why string) {
	a.metrics.refused(reason)
	a.recordRefusal(ctx, slack.Refused{Reason: slack.Refusal(reason), Transport: c.Transport, At: c.At, UserID: c.UserID, Kind: c.Kind, Detail: firstSentence(why)})
	a.answer(ctx, c, why)
}

// maxRefused is how many refusals wait to be recorded. More are only counted.
const maxRefused = 64

// Refused counts an interaction that the receiver refused, and queues it for
// RecordRefusals. It never blocks: a request is being answered.
func (a *Approvals) Refused(r slack.Refused) {
	a.metrics.refused(string(r.Reason))
	select {
	case a.refused <- r:
	default: // counted
	}
}

// RecordRefusals records what the receiver refused until ctx ends.
func (a *Approvals) RecordRefusals(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-a.refused:
			a.recordRefusal(ctx, r)
		}
	}
}

// Socket records the state of the Socket Mode connection.
func (a *Approvals) Socket(s slack.SocketState) {
	a.metrics.connected.Set(0)
	if s.Connected {
		a.metrics.connected.Set(1)
	}
}

// recordRefusal journals an interaction that came from Slack, or claims to, and
// was not accepted. A flood is journaled only in part, so that an attacker
// cannot fill the journal.
func (a *Approvals) recordRefusal(ctx context.Context, r slack.Refused) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.refusals.keep(r, a.o.Now()) {
		return // the metric counts all of them
	}
	err := a.note(context.WithoutCancel(ctx), Record{
		Kind: KindRefused, Reason: string(r.Reason), User: r.UserID,
		Message: strings.TrimSpace(fmt.Sprintf("%s over %s: %s", r.Kind, r.Transport, r.Detail)),
	})
	if err != nil {
		a.log.Error("refused click not recorded", "err", err)
	}
}

// Limits of journaled refusals per minute: of people whom Slack authenticated, of one of
// them, and of requests that anybody on the network can make.
const (
	refusedPeople  = 60
	refusedPerson  = 10
	refusedForgers = 3
)

// refusals limits the journaled refusals. Forged clicks are counted apart, and so is
// each person: they would hide what others did.
type refusals struct {
	since           time.Time
	people, forgers int
	by              map[string]int // by the user's ID
}

func (f *refusals) keep(r slack.Refused, now time.Time) bool {
	if now.Sub(f.since) > time.Minute {
		*f = refusals{since: now, by: map[string]int{}}
	}
	if r.UserID == "" {
		f.forgers++
		return f.forgers <= refusedForgers
	}
	if f.by[r.UserID] == refusedPerson || f.people == refusedPeople {
		return false
	}
	f.by[r.UserID]++
	f.people++
	return true
}

// answer shows a text to the person who clicked, and to nobody else.
func (a *Approvals) answer(ctx context.Context, c slack.Click, text string) {
	if c.Channel == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	if err := a.o.Slack.Ephemeral(ctx, c.Channel, c.UserID, slack.Notice{Text: text}.Message()); err != nil {
		a.log.Warn("click not answered", "err", err)
	}
}

func firstSentence(text string) string {
	s, _, _ := strings.Cut(text, ". ")
	return s
}

package executor

import (
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Due is the record of a message that people have to be sent and that belongs
// to no run's events. It is written with the facts that it tells of, so that a
// crash in between loses neither; the Notice of the same key says what became
// of it. After a crash it may be sent again, with the same key.
type Due struct {
	Key      string           `json:"key"`
	Run      string           `json:"run,omitempty"`
	Playbook string           `json:"playbook,omitempty"`
	State    string           `json:"state,omitempty"`
	Service  playbook.Service `json:"service,omitzero"`
	Alert    playbook.Alert   `json:"alert,omitzero"`
	Text     string           `json:"text"`
	To       []string         `json:"to,omitempty"`     // channels by name; empty: the default ones
	Urgent   bool             `json:"urgent,omitempty"` // a person has to take over

	at time.Time // when it was recorded
}

// Notice is the record of a message that was sent to people, or could not be.
type Notice struct {
	Key   string `json:"key"`
	Text  string `json:"text"`
	Error string `json:"error,omitempty"` // why it could not be delivered
}

// dues encodes the messages that a batch owes people.
func dues(now time.Time, notices []machine.Effect) []audit.Record {
	var out []audit.Record
	for _, n := range notices {
		d := Due{Key: n.Key, Run: n.Run, Playbook: n.Playbook, State: n.State, Service: n.Service, Alert: n.Alert, Text: n.Text, To: n.To, Urgent: n.Urgent}
		out = append(out, audit.Record{Kind: KindNoticeDue, Time: now, Data: encode(d)})
	}
	return out
}

// effect is the message to send.
func (d Due) effect() machine.Effect {
	return machine.Effect{
		Key: d.Key, Run: d.Run, Playbook: d.Playbook, State: d.State, Service: d.Service, Alert: d.Alert, Text: d.Text, To: d.To, Urgent: d.Urgent,
	}
}

// announce tells people of what a run asks them. What a run ends with and why
// it is held it tells them itself: those messages must survive a crash. An open
// gate is in the journal, where whoever asks people at their channels finds it
// again; this message is only the first word of it and is not repeated.
func (e *Executor) announce(s machine.State, events []machine.Event) {
	for i := range events {
		if g := events[i].Gate; events[i].Kind == machine.GateOpened && g != nil {
			e.deliver(machine.Effect{
				Key: g.ID, Run: s.Start.Run, Playbook: s.Start.Playbook, State: s.Current, Service: s.Start.Service, Alert: s.Start.Alert, Asks: true,
				Text: "run " + s.Start.Run + " asks until " + g.Deadline.UTC().Format(time.RFC3339) + ": " + g.Text,
			})
		}
	}
}

// A message that is due is tried until it is delivered: the channel may be down
// for the very incident it tells of. One that no person has to act on is given up
// after noticesFor, or when trying again makes no sense. noticeFirst is the wait
// before the second try; each further one is longer, up to noticeMost. The
// first word of a question is tried askTries times only: who asks people at
// their channels repeats it.
const (
	noticeFirst = 5 * time.Second
	noticeMost  = 5 * time.Minute
	noticesFor  = 24 * time.Hour
	askTries    = 3
)

// nextTry is how long to wait after a failed attempt; false: it is given up.
func nextTry(eff machine.Effect, why fault.Reason, now time.Time) (time.Duration, bool) {
	if !eff.Urgent && (!why.Retryable() || eff.Asks && eff.Attempt >= askTries || now.Sub(eff.At) >= noticesFor) {
		return 0, false
	}
	pause := noticeFirst
	for range min(eff.Attempt-1, 8) {
		pause = min(3*pause, noticeMost)
	}
	return pause, true
}

// undelivered returns the message of a run that the machine has given up, where
// people have to act on it: the run goes on, and the message stays due.
func undelivered(before machine.State, events []machine.Event) (machine.Effect, bool) {
	eff, owed := machine.Pending(before)
	if !owed || !eff.Urgent || eff.Action != machine.ActionNotify {
		return eff, false
	}
	for i := range events {
		if e := &events[i]; e.Kind == machine.EffectFailed && e.Effect == eff.Key && e.NotUntil.IsZero() {
			return eff, true
		}
	}
	return eff, false
}

// deliver sends a message to people, beside everything else, and records what
// became of it.
func (e *Executor) deliver(eff machine.Effect) { e.deliverSince(eff, e.clock.now()) }

// deliverSince is deliver for a message that is due since a time. A channel compares that
// time with its own start to tell whether the message may already be there.
func (e *Executor) deliverSince(eff machine.Effect, at time.Time) {
	eff.Action, eff.Attempt, eff.At, eff.Timeout = machine.ActionNotify, 1, at, 15*time.Second
	e.spawn(func() { e.send(eff) })
}

func (e *Executor) send(eff machine.Effect) {
	out := e.step(e.ctx, eff)
	n := Notice{Key: eff.Key, Text: eff.Text}
	if out.Status != machine.StatusOK {
		if e.ctx.Err() != nil {
			return // cut off by the end: it is sent at the next start
		}
		if pause, again := nextTry(eff, out.Reason, e.clock.now()); again {
			if eff.Attempt++; eff.Attempt == 3 {
				e.log.Warn("people could not be told, it is tried again", "run", eff.Run, "err", out.Message)
			}
			// Nobody waits for it meanwhile: a stop in between leaves it due.
			time.AfterFunc(e.clock.scaled(pause), func() { e.spawn(func() { e.send(eff) }) })
			return
		}
		n.Error = out.Message
		e.log.Warn("people could not be told", "run", eff.Run, "err", out.Message)
	}
	if err := e.recordControl(KindNotice, n); err != nil && e.alive() {
		e.log.Error("notice could not be recorded", "run", eff.Run, "err", err)
	}
}

// deliverDue sends what was due when the process ended.
func (e *Executor) deliverDue() {
	for _, d := range e.due {
		e.deliverSince(d.effect(), d.at)
	}
	e.due = nil
}

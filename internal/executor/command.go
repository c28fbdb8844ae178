package executor

import (
	"context"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Command hands a person's command to a run: a decision, the wish for a fresh
// plan, a cancellation, the word on a held run, the end of a wait, or the release of one that was
// quarantined. It returns once the outcome is durable. Command.Now is replaced by
// the executor's own time.
func (e *Executor) Command(ctx context.Context, id string, c machine.Command) error {
	switch c.Kind {
	case machine.CmdDecide, machine.CmdReplan, machine.CmdCancel, machine.CmdResolve, machine.CmdProceed, machine.CmdRelease:
	default:
		return fmt.Errorf("%w: %q is not a person's command", ErrInvalid, c.Kind)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.Ready(); err != nil {
		return err
	}
	if c.Kind == machine.CmdRelease {
		if c.Refused != "" && c.Decision != nil { // the run itself takes no record
			e.RecordRefused(c.Decision.By, machine.RightOf(c.Kind), "", c.Refused)
			return fmt.Errorf("%w: %s", ErrForbidden, c.Refused)
		}
		return e.release(ctx, id, c.Decision)
	}
	c.Now = e.clock.now()
	r := e.find(id)
	if r == nil {
		return e.commandEnded(ctx, id, c)
	}
	if c.Refused != "" && !e.records(&c) {
		return fmt.Errorf("%w: %s", ErrForbidden, c.Refused)
	}
	return e.command(ctx, r, c)
}

// records reports whether a command that changes nothing may still be recorded
// within this hour. What it records of a missing right may say that it is the last.
func (e *Executor) records(c *machine.Command) bool {
	if c.Decision == nil {
		return true // it is refused without a record
	}
	why, record := e.requests.refuse(c.Decision.By, c.Refused, c.Now)
	if record && c.Refused != "" {
		c.Refused = why
	}
	return record
}

// commandEnded answers a command for a run that has ended, or was never there.
// A decision that came too late is a fact all the same, as far as the bounds of
// refused requests go: there are always more ended runs.
func (e *Executor) commandEnded(ctx context.Context, id string, c machine.Command) error {
	var refused error
	err := e.do(ctx, &task{person: true, decide: func(b *batch) (err error) {
		if r := e.find(id); r != nil { // it was only just starting
			refused, err = b.turn(r, c)
			return err
		}
		s, err := e.fold(id)
		if err != nil {
			return err
		}
		late := c
		if !e.records(&late) {
			_, refused = machine.Decide(s, c)
			return nil
		}
		refused, err = b.decide(e.newRun(id, s), late)
		return err
	}})
	if err != nil {
		return err
	}
	return refusal(refused)
}

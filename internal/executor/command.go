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
	if r := e.find(id); r != nil {
		return e.command(ctx, r, c)
	}
	return e.commandEnded(ctx, id, c)
}

// commandEnded answers a command for a run that has ended, or was never there.
// A decision that came too late is a fact all the same.
func (e *Executor) commandEnded(ctx context.Context, id string, c machine.Command) error {
	var refused error
	err := e.do(ctx, &task{person: true, decide: func(b *batch) (err error) {
		if r := e.find(id); r != nil { // it was only just starting
			refused, err = b.turn(r, c)
			return err
		}
		s, err := e.fold(id)
		if err == nil {
			refused, err = b.decide(newRun(id, s), c)
		}
		return err
	}})
	if err != nil {
		return err
	}
	return refusal(refused)
}

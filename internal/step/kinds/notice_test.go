package kinds_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/step"
)

type notifier struct{ err error }

func (n notifier) Notify(context.Context, step.Notice) error { return n.err }

type keeper struct{ last *step.Notice }

func (k keeper) Notify(_ context.Context, n step.Notice) error { *k.last = n; return nil }

func TestNotify(t *testing.T) {
	e := machine.Effect{Action: machine.ActionNotify, Text: "hello"}
	if o := do(t, step.Deps{}, e); o.Status != machine.StatusOK {
		t.Errorf("to the log: %s", o.Message)
	}
	var got step.Notice
	e.To, e.Urgent, e.At = []string{"oncall"}, true, time.Unix(1, 0)
	if o := do(t, step.Deps{Notifier: keeper{&got}}, e); o.Status != machine.StatusOK || len(got.To) != 1 || !got.Urgent || !got.At.Equal(e.At) {
		t.Errorf("told %+v: %s", got, o.Message)
	}
	if o := do(t, step.Deps{Notifier: notifier{errors.New("503")}}, e); o.Status != machine.StatusFailed || !o.Reason.Retryable() {
		t.Errorf("that failed: %s %s", o.Status, o.Reason)
	}
}

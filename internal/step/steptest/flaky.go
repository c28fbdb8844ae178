package steptest

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// When a flaky changer loses a write.
const (
	never   = iota
	instead // the request never arrives
	after   // it is carried out and the answer is lost
	late    // it arrives when the test lets it
)

// flaky refuses or loses the next writes, and counts those that got through.
type flaky struct {
	step.Changer
	step.Commits
	step.Applications
	step.NodeChanger
	step.Routes
	step.Autoscalers
	step.Jobs

	storm   int          // how many writes are refused
	refuses fault.Reason // and why
	lose    int
	writes  int
	onWay   func() error // the request that is late
}

// arrive delivers the late request and returns its answer, which nobody waits for.
func (f *flaky) arrive() error { return f.onWay() }

// Commit implements [step.Commits].
func (f *flaky) Commit(ctx context.Context, r gitops.Request) (gitops.Landing, error) {
	var landed gitops.Landing
	_, err := f.through(false, func() (_ kube.Applied, err error) {
		landed, err = f.Commits.Commit(ctx, r)
		return kube.Applied{}, err
	})
	return landed, err
}

// Sync implements [step.Applications].
func (f *flaky) Sync(ctx context.Context, s gitops.Sync) error {
	_, err := f.through(false, func() (kube.Applied, error) { return kube.Applied{}, f.Applications.Sync(ctx, s) })
	return err
}

// Scale implements [step.Changer].
func (f *flaky) Scale(ctx context.Context, c kube.ScaleChange) (kube.Applied, error) {
	return f.through(c.DryRun, func() (kube.Applied, error) { return f.Changer.Scale(ctx, c) })
}

// Undo implements [step.Changer].
func (f *flaky) Undo(ctx context.Context, c kube.UndoChange) (kube.Applied, error) {
	return f.through(c.DryRun, func() (kube.Applied, error) { return f.Changer.Undo(ctx, c) })
}

// Restart implements [step.Changer].
func (f *flaky) Restart(ctx context.Context, c kube.RestartChange) (kube.Applied, error) {
	return f.through(c.DryRun, func() (kube.Applied, error) { return f.Changer.Restart(ctx, c) })
}

// Hold implements [step.Changer].
func (f *flaky) Hold(ctx context.Context, c kube.HoldChange) (kube.Applied, error) {
	return f.through(c.DryRun, func() (kube.Applied, error) { return f.Changer.Hold(ctx, c) })
}

// SetRoute implements [step.Routes].
func (f *flaky) SetRoute(ctx context.Context, c kube.RouteChange) (kube.Route, error) {
	var r kube.Route
	_, err := f.through(c.DryRun, func() (_ kube.Applied, err error) {
		r, err = f.Routes.SetRoute(ctx, c)
		return kube.Applied{}, err
	})
	return r, err
}

// ChangeNode implements [step.NodeChanger].
func (f *flaky) ChangeNode(ctx context.Context, c kube.NodeChange) (kube.NodeState, error) {
	var n kube.NodeState
	_, err := f.through(c.DryRun, func() (_ kube.Applied, err error) {
		n, err = f.NodeChanger.ChangeNode(ctx, c)
		return kube.Applied{}, err
	})
	return n, err
}

// SetBounds implements [step.Autoscalers].
func (f *flaky) SetBounds(ctx context.Context, c kube.BoundsChange) (kube.Autoscaler, error) {
	var a kube.Autoscaler
	_, err := f.through(c.DryRun, func() (_ kube.Applied, err error) {
		a, err = f.Autoscalers.SetBounds(ctx, c)
		return kube.Applied{}, err
	})
	return a, err
}

// CreateJob implements [step.Jobs].
func (f *flaky) CreateJob(ctx context.Context, c kube.JobCreation) (kube.Job, error) {
	var j kube.Job
	_, err := f.through(c.DryRun, func() (_ kube.Applied, err error) {
		j, err = f.Jobs.CreateJob(ctx, c)
		return kube.Applied{}, err
	})
	return j, err
}

// DeleteJob implements [step.Jobs].
func (f *flaky) DeleteJob(ctx context.Context, d kube.JobDeletion) error {
	_, err := f.through(false, func() (kube.Applied, error) { return kube.Applied{}, f.Jobs.DeleteJob(ctx, d) })
	return err
}

func (f *flaky) through(dryRun bool, write func() (kube.Applied, error)) (kube.Applied, error) {
	if dryRun {
		return write()
	}
	if f.storm > 0 {
		f.storm--
		e := &fault.Error{Reason: f.refuses, Message: "refused by a test"}
		if f.refuses == fault.Throttled {
			e.RetryAfter = time.Second
		}
		return kube.Applied{}, e
	}
	lose := f.lose
	f.lose = never
	lost := &fault.Error{Reason: fault.Unreachable, Message: "the connection broke", Unknown: true, Err: net.ErrClosed}
	if lose == instead {
		return kube.Applied{}, lost
	}
	if lose == late {
		f.onWay = func() error {
			_, err := write()
			if err == nil {
				f.writes++
			}
			return err
		}
		return kube.Applied{}, lost
	}
	a, err := write()
	if err == nil {
		f.writes++
	}
	if lose == after {
		return kube.Applied{}, errors.Join(lost)
	}
	return a, err
}

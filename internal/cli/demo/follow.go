package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
)

const (
	findLimit   = time.Minute      // for a run to appear after its alert
	cancelLimit = 60 * time.Second // for a cancelled run to clean up behind itself
)

// describeService reports how a service's workload stands.
func describeService(ctx context.Context, w *sandbox.World, svc playbook.Service) string {
	ref := kube.Ref{Kind: svc.Workload.Kind, Namespace: svc.Namespace, Name: svc.Workload.Name}
	now, err := w.Workload(ctx, ref)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s/%s: %s on %s, %d of %d ready, revision %d",
		ref.Kind, ref.Namespace, ref.Name, svc.Model, svc.Engine, now.Ready, now.Replicas, now.Revision)
}

// followAll follows the run that the alert starts, and those it hands over to,
// and gives the last one with the events of all.
func (d *demo) followAll(ctx, running context.Context) (machine.State, []machine.Event, error) {
	var all []machine.Event
	from := "" // the run that was handed over; empty: none yet
	for {
		id, err := d.findRun(ctx, from)
		if err != nil {
			return machine.State{}, all, err
		}
		state, events, err := d.follow(ctx, running, id)
		all = append(all, events...)
		if err != nil || state.Ending == nil || state.Ending.Divert == "" {
			return state, all, err
		}
		from = id
	}
}

// findRun waits for the run that the alert starts, or that a run is handed over to.
func (d *demo) findRun(ctx context.Context, from string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var list api.RunList
		if err := d.client.Get(ctx, client.RunsPath, nil, &list); err != nil && ctx.Err() == nil {
			return "", err
		}
		for _, r := range list.Runs {
			if r.DivertedFrom == from {
				return r.Run, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return "", fmt.Errorf("no run started within %s of the alert; --dir keeps the journal and the log, which say why", findLimit)
			}
			return "", errors.New("interrupted before a run had started: nothing was changed")
		}
	}
}

// follower is what follow needs to remember between events.
type follower struct {
	demo   *demo
	id     string
	events []machine.Event
	view   *runview.Renderer
	asked  map[string]bool // gates
	state  machine.State
	book   *playbook.Playbook
}

// follow shows the run as it goes, asks where it asks, and returns when it has
// ended. When ctx ends before, the run is cancelled and followed to its end.
func (d *demo) follow(ctx, running context.Context, id string) (machine.State, []machine.Event, error) {
	f := &follower{demo: d, id: id, view: d.show.view(), asked: map[string]bool{}}
	running, cancel := context.WithCancel(running)
	defer cancel()
	go d.service.pump(running)
	go func() { // an interrupt: ask the run to stop, and give it time to
		select {
		case <-ctx.Done():
			d.cancelRun(running, id)
			select {
			case <-time.After(cancelLimit):
				cancel()
			case <-running.Done():
			}
		case <-running.Done():
		}
	}()
	err := d.client.Follow(running, id, func(e api.Event) error { return f.event(ctx, running, e.Machine()) })
	if err != nil {
		err = d.explain(ctx, err)
	}
	return f.state, f.events, err
}

// cancelRun asks the run to stop because of an interrupt.
func (d *demo) cancelRun(ctx context.Context, id string) {
	fmt.Fprintln(d.process.Stderr, "\nresponder: interrupted; the run is being cancelled and takes back what is not proven (again: stop at once)")
	if _, err := d.client.Decide(ctx, id, "cancel", api.DecisionRequest{Reason: "interrupted at the terminal"}); err != nil {
		fmt.Fprintf(d.process.Stderr, "responder: the run could not be cancelled: %v\n", err)
	}
}

// explain reports in what state an interrupted demo is left.
func (d *demo) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted, and the run did not end within %s: the simulated change may still be in place; nothing outside this program was touched", cancelLimit)
	}
	return err
}

// event shows one event and answers the question it may ask.
func (f *follower) event(ctx, running context.Context, e machine.Event) error {
	f.events = append(f.events, e)
	if err := f.refresh(running, e.Kind); err != nil {
		return err
	}
	f.view.Book, f.view.Run = f.book, f.state
	f.view.Event(e)
	f.demo.show.after(running, e)
	if g := f.state.Gate; e.Kind == machine.GateOpened && g != nil && !f.asked[g.ID] {
		f.asked[g.ID] = true
		return f.decide(ctx, running)
	}
	if f.state.Held != nil {
		return fmt.Errorf("the run is held: %s", f.state.Held.Message)
	}
	return nil
}

// refresh reads the run anew where an event shows more than itself.
func (f *follower) refresh(ctx context.Context, kind machine.EventKind) error {
	switch kind {
	case machine.RunStarted, machine.StateEntered, machine.GateOpened, machine.RunHeld, machine.RunEnded, machine.EffectStarted:
	default:
		return nil
	}
	var detail api.RunDetail
	if err := f.demo.client.Get(ctx, client.RunPath(f.id), nil, &detail); err != nil {
		return err
	}
	if f.book == nil && detail.Document != "" {
		f.book = f.demo.service.playbook(detail.Run.Playbook)
	}
	f.state = detail.Run.Machine()
	f.state.Playbook = f.book
	return nil
}

// decide puts the open question to the person, or answers it under --yes. The
// world runs at life's pace while somebody thinks.
func (f *follower) decide(ctx, running context.Context) error {
	d := f.demo
	d.show.screen.title("Approval needed: %s", stateTitle(f.state.Playbook, f.state.Current))
	said := answer{approve: true, reason: "--yes"}
	if d.answers == nil {
		d.show.screen.detail(dim, "--yes approves it")
	} else {
		clock := d.world.Clock()
		if err := clock.SetPace(1); err != nil {
			return err
		}
		var err error
		said, err = d.answers.ask(ctx)
		if back := clock.SetPace(d.options.Speed); back != nil {
			return back
		}
		switch {
		case ctx.Err() != nil:
			return nil // the run is being cancelled
		case errors.Is(err, errNoAnswer):
			said = answer{reason: "the input ended"}
		case err != nil:
			return err
		}
	}
	verb := "deny"
	if said.approve {
		verb = "approve"
	}
	request := api.DecisionRequest{Reason: said.reason, Gate: f.state.Gate.ID, Digest: f.state.Gate.Digest}
	if _, err := d.client.Decide(running, f.id, verb, request); err != nil && ctx.Err() == nil {
		d.show.screen.detail(yellow, "the answer came too late: %s", err)
	}
	return nil
}

package argocd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Even a healthy stream is not trusted for longer than this. Then the application
// is read again, and refreshed if nothing runs.
const look = 30 * time.Second

// Judge returns how far an application has come, and why.
type Judge = func(gitops.Application) (gitops.Rollout, string)

// Watch waits until the application is settled by a judge's rule, such as
// [gitops.Settled], and calls progress on every change. The error of a failed sync
// has the reason [fault.Conflict]. If the context's deadline comes first, the
// reason is [fault.Timeout] and the text says what is missing, for example that
// the application is degraded. Watch keeps waiting while the server is
// unreachable.
func (c *Client) Watch(ctx context.Context, name string, judge Judge, progress func(string)) (gitops.Application, error) {
	w := &watch{name: name, tell: progress, judge: judge}
	for wait := firstWait; ; wait = min(2*wait, 5*time.Second) {
		began := time.Now()
		app, done, err := c.lookAndFollow(ctx, w)
		e := new(fault.Error)
		switch {
		case done:
			return app, err
		case ctx.Err() != nil:
			return app, w.late(ctx)
		case errors.As(err, &e) && !passing(e.Reason) && e.Reason != fault.Timeout:
			return app, err
		case err != nil:
			w.say(err.Error())
		}
		if time.Since(began) > look/2 {
			wait = firstWait
		}
		select {
		case <-ctx.Done():
			return app, w.late(ctx)
		case <-time.After(wait):
		}
	}
}

// watch is one wait.
type watch struct {
	name  string
	judge Judge
	tell  func(string)
	why   string // what was told last

	refreshed time.Time
}

// see judges a state; done: the wait is over.
func (w *watch) see(app gitops.Application) (done bool, err error) {
	state, why := w.judge(app)
	w.say(why)
	switch state {
	case gitops.RolloutSettled:
		return true, nil
	case gitops.RolloutFailed:
		return true, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("argo cd: application %s: %s", app.Name, why)}
	default:
		return false, nil
	}
}

func (w *watch) say(why string) {
	if why == w.why {
		return
	}
	w.why = why
	if w.tell != nil {
		w.tell(why)
	}
}

// late returns the error of a wait whose context ended.
func (w *watch) late(ctx context.Context) error {
	why := w.why
	if why == "" {
		why = "nothing was seen yet"
	}
	return &fault.Error{Reason: fault.Timeout, Message: fmt.Sprintf("argo cd: application %s did not settle in time: %s", w.name, why), Err: ctx.Err()}
}

// lookAndFollow reads the application and follows its changes until the wait is
// over, the stream ends, or it is time to read again.
func (c *Client) lookAndFollow(ctx context.Context, w *watch) (app gitops.Application, done bool, err error) {
	if app, err = c.Application(ctx, w.name); err != nil {
		return app, false, err
	}
	if done, err = w.see(app); done {
		return app, done, err
	}
	var refreshing sync.WaitGroup
	defer refreshing.Wait()
	limited, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	if !app.Operation.Running && time.Since(w.refreshed) > look/2 {
		// Argo CD may not know the commit yet: its poll is minutes away. The result shows
		// in the stream or at the next read.
		w.refreshed = time.Now()
		refreshing.Go(func() {
			if err := c.Refresh(limited, w.name); err != nil {
				c.log.DebugContext(limited, "argo cd not refreshed", "error", err)
			}
		})
	}
	app, done, err = c.follow(limited, w, app)
	if limited.Err() != nil && !done {
		return app, false, nil // time to look again
	}
	return app, done, err
}

// follow handles the application's changes as they come. The first events are old
// states.
func (c *Client) follow(ctx context.Context, w *watch, app gitops.Application) (_ gitops.Application, done bool, err error) {
	token, err := c.token()
	if err != nil {
		return app, false, err
	}
	q, err := query(app.Name)
	if err != nil {
		return app, false, err
	}
	q.Projects = []string{app.Project}
	r := request{verb: "watch", name: app.Name, right: "get"}
	stream, err := c.apps.Watch(withToken(ctx, token), q)
	if err != nil {
		return app, false, c.fail(ctx, r, err, token)
	}
	for {
		event, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF): // a restart of the server, or a proxy's limit
			return app, false, nil
		case err != nil:
			return app, false, c.fail(ctx, r, err, token)
		}
		state, err := fromEvent(event, app)
		if err != nil {
			return app, false, err
		}
		state.Window = app.Window
		app = state
		if done, err := w.see(app); done {
			return app, true, err
		}
	}
}

// fromEvent returns the state in an event. An application that was deleted, or
// recreated under the same name, is not the watched one.
func fromEvent(event *v1alpha1.ApplicationWatchEvent, app gitops.Application) (gitops.Application, error) {
	state := convert(&event.Application)
	if event.Type == "DELETED" || state.UID != app.UID {
		return gitops.Application{}, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("argo cd: application %s was deleted", app.Name)}
	}
	return state, nil
}

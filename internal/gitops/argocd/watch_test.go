package argocd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/application"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// outcome is the answer of a Watch.
type outcome struct {
	app gitops.Application
	err error
}

// watching begins a Watch for the wanted commit; what it tells comes out of the
// channel.
func watching(t *testing.T, c *Client, contains func(string) bool) (told <-chan string, done <-chan outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	news, result := make(chan string, 100), make(chan outcome, 1)
	go func() {
		app, err := c.Watch(ctx, "argocd/chat", judge(contains), func(s string) { news <- s })
		result <- outcome{app, err}
	}()
	return news, result
}

// hear waits for news that hold the text.
func hear(t *testing.T, told <-chan string, text string) {
	t.Helper()
	for {
		select {
		case s := <-told:
			if strings.Contains(s, text) {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("never heard %q", text)
		case <-time.After(time.Minute):
			t.Fatalf("not heard: %q", text)
		}
	}
}

func reason(t *testing.T, err error) fault.Reason {
	t.Helper()
	e := new(fault.Error)
	if !errors.As(err, &e) {
		t.Fatalf("error %v has no reason", err)
	}
	return e.Reason
}

// The states that Argo CD shows after a sync was asked for begin with the one
// before it, which is synced, healthy and succeeded: of another commit.
func TestWatchWaitsForTheCommit(t *testing.T) {
	s := start(t, chat())
	told, done := watching(t, s.client(t), nil)
	hear(t, told, "has compared 1111111111 so far, not 2222222222")
	if kind := <-s.refreshed; kind != "normal" { // Argo CD's own poll may be minutes away
		t.Errorf("refreshed %q", kind)
	}
	s.set(running(wanted, ""))
	hear(t, told, "a sync to 2222222222 runs, started by ada at 2026-01-02T03:04:05Z")
	s.set(func(app *v1alpha1.Application) {
		synced(wanted, "")(app)
		app.Status.Sync.Status = "OutOfSync" // the comparison comes after the operation
	})
	hear(t, told, "OutOfSync at 2222222222")
	s.set(func(app *v1alpha1.Application) { synced(wanted, "")(app); app.Status.Health.Status = "Progressing" })
	hear(t, told, "health Progressing")
	s.set(synced(wanted, ""))
	if out := <-done; out.err != nil || out.app.Revisions[0] != wanted || out.app.Health != "Healthy" {
		t.Errorf("got %+v, %v", out.app, out.err)
	}
}

// Another commit on top is as good, if the caller knows that it holds ours.
func TestWatchTakesADescendant(t *testing.T) {
	s := start(t, chat())
	told, done := watching(t, s.client(t), func(sha string) bool { return sha == later })
	hear(t, told, "not 2222222222")
	s.set(synced(later, ""))
	if out := <-done; out.err != nil {
		t.Errorf("got %v", out.err)
	}
}

func TestWatchDegradedThenHealthy(t *testing.T) {
	s := start(t, chat())
	told, done := watching(t, s.client(t), nil)
	s.set(func(app *v1alpha1.Application) {
		synced(wanted, "")(app)
		app.Status.Health.Status, app.Status.Health.Message = "Degraded", "0 of 2 pods are ready"
	})
	hear(t, told, "degraded: 0 of 2 pods are ready")
	s.set(synced(wanted, ""))
	if out := <-done; out.err != nil {
		t.Errorf("got %v", out.err)
	}
}

func TestWatchFailedSync(t *testing.T) {
	s := start(t, chat())
	told, done := watching(t, s.client(t), nil)
	hear(t, told, "not 2222222222")
	s.set(func(app *v1alpha1.Application) {
		running(wanted, "")(app)
		app.Operation = nil
		app.Status.OperationState.Phase = "Failed"
		app.Status.OperationState.Message = "one or more objects failed to apply: spec.replicas: Invalid value: -1"
	})
	out := <-done
	if reason(t, out.err) != fault.Conflict || !strings.Contains(out.err.Error(), "spec.replicas: Invalid value: -1") {
		t.Errorf("got %v", out.err)
	}
}

// The end of a stream is no success, and neither is an error of it.
func TestWatchStreamEnds(t *testing.T) {
	s := start(t, chat())
	streams := 0
	s.onWatch = func(stream application.ApplicationService_WatchServer) error {
		streams++ // streams of one Watch follow one another
		s.mu.Lock()
		app := s.app
		s.mu.Unlock()
		if err := stream.Send(&v1alpha1.ApplicationWatchEvent{Application: *app}); err != nil {
			return err
		}
		switch streams {
		case 1:
			return nil
		case 2:
			return status.Error(codes.Unavailable, "the server restarts")
		}
		s.set(synced(wanted, ""))
		return nil
	}
	told, done := watching(t, s.client(t), nil)
	hear(t, told, "the server restarts")
	if out := <-done; out.err != nil || streams < 3 {
		t.Errorf("got %v after %d streams", out.err, streams)
	}
}

func TestWatchServerRestarts(t *testing.T) {
	s := start(t, chat())
	told, done := watching(t, s.client(t), nil)
	hear(t, told, "not 2222222222")
	s.stop()
	hear(t, told, "argo cd at ")
	s.set(synced(wanted, ""))
	s.listen(t, s.address)
	if out := <-done; out.err != nil {
		t.Errorf("got %v", out.err)
	}
}

func TestWatchDeadline(t *testing.T) {
	s := start(t, chat())
	s.set(func(app *v1alpha1.Application) {
		synced(wanted, "")(app)
		app.Status.Health.Status = "Degraded"
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	c := s.client(t)
	_, err := c.Watch(ctx, "argocd/chat", judge(nil), func(string) { cancel(nil) })
	if reason(t, err) != fault.Timeout || !strings.Contains(err.Error(), "degraded") || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWatchTokenRevoked(t *testing.T) {
	s := start(t, chat())
	told, done := watching(t, s.client(t), nil)
	hear(t, told, "not 2222222222")
	s.mu.Lock()
	s.token = "another"
	s.mu.Unlock()
	s.stop()
	s.listen(t, s.address)
	if out := <-done; reason(t, out.err) != fault.Forbidden {
		t.Errorf("got %v", out.err)
	}
}

func TestWatchDeleted(t *testing.T) {
	s := start(t, chat())
	told, done := watching(t, s.client(t), nil)
	hear(t, told, "not 2222222222")
	s.set(func(app *v1alpha1.Application) { synced(wanted, "")(app); app.UID = "u2" })
	if out := <-done; reason(t, out.err) != fault.NotFound {
		t.Errorf("got %v", out.err)
	}
}

// judge is the rule for the wanted commit.
func judge(contains func(sha string) bool) Judge {
	return func(app gitops.Application) (gitops.Rollout, string) { return gitops.Settled(app, wanted, contains) }
}

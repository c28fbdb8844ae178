package argocd

import (
	"errors"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/application"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

func ask() gitops.Sync {
	return gitops.Sync{Application: "argocd/chat", Revisions: []string{wanted}, Key: "01HZ/cap/1/apply"}
}

// The commit is pinned: a branch may have moved on since.
func TestSyncPinsTheCommit(t *testing.T) {
	s := start(t, chat())
	s.set(func(app *v1alpha1.Application) {
		app.Spec.SyncPolicy = &v1alpha1.SyncPolicy{SyncOptions: v1alpha1.SyncOptions{"ServerSideApply=true", "ApplyOutOfSyncOnly=false"}}
	})
	if err := s.client(t).Sync(t.Context(), ask()); err != nil {
		t.Fatal(err)
	}
	got := s.syncs[0]
	if got.GetName() != "chat" || got.GetAppNamespace() != "argocd" || got.GetProject() != "inference" || got.GetRevision() != wanted {
		t.Errorf("asked for %v", got)
	}
	if got.GetPrune() || got.GetDryRun() || len(got.Manifests) > 0 || got.GetStrategy() != nil {
		t.Errorf("asked for more than a sync: %v", got)
	}
	if diff := cmp.Diff([]string{"ServerSideApply=true", "ApplyOutOfSyncOnly=true"}, got.SyncOptions.Items); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if len(got.Infos) != 1 || got.Infos[0].Name != "Responder-Effect" || got.Infos[0].Value != "01HZ/cap/1/apply" {
		t.Errorf("key: %v", got.Infos)
	}
}

func TestSyncOfSeveralSources(t *testing.T) {
	s := start(t, chat())
	s.set(func(app *v1alpha1.Application) {
		app.Spec.Source = nil
		app.Spec.Sources = v1alpha1.ApplicationSources{{RepoURL: "https://charts.example", Chart: "vllm", TargetRevision: "1.x"}, {RepoURL: "https://git.example/fleet", Ref: "values"}}
	})
	req := ask()
	req.Revisions = []string{"1.2.3", wanted}
	if err := s.client(t).Sync(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	got := s.syncs[0]
	if diff := cmp.Diff([]string{"1.2.3", wanted}, got.Revisions); diff != "" || !cmp.Equal(got.SourcePositions, []int64{1, 2}) || got.Revision != nil {
		t.Errorf("asked for %v", got)
	}
}

func TestSyncIsRefused(t *testing.T) {
	no := false
	tests := map[string]struct {
		change func(*server, *v1alpha1.Application, *gitops.Sync)
		want   fault.Reason
		says   string
	}{
		"another operation runs": {func(_ *server, app *v1alpha1.Application, _ *gitops.Sync) { running(later, "")(app) }, fault.Throttled, "a sync to 3333333333 runs, started by ada at 2026-01-02T03:04:05Z"},
		"one was asked for and has not begun": {func(_ *server, app *v1alpha1.Application, _ *gitops.Sync) {
			op := asks(later, "")
			app.Operation = &op
		}, fault.Throttled, "a sync to 3333333333 runs, started by ada"},
		"window": {func(s *server, _ *v1alpha1.Application, _ *gitops.Sync) {
			s.windows = application.ApplicationSyncWindowsResponse{CanSync: &no, ActiveWindows: []*application.ApplicationSyncWindow{window("deny", "0 8 * * *")}}
		}, fault.Throttled, `the deny window "0 8 * * *" for 1h`},
		"auto-sync": {func(_ *server, app *v1alpha1.Application, _ *gitops.Sync) {
			app.Spec.SyncPolicy = &v1alpha1.SyncPolicy{Automated: &v1alpha1.SyncPolicyAutomated{}}
		}, fault.Owned, "change, or revert, it there and refresh"},
		"hydrated": {func(_ *server, app *v1alpha1.Application, _ *gitops.Sync) {
			app.Spec.SourceHydrator = &v1alpha1.SourceHydrator{}
		}, fault.Owned, "hydrator"},
		"deleting": {func(_ *server, app *v1alpha1.Application, _ *gitops.Sync) {
			app.DeletionTimestamp = app.Status.ReconciledAt
		}, fault.Conflict, "deleted"},
		"too many sources": {func(_ *server, _ *v1alpha1.Application, s *gitops.Sync) { s.Revisions = []string{wanted, wanted} }, fault.Invalid, "it has 1 sources"},
		"no revision":      {func(_ *server, _ *v1alpha1.Application, s *gitops.Sync) { s.Revisions = []string{" "} }, fault.Invalid, "want a revision for each"},
		"no key":           {func(_ *server, _ *v1alpha1.Application, s *gitops.Sync) { s.Key = "" }, fault.Invalid, "want one word"},
		"no name":          {func(_ *server, _ *v1alpha1.Application, s *gitops.Sync) { s.Application = "a/b/c" }, fault.Invalid, "want NAME or NAMESPACE/NAME"},
		"another one":      {func(_ *server, _ *v1alpha1.Application, s *gitops.Sync) { s.Application = "argocd/nope" }, fault.Forbidden, "there is no such application, or the token lacks the right \"applications, get\""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, req := start(t, chat()), ask()
			s.set(func(app *v1alpha1.Application) { test.change(s, app, &req) })
			err := s.client(t).Sync(t.Context(), req)
			if reason(t, err) != test.want || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %s: %s", err, test.want, test.says)
			}
			if len(s.syncs) > 0 {
				t.Errorf("a sync was sent: %v", s.syncs)
			}
		})
	}
}

// What the server refuses did not happen; what it does not answer may have.
func TestSyncFails(t *testing.T) {
	tests := map[string]struct {
		answer  error
		want    fault.Reason
		unknown bool
		says    string
	}{
		"someone was faster": {status.Error(codes.FailedPrecondition, "error setting app operation: another operation is already in progress"), fault.Throttled, false, "already in progress"},
		"window closed":      {status.Error(codes.PermissionDenied, "cannot sync: blocked by sync window"), fault.Throttled, false, "blocked by sync window"},
		"no right":           {errDenied, fault.Forbidden, false, "p, SUBJECT, applications, sync, PROJECT/chat, allow"},
		"an override":        {status.Error(codes.PermissionDenied, "permission denied: applications, override, inference/chat, sub: responder"), fault.Forbidden, false, "p, SUBJECT, applications, override, PROJECT/chat, allow"},
		"refused":            {status.Error(codes.FailedPrecondition, "error resolving repo revision"), fault.Conflict, false, "resolving"},
		"invalid":            {status.Error(codes.InvalidArgument, "bad"), fault.Invalid, false, "bad"},
		"cut off":            {status.Error(codes.Unavailable, "transport is closing"), fault.Unreachable, true, "closing"},
		"failed":             {status.Error(codes.Internal, "boom"), fault.ServerError, true, "boom"},
		"late":               {status.Error(codes.DeadlineExceeded, "late"), fault.Timeout, true, "late"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, chat())
			s.onSync = func(*application.ApplicationSyncRequest) error { return test.answer }
			err := s.client(t).Sync(t.Context(), ask())
			e := new(fault.Error)
			if !errors.As(err, &e) || e.Reason != test.want || e.Unknown != test.unknown || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %#v", e)
			}
			if len(s.syncs) != 1 {
				t.Errorf("sent %d times", len(s.syncs))
			}
		})
	}
}

func TestSyncAnswerLost(t *testing.T) {
	s := start(t, chat())
	c := s.client(t)
	s.onSync = func(*application.ApplicationSyncRequest) error {
		s.set(running(wanted, ask().Key))
		return status.Error(codes.Unavailable, "the connection broke")
	}
	if err := c.Sync(t.Context(), ask()); err != nil {
		t.Errorf("it began, and still: %v", err)
	}
	s.set(synced(wanted, ask().Key))
	if err := c.Sync(t.Context(), ask()); err != nil || len(s.syncs) != 1 {
		t.Errorf("asked again: %v, sent %d times", err, len(s.syncs))
	}
	s.onSync = nil
	another := ask()
	another.Key = "01HZ/cap/2/apply"
	if err := c.Sync(t.Context(), another); err != nil || len(s.syncs) != 2 {
		t.Errorf("another sync of the same commit: %v, sent %d times", err, len(s.syncs))
	}
}

// Only an operation of ours is stopped, and one that is over needs no stop.
func TestStop(t *testing.T) {
	key := ask().Key
	ending := func(app *v1alpha1.Application) {
		running(wanted, key)(app)
		app.Status.OperationState.Phase = "Terminating"
	}
	for name, tt := range map[string]struct {
		state  func(*v1alpha1.Application)
		answer error
		stops  int
		want   fault.Reason
	}{
		"ours":           {running(wanted, key), nil, 1, ""},
		"another's":      {running(wanted, "01HZ/cap/2/apply"), nil, 0, ""},
		"a person's":     {running(wanted, ""), nil, 0, ""},
		"over":           {synced(wanted, key), nil, 0, ""},
		"stopped":        {ending, nil, 0, ""},
		"over meanwhile": {running(wanted, key), status.Error(codes.InvalidArgument, "Unable to terminate operation. No operation is in progress"), 1, ""},
		"no right":       {running(wanted, key), errDenied, 1, fault.Forbidden},
		"cut off":        {running(wanted, key), status.Error(codes.Unavailable, "transport is closing"), 1, fault.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, chat())
			s.set(tt.state)
			if tt.answer != nil {
				s.onStop = func() error { return tt.answer }
			}
			err := s.client(t).Stop(t.Context(), "chat", key)
			e := new(fault.Error)
			if s.stops != tt.stops || (err == nil) != (tt.want == "") || errors.As(err, &e) && (e.Reason != tt.want || e.Unknown) {
				t.Errorf("%d stops, %v; want %d, %q", s.stops, err, tt.stops, tt.want)
			}
		})
	}
}

func window(kind, schedule string) *application.ApplicationSyncWindow {
	duration, manual := "1h", false
	return &application.ApplicationSyncWindow{Kind: &kind, Schedule: &schedule, Duration: &duration, ManualSync: &manual}
}

func TestWindows(t *testing.T) {
	yes, no := true, false
	deny, allow := window("deny", "0 8 * * *"), window("allow", "0 22 * * *")
	list := func(w ...*application.ApplicationSyncWindow) []*application.ApplicationSyncWindow { return w }
	tests := map[string]struct {
		windows   *application.ApplicationSyncWindowsResponse
		automated bool
		want      string
	}{
		"none":                          {&application.ApplicationSyncWindowsResponse{CanSync: &yes}, false, ""},
		"none, automated":               {&application.ApplicationSyncWindowsResponse{CanSync: &yes}, true, ""},
		"denied":                        {&application.ApplicationSyncWindowsResponse{CanSync: &no, ActiveWindows: list(deny), AssignedWindows: list(deny)}, false, `the deny window "0 8 * * *" for 1h`},
		"denied, but not by hand":       {&application.ApplicationSyncWindowsResponse{CanSync: &yes, ActiveWindows: list(deny), AssignedWindows: list(deny)}, false, ""},
		"denied, and it is automated":   {&application.ApplicationSyncWindowsResponse{CanSync: &yes, ActiveWindows: list(deny), AssignedWindows: list(deny)}, true, `the deny window "0 8 * * *" for 1h`},
		"allowed":                       {&application.ApplicationSyncWindowsResponse{CanSync: &yes, ActiveWindows: list(allow), AssignedWindows: list(allow, deny)}, true, ""},
		"not yet allowed":               {&application.ApplicationSyncWindowsResponse{CanSync: &no, AssignedWindows: list(allow)}, false, `the allow window "0 22 * * *" for 1h, which is not open`},
		"not yet allowed, automated":    {&application.ApplicationSyncWindowsResponse{CanSync: &yes, AssignedWindows: list(allow)}, true, `the allow window "0 22 * * *" for 1h, which is not open`},
		"not allowed, no window is why": {&application.ApplicationSyncWindowsResponse{CanSync: &no}, false, "a sync window of its project"},
		"an answer without a verdict":   {&application.ApplicationSyncWindowsResponse{}, false, "a sync window of its project"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := closed(test.windows, test.automated); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

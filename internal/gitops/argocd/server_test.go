package argocd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/account"
	"github.com/argoproj/argo-cd/v2/pkg/apiclient/application"
	"github.com/argoproj/argo-cd/v2/pkg/apiclient/session"
	"github.com/argoproj/argo-cd/v2/pkg/apiclient/version"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	before = "1111111111111111111111111111111111111111"
	wanted = "2222222222222222222222222222222222222222"
	later  = "3333333333333333333333333333333333333333"
	canary = "eyJ-the-token-that-nobody-may-see"
)

// server is an Argo CD server: argo-cd's own interfaces over a real gRPC
// server, with the state of one application behind them.
type server struct {
	application.UnimplementedApplicationServiceServer
	account.UnimplementedAccountServiceServer

	address string
	stop    func()

	mu        sync.Mutex
	app       *v1alpha1.Application // nil: there is none
	changed   chan struct{}         // closed when app changes
	token     string
	windows   application.ApplicationSyncWindowsResponse
	syncs     []*application.ApplicationSyncRequest
	refreshed chan string // kinds of the refreshes asked for
	gets      int
	stops     int
	rights    []string // resource, action, object

	onGet   func(n int) error                               // before the nth answer
	onSync  func(*application.ApplicationSyncRequest) error // after it was noted
	onStop  func() error
	onWatch func(application.ApplicationService_WatchServer) error   // instead of following app
	onCall  func(ctx context.Context, method string) (stopped error) // before every call
}

func start(t *testing.T, app *v1alpha1.Application) *server {
	t.Helper()
	yes := true
	s := &server{app: app, changed: make(chan struct{}), refreshed: make(chan string, 100), token: canary, windows: application.ApplicationSyncWindowsResponse{CanSync: &yes}}
	s.listen(t, "127.0.0.1:0")
	return s
}

// listen serves; also again, after stop.
func (s *server) listen(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if err := s.admit(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			if err := s.admit(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return handle(srv, stream)
		}),
	)
	application.RegisterApplicationServiceServer(g, s)
	account.RegisterAccountServiceServer(g, s)
	session.RegisterSessionServiceServer(g, sessions{s})
	version.RegisterVersionServiceServer(g, versions{})
	s.address = l.Addr().String()
	s.stop = g.Stop
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
}

func (s *server) admit(ctx context.Context, method string) error {
	s.mu.Lock()
	token, onCall := s.token, s.onCall
	s.mu.Unlock()
	if onCall != nil {
		if err := onCall(ctx, method); err != nil {
			return err
		}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if method == "/version.VersionService/Version" || method == "/session.SessionService/GetUserInfo" {
		return nil
	}
	if !slices.Equal(md.Get("token"), []string{token}) {
		return status.Errorf(codes.Unauthenticated, "invalid session: token %v is not valid", md.Get("token"))
	}
	return nil
}

var errDenied = status.Error(codes.PermissionDenied, "permission denied")

// set changes the application and tells those who watch.
func (s *server) set(change func(*v1alpha1.Application)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.app = s.app.DeepCopy()
	change(s.app)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) Get(_ context.Context, q *application.ApplicationQuery) (*v1alpha1.Application, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	if q.Refresh != nil {
		s.refreshed <- *q.Refresh
	}
	if s.onGet != nil {
		if err := s.onGet(s.gets); err != nil {
			return nil, err
		}
	}
	if s.app == nil || q.GetName() != s.app.Name {
		return nil, errDenied
	}
	return s.app, nil
}

func (s *server) GetApplicationSyncWindows(context.Context, *application.ApplicationSyncWindowsQuery) (*application.ApplicationSyncWindowsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.windows, nil
}

func (s *server) Sync(_ context.Context, r *application.ApplicationSyncRequest) (*v1alpha1.Application, error) {
	s.mu.Lock()
	s.syncs = append(s.syncs, r)
	s.mu.Unlock()
	if s.onSync != nil {
		if err := s.onSync(r); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.app, nil
}

func (s *server) TerminateOperation(context.Context, *application.OperationTerminateRequest) (*application.OperationTerminateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops++
	if s.onStop != nil {
		return nil, s.onStop()
	}
	return &application.OperationTerminateResponse{}, nil
}

func (s *server) Watch(_ *application.ApplicationQuery, stream application.ApplicationService_WatchServer) error {
	if s.onWatch != nil {
		return s.onWatch(stream)
	}
	for {
		s.mu.Lock()
		app, changed := s.app, s.changed
		s.mu.Unlock()
		if err := stream.Send(&v1alpha1.ApplicationWatchEvent{Type: "MODIFIED", Application: *app}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (s *server) CanI(_ context.Context, r *account.CanIRequest) (*account.CanIResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.rights, r.Resource+", "+r.Action+", "+r.Subresource) {
		return &account.CanIResponse{Value: "yes"}, nil
	}
	return &account.CanIResponse{Value: "no"}, nil
}

// sessions and versions are apart because their methods share names.
type sessions struct{ *server }

func (s sessions) Create(context.Context, *session.SessionCreateRequest) (*session.SessionResponse, error) {
	return nil, errDenied
}

func (s sessions) Delete(context.Context, *session.SessionDeleteRequest) (*session.SessionResponse, error) {
	return nil, errDenied
}

func (s sessions) GetUserInfo(ctx context.Context, _ *session.GetUserInfoRequest) (*session.GetUserInfoResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return &session.GetUserInfoResponse{LoggedIn: slices.Equal(md.Get("token"), []string{s.token}), Username: "responder"}, nil
}

type versions struct{}

func (versions) Version(context.Context, *emptypb.Empty) (*version.VersionMessage, error) {
	return &version.VersionMessage{Version: "v2.14.21"}, nil
}

// client makes a client of the server, with the token in a file.
func (s *server) client(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{Server: s.address, TokenFile: filepath.Join(t.TempDir(), "token"), Plaintext: true, Timeout: 30 * time.Second}
	if err := os.WriteFile(o.TokenFile, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// chat is an application that runs the commit before, without auto-sync.
func chat() *v1alpha1.Application { // the revision deployed first is listed last: IDs tell
	app := &v1alpha1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "chat", Namespace: "argocd", UID: "u1"},
		Spec: v1alpha1.ApplicationSpec{
			Project: "inference",
			Source:  &v1alpha1.ApplicationSource{RepoURL: "https://git.example/fleet", Path: "serving/chat", TargetRevision: "main"},
		},
		Status: v1alpha1.ApplicationStatus{
			ControllerNamespace: "argocd",
			Resources: []v1alpha1.ResourceStatus{
				{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat", Status: "Synced", Health: &v1alpha1.HealthStatus{Status: "Healthy"}},
				{Kind: "ConfigMap", Namespace: "serving", Name: "chat", Status: "Synced"},
			},
			History: v1alpha1.RevisionHistories{{ID: 4, Revision: before}, {ID: 3, Revision: later}},
		},
	}
	synced(before, "")(app)
	return app
}

// synced is what a finished sync leaves behind, when all is well.
func synced(sha, key string) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) {
		finished := metav1.NewTime(time.Now())
		app.Operation = nil
		app.Status.ReconciledAt = &finished
		app.Status.Sync = v1alpha1.SyncStatus{Status: "Synced", Revision: sha}
		app.Status.Health.Status = "Healthy"
		app.Status.OperationState = &v1alpha1.OperationState{
			Phase: "Succeeded", FinishedAt: &finished, Operation: asks(sha, key),
			SyncResult: &v1alpha1.SyncOperationResult{Revision: sha},
		}
	}
}

// running is a sync under way.
func running(sha, key string) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) {
		op := asks(sha, key)
		app.Operation = &op
		app.Status.OperationState = &v1alpha1.OperationState{
			Phase: "Running", Operation: op, StartedAt: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
			SyncResult: &v1alpha1.SyncOperationResult{Revision: sha},
		}
	}
}

func asks(sha, key string) v1alpha1.Operation {
	op := v1alpha1.Operation{
		Sync:        &v1alpha1.SyncOperation{Revision: sha},
		InitiatedBy: v1alpha1.OperationInitiator{Username: "ada"},
	}
	if key != "" {
		op.Info = []*v1alpha1.Info{{Name: "Responder-Effect", Value: key}}
	}
	return op
}

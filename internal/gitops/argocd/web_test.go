package argocd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/inference-responder/responder/internal/fault"
)

// front is a proxy of gRPC-Web before the server, below a path, as the protocol
// has it: each message, and then the status, is a frame of the answer's body.
func front(t *testing.T, s *server) string {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	web := httptest.NewServer(http.StripPrefix("/argo", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/grpc-web+proto")
		err := pass(w, req, conn)
		st := status.Convert(err)
		frame(w, 0x80, []byte(fmt.Sprintf("grpc-status: %d\r\ngrpc-message: %s\r\n", st.Code(), st.Message())))
	})))
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(web.Close)
	return strings.TrimPrefix(web.URL, "http://")
}

// pass sends one request on and its answers back.
func pass(w http.ResponseWriter, req *http.Request, conn *grpc.ClientConn) error {
	body, err := io.ReadAll(req.Body)
	if err != nil || len(body) < 5 || req.Header.Get("Content-Type") != "application/grpc-web+proto" {
		return fmt.Errorf("a request of %d bytes, %s: %w", len(body), req.Header.Get("Content-Type"), err)
	}
	ctx := metadata.AppendToOutgoingContext(req.Context(), "token", req.Header.Get("token"))
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, req.URL.Path, grpc.ForceCodec(raw{}))
	if err != nil {
		return err
	}
	message := body[5:]
	if err := stream.SendMsg(&message); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var answer []byte
		if err := stream.RecvMsg(&answer); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		frame(w, 0, answer)
	}
}

func frame(w http.ResponseWriter, flags byte, data []byte) {
	head := make([]byte, 5)
	head[0] = flags
	binary.BigEndian.PutUint32(head[1:], uint32(len(data))) //nolint:gosec // a few bytes
	_, _ = w.Write(append(head, data...))
	w.(http.Flusher).Flush()
}

// raw leaves messages as they are.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func TestWeb(t *testing.T) {
	s := start(t, chat())
	c := s.client(t, func(o *Options) { o.Server, o.GRPCWeb, o.Root = front(t, s), true, "/argo/" })
	if app, err := c.Application(t.Context(), "chat"); err != nil || app.Name != "argocd/chat" || len(app.Resources) != 2 {
		t.Fatalf("got %+v, %v", app, err)
	}
	if report, err := c.Check(t.Context()); err != nil || report.Version != "v2.14.21" || report.Account != "responder" {
		t.Errorf("check: %+v, %v", report, err)
	}
	if _, err := c.Application(t.Context(), "nope"); reason(t, err) != fault.Forbidden {
		t.Errorf("no application: %v", err)
	}
	if err := c.Sync(t.Context(), ask()); err != nil || len(s.syncs) != 1 || s.syncs[0].GetRevision() != wanted {
		t.Errorf("sync: %v, %v", s.syncs, err)
	}
	told, done := watching(t, c, nil)
	hear(t, told, "not 2222222222")
	s.set(running(wanted, ""))
	hear(t, told, "a sync to 2222222222 runs")
	s.set(synced(wanted, ""))
	if out := <-done; out.err != nil {
		t.Errorf("watch: %v", out.err)
	}
}

// Whoever redirects us gets no token.
func TestWebRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("asked elsewhere, with token %q", req.Header.Get("token"))
	}))
	t.Cleanup(elsewhere.Close)
	redirects := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirects.Close)
	s := &server{address: strings.TrimPrefix(redirects.URL, "http://")}
	c := s.client(t, func(o *Options) { o.GRPCWeb = true })
	if _, err := c.Application(t.Context(), "chat"); err == nil {
		t.Error("no error")
	}
}

func TestWebFaults(t *testing.T) {
	s := start(t, chat())
	address := front(t, s)
	c := s.client(t, func(o *Options) { o.Server, o.GRPCWeb, o.Root = address, true, "argo" })
	s.onWatch = nil
	told, done := watching(t, c, nil)
	hear(t, told, "not 2222222222")
	s.stop() // the front stays, and answers that there is nobody behind it
	hear(t, told, "argo cd at ")
	s.set(func(app *v1alpha1.Application) { synced(wanted, "")(app) })
	s.listen(t, s.address)
	if out := <-done; out.err != nil {
		t.Errorf("watch: %v", out.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Application(ctx, "chat"); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	wrong := s.client(t, func(o *Options) { o.Server, o.GRPCWeb = address, true })
	if _, err := wrong.Application(t.Context(), "chat"); reason(t, err) != fault.ServerError {
		t.Errorf("the wrong path: %v", err)
	}
}

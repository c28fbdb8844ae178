package argocd

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that messages are written with
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/inference-responder/responder/internal/outbound"
)

// web makes calls as gRPC-Web, which every HTTP proxy passes on. The generated
// clients need a gRPC connection. They get one that is never opened, because its
// interceptors send all calls here.
type web struct {
	client *http.Client
	base   string // https://host:port, or further down
}

func newWeb(address, root string, config *tls.Config, dial func(context.Context, string, string) (net.Conn, error)) *web {
	w := &web{base: "https://" + address, client: outbound.Client(&http.Transport{TLSClientConfig: config, DialContext: dial, ForceAttemptHTTP2: true})}
	if config == nil {
		w.base = "http://" + address
	}
	if root = strings.Trim(root, "/"); root != "" {
		w.base += "/" + root
	}
	return w
}

func (w *web) call(ctx context.Context, method string, req any) (*connect.Client[message, message], *connect.Request[message]) {
	client := connect.NewClient[message, message](w.client, w.base+method,
		connect.WithGRPCWeb(), connect.WithCodec(wire{}), connect.WithReadMaxBytes(maxMessage))
	r := connect.NewRequest(&message{value: req})
	md, _ := metadata.FromOutgoingContext(ctx)
	for key, values := range md {
		r.Header()[http.CanonicalHeaderKey(key)] = values
	}
	return client, r
}

func (w *web) unary(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	client, r := w.call(ctx, method, req)
	answer, err := client.CallUnary(ctx, r)
	if err != nil {
		return fromWeb(err)
	}
	return answer.Msg.decode(reply)
}

func (w *web) stream(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &webStream{ctx: ctx, open: func(req any) (*connect.ServerStreamForClient[message], error) {
		client, r := w.call(ctx, method, req)
		return client.CallServerStream(ctx, r)
	}}, nil
}

// webStream is a stream of answers to one request.
type webStream struct {
	ctx     context.Context //nolint:containedctx // grpc.ClientStream returns it
	open    func(req any) (*connect.ServerStreamForClient[message], error)
	answers *connect.ServerStreamForClient[message]
}

// Context implements [grpc.ClientStream].
func (s *webStream) Context() context.Context { return s.ctx }

// Header implements [grpc.ClientStream]; nobody asks for it.
func (s *webStream) Header() (metadata.MD, error) { return nil, nil }

// Trailer implements [grpc.ClientStream]; nobody asks for it.
func (s *webStream) Trailer() metadata.MD { return nil }

// CloseSend implements [grpc.ClientStream]: the one request was sent.
func (s *webStream) CloseSend() error { return nil }

// SendMsg implements [grpc.ClientStream].
func (s *webStream) SendMsg(req any) (err error) {
	if s.answers, err = s.open(req); err != nil {
		return fromWeb(err)
	}
	return nil
}

// RecvMsg implements [grpc.ClientStream].
func (s *webStream) RecvMsg(reply any) error {
	if s.answers.Receive() {
		return s.answers.Msg().decode(reply)
	}
	err := s.answers.Err()
	if closeErr := s.answers.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err == nil {
		return io.EOF
	}
	return fromWeb(err)
}

// fromWeb converts an error to gRPC's own form; the codes are the same.
func fromWeb(err error) error {
	e := new(connect.Error)
	if !errors.As(err, &e) {
		return status.Error(codes.Unknown, err.Error())
	}
	return status.Error(codes.Code(e.Code()), e.Message())
}

// message is an outgoing message, or an incoming one before decoding.
type message struct {
	value any
	data  []byte
}

func (m *message) decode(into any) error {
	return encoding.GetCodecV2("proto").Unmarshal(mem.BufferSlice{mem.SliceBuffer(m.data)}, into)
}

// wire encodes messages like gRPC's own codec, which also supports those that Argo
// CD generates.
type wire struct{}

// Name implements [connect.Codec].
func (wire) Name() string { return "proto" }

// Marshal implements [connect.Codec].
func (wire) Marshal(v any) ([]byte, error) {
	out, err := encoding.GetCodecV2("proto").Marshal(v.(*message).value)
	if err != nil {
		return nil, err
	}
	defer out.Free()
	return out.Materialize(), nil
}

// Unmarshal implements [connect.Codec].
func (wire) Unmarshal(data []byte, v any) error {
	v.(*message).data = append([]byte(nil), data...)
	return nil
}

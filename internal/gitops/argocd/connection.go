package argocd

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// An application with thousands of resources is a few MB; the rest of a longer
// answer is refused.
const maxMessage = 32 << 20

// address validates the server's address and adds the port.
func (o Options) address() (string, error) {
	const want = "want HOST or HOST:PORT, such as argocd-server.argocd.svc:443"
	switch {
	case o.Server == "":
		return "", invalid("argo cd: no server: %s", want)
	case strings.Contains(o.Server, "@"):
		return "", invalid("argo cd: the server's address holds a user: %s, and put the token into the token file", want)
	case strings.ContainsAny(o.Server, "/?# \t\r\n"):
		return "", invalid("argo cd: server %q: %s", o.Server, want)
	case o.Plaintext && (o.SkipVerify || o.CAFile != "" || o.ServerName != ""):
		return "", invalid("argo cd: plaintext has no certificate: leave out skip_verify, ca_file and server_name, or plaintext")
	case o.SkipVerify && o.CAFile != "":
		return "", invalid("argo cd: skip_verify and ca_file contradict each other: leave out one")
	case o.Root != "" && !o.GRPCWeb:
		return "", invalid("argo cd: a root path needs grpc_web")
	}
	host, port, err := net.SplitHostPort(o.Server)
	if err != nil {
		port = "443"
		if o.Plaintext {
			port = "80"
		}
		host = strings.TrimSuffix(strings.TrimPrefix(o.Server, "["), "]")
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 || host == "" || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", invalid("argo cd: server %q: %s", o.Server, want)
	}
	return net.JoinHostPort(host, port), nil
}

// tls returns the TLS settings; nil with Plaintext.
func (o Options) tls() (*tls.Config, error) {
	if o.Plaintext {
		return nil, nil
	}
	config, err := outbound.Options{CAFile: o.CAFile, ServerName: o.ServerName, SkipVerify: o.SkipVerify}.TLS()
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "argo cd", Err: err}
	}
	return config, nil
}

// connect makes the connection, which is opened by the first call.
func (o Options) connect(address string) (*grpc.ClientConn, error) {
	config, err := o.tls()
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if config != nil {
		creds = credentials.NewTLS(config)
	}
	dialer := outbound.Dialer(10 * time.Second)
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithUserAgent("responder"),
		grpc.WithDisableServiceConfig(),
		// A restarted server is found within seconds.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 10 * time.Second,
		}),
		// The server allows a ping every 10 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
	}
	if o.GRPCWeb {
		w := newWeb(address, o.Root, config, dialer.DialContext)
		options = append(options, grpc.WithUnaryInterceptor(w.unary), grpc.WithStreamInterceptor(w.stream))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "argo cd: server " + address, Err: err}
	}
	return conn, nil
}

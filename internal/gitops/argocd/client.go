package argocd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/account"
	"github.com/argoproj/argo-cd/v2/pkg/apiclient/application"
	"github.com/argoproj/argo-cd/v2/pkg/apiclient/session"
	"github.com/argoproj/argo-cd/v2/pkg/apiclient/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// Options configure the connection to an Argo CD server.
type Options struct {
	Server     string // host or host:port; the port is 443, with Plaintext 80, when left out
	TokenFile  string // holds the account's or the project role's token; read for every call
	CAFile     string // certificates that sign the server's, in PEM; empty: the system's
	ServerName string // name in the server's certificate; empty: the host

	Plaintext  bool   // no TLS: the token is readable on the way
	SkipVerify bool   // TLS without checking the certificate
	GRPCWeb    bool   // for proxies in front of the server that do not pass HTTP/2 on
	Root       string // with GRPCWeb: the path that the server is below

	Timeout time.Duration // of one request; 0: 15 s. A refresh gets four times as long
	Log     *slog.Logger  // nil: none
}

// Client talks to one Argo CD server. It is safe for concurrent use.
type Client struct {
	server   string
	tokens   string
	timeout  time.Duration
	log      *slog.Logger
	conn     *grpc.ClientConn
	apps     application.ApplicationServiceClient
	accounts account.AccountServiceClient
	sessions session.SessionServiceClient
	versions version.VersionServiceClient
}

// New validates the options. The first call connects.
func New(o Options) (*Client, error) {
	if o.TokenFile == "" {
		return nil, invalid("argo cd: no token file: name the file that holds the account's token")
	}
	if o.Timeout < 0 {
		return nil, invalid("argo cd: timeout %s: want a positive one", o.Timeout)
	}
	address, err := o.address()
	if err != nil {
		return nil, err
	}
	conn, err := o.connect(address)
	if err != nil {
		return nil, err
	}
	c := &Client{
		server: address, tokens: o.TokenFile, timeout: o.Timeout, log: o.Log, conn: conn,
		apps:     application.NewApplicationServiceClient(conn),
		accounts: account.NewAccountServiceClient(conn),
		sessions: session.NewSessionServiceClient(conn),
		versions: version.NewVersionServiceClient(conn),
	}
	if c.timeout == 0 {
		c.timeout = 15 * time.Second
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Close closes the connection; running calls fail.
func (c *Client) Close() error { return c.conn.Close() }

// The attempts of a read, and the wait before the second one; it doubles.
const (
	tries     = 3
	firstWait = 200 * time.Millisecond
)

// read repeats a call until it gets an answer or a refusal. Only reads may be
// repeated.
func read[T any](ctx context.Context, c *Client, r request, call func(context.Context) (T, error)) (T, error) {
	wait := firstWait
	for try := 1; ; try++ {
		out, err := once(ctx, c, r, call)
		var e *fault.Error
		if err == nil || try == tries || !errors.As(err, &e) || !passing(e.Reason) {
			return out, err
		}
		c.log.DebugContext(ctx, "argo cd asked again", "attempt", try, "error", err)
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// passing reports whether the same request may succeed a moment later.
func passing(r fault.Reason) bool {
	return r == fault.Unreachable || r == fault.Throttled || r == fault.ServerError
}

// once calls once, with the token and a deadline.
func once[T any](ctx context.Context, c *Client, r request, call func(context.Context) (T, error)) (T, error) {
	var none T
	token, err := c.token()
	if err != nil {
		return none, err
	}
	limit := c.timeout
	if r.slow {
		limit *= 4
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := call(withToken(limited, token))
	if err != nil {
		return none, c.fail(ctx, r, err, token)
	}
	return out, nil
}

// withToken adds the token where Argo CD's server looks first.
func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "token", token)
}

// token reads the token. Errors name the file and never what is in it.
func (c *Client) token() (string, error) {
	token, err := outbound.ReadToken(c.tokens)
	if err != nil {
		return "", &fault.Error{Reason: fault.Forbidden, Message: "argo cd: token file (want one line without spaces, of at most 64 KiB)", Err: err}
	}
	return token, nil
}

func invalid(format string, args ...any) error {
	return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(format, args...)}
}

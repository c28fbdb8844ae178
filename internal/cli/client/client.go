package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/setting"
)

const (
	defaultServer  = "http://127.0.0.1:8080"
	serverVariable = "RESPONDER_SERVER"
	maxAnswerBytes = 64 << 20
	// RequestDeadline bounds a request and its answer, streams and exports aside.
	RequestDeadline = 30 * time.Second
)

// Client asks a running service over HTTP. Its fields are flags.
type Client struct {
	Process *command.Process
	Server  string
	Credentials

	// Quiet keeps the line about a sandbox from standard error.
	Quiet bool

	context string         // name of the one to use; empty: the current one
	flags   *pflag.FlagSet // of the command; nil: there are none
}

// AddFlags adds the flags that name the service and the credential.
func (c *Client) AddFlags(cmd *cobra.Command) {
	c.flags = cmd.Flags()
	cmd.Flags().StringVar(&c.Server, "server", "", "URL of the running service (default $"+serverVariable+", else the current context's, else "+defaultServer+")")
	cmd.Flags().StringVar(&c.context, "context", "", "name of a service and its credential; 'responder config get-contexts' lists them")
	c.addCredentialFlags(cmd)
	for _, name := range connectionFlags {
		// The error is of a flag that does not exist; all were added above.
		_ = cmd.Flags().SetAnnotation(name, command.FlagGroup, []string{"Connection Flags"})
	}
	_ = cmd.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return CompleteContexts(c.Process)
	})
}

// connectionFlags are those that say which service is asked, and as whom.
var connectionFlags = []string{"server", "context", "token-file", "token-command", "user", "password-file", "cert-file", "key-file", "ca-file", "plaintext"}

// CompleteContexts lists the names of the contexts for a shell.
func CompleteContexts(p *command.Process) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := ReadContexts(p.Getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp // there is no place to say why
	}
	var out []cobra.Completion
	for _, one := range all.All {
		out = append(out, cobra.CompletionWithDesc(one.Name, one.Server))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// serverURL returns the URL of a service without a trailing slash, or an error if it
// is none.
func serverURL(server string) (string, error) {
	u, err := url.Parse(server)
	switch {
	case err == nil && u.User != nil: // not repeated: it may hold a password
		return "", errors.New("the URL of the server holds a user; leave it out, and name the user by --user and --password-file")
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("server %s is not a URL of a service; write it like %s", setting.QuotedURL(server), defaultServer)
	}
	return strings.TrimRight(server, "/"), nil
}

// Get decodes the answer to a GET into answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values, answer any) error {
	who, err := c.Identify(ctx) // before the clock starts: a person may have to log in
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, RequestDeadline)
	defer cancel()
	body, _, err := c.doAs(ctx, who, ask{method: http.MethodGet, path: path, query: query, want: JSONType})
	if err != nil {
		return err
	}
	return decodeAnswer(body, answer)
}

// Send sends request as JSON with a method that changes something, and
// decodes the answer.
func (c *Client) Send(ctx context.Context, method, path string, request, answer any) error {
	_, err := c.SendFor(ctx, method, path, request, answer)
	return err
}

// SendFor is send, and gives the status of the answer: which 2xx it is.
func (c *Client) SendFor(ctx context.Context, method, path string, request, answer any) (int, error) {
	who, err := c.Identify(ctx) // before the clock starts: a person may have to log in
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, RequestDeadline)
	defer cancel()
	body, status, err := c.doAs(ctx, who, ask{method: method, path: path, request: request, want: JSONType})
	if err != nil {
		return 0, err
	}
	return status, decodeAnswer(body, answer)
}

// Stream calls each with every line of a newline-delimited JSON answer, until
// it ends, each fails or ctx is done.
func (c *Client) Stream(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) error {
	body, err := c.Fetch(ctx, path, query, "application/x-ndjson")
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var line json.RawMessage
		switch err := dec.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the stream of %s: %w", path, err)
		}
		if err := each(line); err != nil {
			return err
		}
	}
}

func decodeAnswer(body io.ReadCloser, answer any) error {
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswerBytes)).Decode(answer); err != nil {
		return fmt.Errorf("the server's answer is not what this version expects: %w; is the server of the same version?", err)
	}
	return nil
}

// Fetch finds out who asks and sends a GET whose answer has the wanted media
// type. It is for answers that may take any time.
func (c *Client) Fetch(ctx context.Context, path string, query url.Values, want string) (io.ReadCloser, error) {
	who, err := c.Identify(ctx)
	if err != nil {
		return nil, err
	}
	body, _, err := c.doAs(ctx, who, ask{method: http.MethodGet, path: path, query: query, want: want})
	return body, err
}

// JSONType is the media type of most answers.
const JSONType = "application/json"

// ask is one request.
type ask struct {
	method, path string
	query        url.Values
	request      any    // sent as JSON; nil: nothing
	want         string // media type of a 2xx answer
}

// keyedRequest is one that may be sent again, because it has a name.
type keyedRequest interface{ IdempotencyKey() string }

// doAs sends one request and gives the body and the status of a 2xx answer of
// the wanted type; every other answer is an error that says what to do.
func (c *Client) doAs(ctx context.Context, who Identity, a ask) (io.ReadCloser, int, error) {
	base := who.server
	req, err := a.to(ctx, base)
	if err != nil {
		return nil, 0, err
	}
	if who.Authorization != "" {
		req.Header.Set("Authorization", who.Authorization)
	}
	resp, err := (&http.Client{Transport: who.transport, CheckRedirect: who.checkRedirect}).Do(req)
	if err != nil {
		return nil, 0, unreachable(base, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, 0, refusal(base, who.kind, resp)
	}
	if got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); got != a.want {
		// A page to log in at would be taken for a journal, or for an empty list.
		return nil, 0, errors.Join(fmt.Errorf("%s answers as no Responder does, with %s and not %s; is something else listening there, or a proxy that wants a login?",
			base, runview.OrText(runview.Cell(got), "a body of no type"), a.want), resp.Body.Close())
	}
	if at := resp.Header.Get(api.SandboxHeader); at != "" && !c.Quiet && !c.forProgram() {
		c.Quiet = true
		if _, err := fmt.Fprintln(c.Process.Stderr, sandboxLine(api.ParseSandboxHeader(at), c.Process.Zone)); err != nil {
			return nil, 0, errors.Join(err, resp.Body.Close())
		}
	}
	return resp.Body, resp.StatusCode, nil
}

// forProgram reports whether -o asks for an answer that a program reads.
func (c *Client) forProgram() bool {
	if c.flags == nil {
		return false
	}
	out := c.flags.Lookup("output")
	return out != nil && slices.Contains([]string{"json", "yaml", "name"}, out.Value.String())
}

// sandboxLine tells people that nothing is real, and by whose clock the times are.
func sandboxLine(s api.Sandbox, zone *time.Location) string {
	pace := "real time"
	if s.Pace != 1 {
		pace = fmt.Sprintf("%g times real time", s.Pace)
	}
	return fmt.Sprintf("SANDBOX: simulated. Its clock: %s, %s", runview.Clock{Zone: zone}.Text(s.Now), pace)
}

// to makes the HTTP request to a service.
func (a ask) to(ctx context.Context, base string) (*http.Request, error) {
	var payload io.Reader = http.NoBody
	if a.request != nil {
		b, err := json.Marshal(a.request)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(b)
	}
	address := base + a.path
	if len(a.query) > 0 {
		address += "?" + a.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, a.method, address, payload)
	if err != nil {
		return nil, err
	}
	if a.request != nil {
		req.Header.Set("Content-Type", JSONType)
	}
	if keyed, ok := a.request.(keyedRequest); ok {
		req.Header.Set("Idempotency-Key", keyed.IdempotencyKey())
	}
	req.Header.Set("User-Agent", "responder/"+app.ReadBuildInfo().Version)
	return req, nil
}

func unreachable(base string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
		if to, bad := url.Parse(u.URL); bad == nil && !strings.HasPrefix(base, to.Scheme+"://"+to.Host) {
			base += ", which sends on to " + to.Scheme + "://" + to.Host
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s gave no answer within %s; is the service overloaded, or is something else listening there?", base, RequestDeadline)
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s; start 'responder serve', or name the service with --server or $%s", base, serverVariable)
	case tlsAdvice(err) != "":
		return fmt.Errorf("cannot reach %s: %w; %s", base, err, tlsAdvice(err))
	default:
		return fmt.Errorf("cannot reach %s: %w; --server or $%s names the service", base, err, serverVariable)
	}
}

// refusal reports what the server answered and what the caller can do about it.
func refusal(base, credential string, resp *http.Response) error {
	code, said := serverProblem(resp.Body)
	if got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); got == "text/html" {
		said = "a page of HTML, as of a proxy, and no answer of a Responder"
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		if credential != "" {
			return fmt.Errorf("%s does not take this %s: %s", base, credential, said)
		}
		return fmt.Errorf("%s wants a credential: %s; name a token by --token-file or $%s, a program that prints one by --token-command or $%s, "+
			"a user by --user and --password-file, or a certificate by --cert-file and --key-file; the service of a context is sent no credential of the environment", base, said, tokenVariable, commandVariable)
	case http.StatusForbidden:
		return fmt.Errorf("you may not do that: %s (%s answered %s)", said, base, resp.Status)
	case http.StatusServiceUnavailable:
		return fmt.Errorf("%s cannot take this now: %s; try again, and see %s/readyz for what is missing", base, said, base)
	case http.StatusConflict:
		return &ConflictError{Stale: code == api.CodeStale, said: fmt.Sprintf("%s (%s answered %s)", said, base, resp.Status)}
	case http.StatusNotFound:
		return &NotFoundError{said: fmt.Sprintf("%s (%s answered %s)", said, base, resp.Status)}
	default:
		return fmt.Errorf("%s (%s answered %s)", said, base, resp.Status)
	}
}

// ConflictError is the answer to a request that is not possible in the present state of
// what it is about.
type ConflictError struct {
	Stale bool // it is about another plan than the open question

	said string
}

// Error returns what the service answered.
func (e *ConflictError) Error() string { return e.said }

// NotFoundError is the answer to a request about what is not there.
type NotFoundError struct{ said string }

// Error returns what the service answered.
func (e *NotFoundError) Error() string { return e.said }

// ServerMessage reads the message of an error answer, in one line.
func ServerMessage(body io.Reader) string {
	_, message := serverProblem(body)
	return message
}

// serverProblem reads the code and the message of an error answer; the code is empty where
// there is none.
func serverProblem(body io.Reader) (code, message string) {
	b, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil {
		return "", "the answer broke off"
	}
	var answer struct {
		Error api.Problem `json:"error"`
	}
	text := strings.TrimSpace(string(b))
	if json.Unmarshal(b, &answer) == nil && answer.Error.Message != "" {
		text = answer.Error.Message
		if answer.Error.Hint != "" {
			text += "; " + answer.Error.Hint
		}
	}
	if text == "" {
		text = "no reason given"
	}
	return answer.Error.Code, runview.Cut(runview.Cell(text), 2000)
}

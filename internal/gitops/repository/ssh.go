package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// sshCarrier runs git's two programs over SSH. The library's carrier has no
// context, so a host that accepts a connection and stays silent would block it
// forever. It also reads ~/.ssh/config, which belongs to the user.
type sshCarrier struct {
	at      address
	auth    Auth
	secrets *secrets
	refs    int64
}

func (s *sshCarrier) fetch(ctx context.Context) (fetching, error) {
	return s.open(ctx, transport.UploadPackServiceName)
}

func (s *sshCarrier) push(ctx context.Context) (pushing, error) {
	return s.open(ctx, transport.ReceivePackServiceName)
}

func (s *sshCarrier) hostPort() string {
	if _, _, err := net.SplitHostPort(s.at.host); err == nil {
		return s.at.host
	}
	return net.JoinHostPort(strings.Trim(s.at.host, "[]"), "22")
}

func (s *sshCarrier) config() (*ssh.ClientConfig, error) {
	signer, err := s.secrets.sshKey("ssh key file", s.auth.KeyFile, s.auth.PassphraseFile)
	if err != nil {
		return nil, err
	}
	known, err := knownhosts.NewDB(s.auth.KnownHostsFile)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Forbidden, Message: "known_hosts file " + s.auth.KnownHostsFile + " cannot be read", Err: err}
	}
	check := known.HostKeyCallback()
	return &ssh.ClientConfig{
		User: s.at.user,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			if err := check(host, remote, key); err != nil {
				return &hostKeyError{s.at.host, err}
			}
			return nil
		},
		HostKeyAlgorithms: known.HostKeyAlgorithms(s.hostPort()),
		ClientVersion:     "SSH-2.0-responder",
	}, nil
}

func (s *sshCarrier) open(ctx context.Context, service string) (*sshSession, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	conn, err := outbound.Dialer(10*time.Second).DialContext(ctx, "tcp", s.hostPort())
	if err != nil {
		return nil, err
	}
	// Closing the connection ends every read and write below.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	session := &sshSession{conn: conn, stop: stop, push: service == transport.ReceivePackServiceName, refs: s.refs}
	if err := session.start(conn, s.hostPort(), config, service+" "+quoted(home(s.at.path))); err != nil {
		_ = session.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return session, nil
}

// home removes the slash from /~user/path, like git.
func home(path string) string {
	if strings.HasPrefix(path, "/~") {
		return path[1:]
	}
	return path
}

// quoted returns a path in git's quoting for the remote shell.
func quoted(path string) string {
	return "'" + strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(path) + "'"
}

type sshSession struct {
	conn   net.Conn
	client *ssh.Client
	stop   func() bool
	push   bool
	refs   int64

	in     io.WriteCloser
	out    io.Reader
	stderr limitedBuffer
	ended  chan struct{} // closed when the program ended and all it printed was read
	adv    *packp.AdvRefs
}

func (s *sshSession) start(conn net.Conn, host string, config *ssh.ClientConfig, command string) error {
	c, channels, requests, err := ssh.NewClientConn(conn, host, config)
	if err != nil {
		if strings.Contains(err.Error(), "unable to authenticate") {
			return errSSHAuth
		}
		return err
	}
	s.client = ssh.NewClient(c, channels, requests)
	session, err := s.client.NewSession()
	if err != nil {
		return err
	}
	if s.in, err = session.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = session.StdoutPipe(); err != nil {
		return err
	}
	session.Stderr = &s.stderr
	if err := session.Start(command); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		_ = session.Wait() // the status says less than what was printed
		close(s.ended)
	}()
	return nil
}

// Close ends the connection.
func (s *sshSession) Close() error {
	s.stop()
	if s.client != nil {
		_ = s.client.Close()
	}
	_ = s.conn.Close()
	return nil
}

// AdvertisedReferencesContext reads the remote's references.
func (s *sshSession) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	if s.adv != nil {
		return s.adv, nil
	}
	adv := packp.NewAdvRefs()
	err := adv.Decode(outbound.Limit(s.out, s.refs, errTooLarge))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, packp.ErrEmptyAdvRefs) && s.push:
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return nil, transport.ErrEmptyRemoteRepository
	default:
		return nil, s.explain(ctx, err)
	}
	if adv.IsEmpty() && !s.push {
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(adv.Capabilities)
	s.adv = adv
	return adv, nil
}

// explain adds the output of the remote program to the error.
func (s *sshSession) explain(ctx context.Context, err error) error {
	select {
	case <-s.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	text := s.stderr.String()
	var line *pktline.ErrorLine
	if errors.As(err, &line) {
		text += line.Text
	}
	lower := strings.ToLower(text)
	for _, sign := range []string{"not found", "does not exist", "no such repository", "not appear to be a git repository", "could not be found"} {
		if strings.Contains(lower, sign) {
			return transport.ErrRepositoryNotFound
		}
	}
	for _, sign := range []string{"permission", "denied", "not allowed", "read-only", "read only"} {
		if strings.Contains(lower, sign) {
			return fmt.Errorf("%w: %s", transport.ErrAuthorizationFailed, text)
		}
	}
	if text != "" {
		return &pktline.ErrorLine{Text: text}
	}
	return err
}

// UploadPack asks for objects.
func (s *sshSession) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	var ask bytes.Buffer
	if err := req.UploadRequest.Encode(&ask); err != nil {
		return nil, err
	}
	if err := req.UploadHaves.Encode(&ask, true); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(&ask).EncodeString("done\n"); err != nil {
		return nil, err
	}
	if _, err := s.in.Write(ask.Bytes()); err != nil {
		return nil, s.explain(ctx, err)
	}
	_ = s.in.Close()
	resp := packp.NewUploadPackResponse(req)
	if err := resp.Decode(io.NopCloser(s.out)); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.explain(ctx, err)
	}
	return resp, nil
}

// ReceivePack sends objects and the reference to move.
func (s *sshSession) ReceivePack(ctx context.Context, req *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	if err := req.Encode(s.in); err != nil {
		return nil, err
	}
	_ = s.in.Close()
	out := s.out
	if req.Capabilities.Supports(capability.Sideband64k) {
		d := sideband.NewDemuxer(sideband.Sideband64k, out)
		d.Progress = req.Progress
		out = d
	}
	report := packp.NewReportStatus()
	if err := report.Decode(out); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return report, report.Error()
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	mu sync.Mutex // a library's goroutine writes while we read
	b  bytes.Buffer
}

// Write keeps up to 8 KiB and discards the rest.
func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := 8<<10 - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// String returns what was kept.
func (l *limitedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

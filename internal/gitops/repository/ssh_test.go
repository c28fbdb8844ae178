package repository

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

// sshServer runs git's own programs for one client key.
type sshServer struct {
	address string
	host    ssh.Signer
	bare    string
	deny    string // printed in place of running the program
}

func newSSHServer(t *testing.T, bare string, client ssh.PublicKey) *sshServer {
	t.Helper()
	_, host := sshKeyFile(t, "ed25519", "")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s := &sshServer{address: listener.Addr().String(), host: host, bare: bare}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.Marshal()) {
			return nil, fmt.Errorf("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, config)
		}
	}()
	return s
}

func (s *sshServer) serve(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				if r.Type != "exec" {
					_ = r.Reply(false, nil)
					continue
				}
				_ = r.Reply(true, nil)
				s.exec(channel, string(r.Payload[4:]))
			}
		}()
	}
}

func (s *sshServer) exec(channel ssh.Channel, command string) {
	defer channel.Close()
	status := byte(0)
	if s.deny != "" {
		_, _ = io.WriteString(channel.Stderr(), s.deny)
		status = 1
	} else {
		cmd := exec.Command("sh", "-c", strings.Replace(command, "'/fleet.git'", "'"+s.bare+"'", 1))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
		if cmd.Run() != nil {
			status = 128
		}
	}
	_, _ = channel.SendRequest("exit-status", false, []byte{0, 0, 0, status})
}

func (s *sshServer) known() string {
	host, port, _ := net.SplitHostPort(s.address)
	return fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(s.host.PublicKey()))
}

func (s *sshServer) options(t *testing.T, keyFile, known string) Options {
	t.Helper()
	return Options{
		URL: "ssh://git@" + s.address + "/fleet.git", Branch: "main", Dir: t.TempDir(), Depth: 1,
		Author: gitops.Person{Name: "responder", Email: "responder@example.com"},
		Auth:   Auth{KeyFile: keyFile, KnownHostsFile: secretFile(t, known)},
	}
}

func TestSSH(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": "a: 1\n"})
	base := s.Push("second", map[string]string{"a.yaml": manifest})
	keyFile, signer := sshKeyFile(t, "ed25519", "")
	server := newSSHServer(t, s.Bare, signer.PublicKey())
	r, err := New(server.options(t, keyFile, server.known()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := head(t, r); got != base {
		t.Errorf("head %s, want %s", got, base)
	}
	done, err := r.Commit(t.Context(), change192(base))
	if err != nil || s.Head("main") != done.SHA {
		t.Fatalf("commit %v, %v", done, err)
	}
	theirs := s.Push("somebody", map[string]string{"b.yaml": "b: 1\n"})
	if got := head(t, r); got != theirs {
		t.Errorf("head %s, want %s", got, theirs)
	}
	if log, err := r.Log(t.Context(), Window{}); err != nil || len(log) != 4 {
		t.Errorf("log %v, %v", log, err)
	}
	s.Hook("pre-receive", "echo 'no pushes on Fridays' >&2; exit 1")
	q := change192(theirs)
	q.Message.Effect, q.Files[0].Data = "other", []byte("a: 2\n")
	_, err = r.Commit(t.Context(), q)
	wantError(t, err, fault.Forbidden, "Fridays")
}

func TestSSHRefused(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	keyFile, signer := sshKeyFile(t, "ed25519", "")
	otherFile, other := sshKeyFile(t, "ed25519", "")
	server := newSSHServer(t, s.Bare, signer.PublicKey())
	changed := strings.Replace(server.known(), string(ssh.MarshalAuthorizedKey(server.host.PublicKey())), string(ssh.MarshalAuthorizedKey(other.PublicKey())), 1)
	for name, test := range map[string]struct {
		key, known, deny string
		reason           fault.Reason
		says             string
	}{
		"unknown host": {keyFile, "other.example.com " + string(ssh.MarshalAuthorizedKey(other.PublicKey())), "", fault.Forbidden, "known_hosts"},
		"changed host": {keyFile, changed, "", fault.Forbidden, "another host key"},
		"unknown key":  {otherFile, server.known(), "", fault.Forbidden, "credential"},
		"no key":       {"/nowhere/key", server.known(), "", fault.Forbidden, "/nowhere/key"},
		"hidden":       {keyFile, server.known(), "ERROR: Repository not found.\n", fault.NotFound, "no such repository"},
		"read only":    {keyFile, server.known(), "ERROR: Permission to acme/fleet.git denied to responder.\n", fault.Forbidden, "credential"},
	} {
		server.deny = test.deny
		r, err := New(server.options(t, test.key, test.known))
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Head(t.Context())
		if e := asError(t, err, test.reason, test.says); e.Unknown {
			t.Errorf("%s: unknown: %v", name, e)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSSHSilent: a host that takes the connection and says nothing.
func TestSSHSilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	keyFile, signer := sshKeyFile(t, "ed25519", "")
	server := &sshServer{address: listener.Addr().String(), host: signer}
	o := server.options(t, keyFile, server.known())
	o.Timeout = 200 * time.Millisecond
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = r.Head(t.Context())
	wantError(t, err, fault.Timeout)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Head(ctx)
	wantError(t, err, fault.Timeout)
}

// TestFile runs without the git program, as a sandbox does.
func TestFile(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	r := open(t, s, func(o *Options) { o.URL = "file://" + s.Bare })
	t.Setenv("PATH", "/nowhere")
	q := change192(head(t, r))
	done, err := r.Commit(t.Context(), q)
	if err != nil || s.Head("main") != done.SHA {
		t.Fatalf("commit %v, %v", done, err)
	}
	if again, err := r.Commit(t.Context(), q); err != nil || again.SHA != done.SHA {
		t.Errorf("again %v, %v", again, err)
	}
	q.Message.Effect = "other"
	_, err = r.Commit(t.Context(), q)
	wantError(t, err, fault.Conflict, done.SHA[:10])
	q.Branch = "responder/01RUN/cap"
	side, err := r.Commit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteBranch(t.Context(), q.Branch, side.SHA); err != nil || s.Head(q.Branch) != "" {
		t.Errorf("delete: %v", err)
	}
	if _, err := r.Revert(t.Context(), RevertRequest{Commits: []string{done.SHA}, Message: message("undo")}); err != nil {
		t.Fatal(err)
	}
	if got := s.Show("main", "a.yaml"); got != manifest {
		t.Errorf("a.yaml is\n%s", got)
	}
	_, err = open(t, s, func(o *Options) { o.URL = "file:///nowhere/fleet.git" }).Head(t.Context())
	wantError(t, err, fault.NotFound)
}

func TestConfigurationRefused(t *testing.T) {
	for says, o := range map[string]Options{
		"known_hosts":     {URL: "git@github.com:acme/fleet", Auth: Auth{KeyFile: "k"}},
		"no use over ssh": {URL: "git@github.com:acme/fleet", Auth: Auth{KeyFile: "k", KnownHostsFile: "h", TokenFile: "t"}},
		"SSH key":         {URL: "https://github.com/acme/fleet", Auth: Auth{KeyFile: "k"}},
		"no credential":   {URL: "file:///srv/fleet", Auth: Auth{TokenFile: "t"}},
		"token file":      {URL: "https://github.com/acme/fleet", Auth: Auth{Bearer: true}},
		"user name":       {URL: "https://github.com/acme/fleet", Auth: Auth{Bearer: true, Username: "u", TokenFile: "t"}},
		"CA file":         {URL: "https://github.com/acme/fleet", Auth: Auth{CAFile: "/nowhere/ca.pem"}},
		"branch":          {URL: "https://github.com/acme/fleet", Branch: "-x"},
		"author":          {URL: "https://github.com/acme/fleet", Author: gitops.Person{Name: "a\nb", Email: "x"}},
		"email":           {URL: "https://github.com/acme/fleet", Author: gitops.Person{Name: "a"}},
		"negative":        {URL: "https://github.com/acme/fleet", Depth: -1},
	} {
		o.Dir = t.TempDir()
		_, err := New(o)
		wantError(t, err, fault.Invalid, says)
	}
	_, err := New(Options{URL: "https://github.com/acme/fleet"})
	wantError(t, err, fault.Invalid, "dir")
}

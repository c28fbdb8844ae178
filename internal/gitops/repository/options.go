package repository

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/outbound"
)

// Options select a repository and configure access to it.
type Options struct {
	URL    string // https, http, ssh or file; user@host:path is ssh. Never with a password
	Branch string // empty: the remote's default branch
	Dir    string // for the clone that is kept warm; made when missing, used by one process

	Auth      Auth
	Author    gitops.Person // of commits; required to write
	Committer gitops.Person // empty: the author
	Signing   Signing       // empty: commits are not signed

	Depth   int           // commits fetched at first; 0: 200. More are fetched when history is asked for
	Timeout time.Duration // of one exchange with the remote; 0: 60 s
	Limits  Limits
	Log     *slog.Logger // nil: nothing is logged
}

// Auth holds the credentials for the remote. Files are read on each use, so they
// may be rotated.
type Auth struct {
	TokenFile string // http and https
	Username  string // for Basic with the token as password; empty: x-access-token
	Bearer    bool   // send the token as a Bearer token
	CAFile    string // PEM, in place of the system's

	KeyFile        string // ssh: private key
	PassphraseFile string // of the key, when it has one
	KnownHostsFile string // ssh: required, hosts that are not in it are refused
}

// Signing is the key that commits are signed with.
type Signing struct {
	SSHKeyFile     string // private key in OpenSSH's form
	OpenPGPKeyFile string // armored private key
	PassphraseFile string // of either, when it has one
}

// Limits limit what is taken from a remote. Zero values mean the defaults.
type Limits struct {
	Pack    int64 // bytes of one fetch; 1 GiB
	Refs    int64 // bytes of the list of references; 32 MiB, some 400,000 of them
	History int   // commits walked to answer one question; 20,000
	Changes int64 // bytes of one commit's new contents; 50 MiB
}

func (o *Options) defaults() {
	o.Depth = cmp.Or(o.Depth, 200)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Limits.Pack = cmp.Or(o.Limits.Pack, 1<<30)
	o.Limits.Refs = cmp.Or(o.Limits.Refs, 32<<20)
	o.Limits.History = cmp.Or(o.Limits.History, 20_000)
	o.Limits.Changes = cmp.Or(o.Limits.Changes, 50<<20)
	if o.Committer == (gitops.Person{}) {
		o.Committer = o.Author
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func (o *Options) validate() (address, error) {
	a, err := parseURL(o.URL)
	if err != nil {
		return address{}, err
	}
	if err := o.Auth.fits(a); err != nil {
		return address{}, err
	}
	if o.Dir == "" {
		return address{}, invalid("repository %s: dir is missing: name a directory for the clone", a)
	}
	if o.Branch != "" {
		if err := validBranch(o.Branch); err != nil {
			return address{}, err
		}
	}
	if err := validPerson("author", o.Author); err != nil {
		return address{}, err
	}
	if err := validPerson("committer", o.Committer); err != nil {
		return address{}, err
	}
	if o.Signing.SSHKeyFile != "" && o.Signing.OpenPGPKeyFile != "" {
		return address{}, invalid("repository %s: signing has an SSH key and an OpenPGP key: keep one", a)
	}
	l := o.Limits
	for _, n := range []int64{int64(o.Depth), int64(o.Timeout), l.Pack, l.Refs, int64(l.History), l.Changes} {
		if n < 0 {
			return address{}, invalid("repository %s: depth, timeout or one of the limits is negative", a)
		}
	}
	return a, nil
}

func (auth Auth) fits(a address) error {
	ssh := auth.KeyFile != "" || auth.KnownHostsFile != "" || auth.PassphraseFile != ""
	http := auth.TokenFile != "" || auth.Username != "" || auth.Bearer || auth.CAFile != ""
	switch {
	case a.scheme == "ssh" && (auth.KeyFile == "" || auth.KnownHostsFile == ""):
		return invalid("repository %s: ssh wants a key file and a known_hosts file (ssh-keyscan %s makes one; compare it with what the host publishes)", a, a.host)
	case a.scheme == "ssh" && http:
		return invalid("repository %s: a token, user name or CA file is of no use over ssh: use the https address, or remove it", a)
	case a.scheme != "ssh" && ssh:
		return invalid("repository %s: an SSH key is of no use over %s: use the ssh address, or remove it", a, a.scheme)
	case a.scheme == "file" && http:
		return invalid("repository %s: a file address takes no credential", a)
	case auth.Bearer && auth.Username != "":
		return invalid("repository %s: a Bearer token goes without a user name", a)
	case (auth.Bearer || auth.Username != "") && auth.TokenFile == "":
		return invalid("repository %s: the token file is missing", a)
	}
	return nil
}

// address is the address of a repository. It holds no credential and is safe to
// show.
type address struct {
	scheme string // https, http, ssh, file
	user   string // ssh only
	host   string // with the port, when it has one
	path   string
}

// String returns the URL.
func (a address) String() string {
	if a.scheme == "ssh" && !strings.HasPrefix(a.path, "/") {
		return a.user + "@" + a.host + ":" + a.path
	}
	u := url.URL{Scheme: a.scheme, Host: a.host, Path: a.path}
	if a.user != "" {
		u.User = url.User(a.user)
	}
	return u.String()
}

// parseURL parses an address. Errors do not repeat it: it may hold a password.
func parseURL(raw string) (address, error) {
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return address{}, invalid("repository url: holds spaces or control characters")
	}
	relative := ""
	if raw != "" && !strings.Contains(raw, "://") {
		// user@host:path is relative to the user's home, which ssh:// cannot say.
		host, path, ok := strings.Cut(raw, ":")
		if !ok || strings.Contains(host, "/") {
			return address{}, invalid("repository url: want https://host/path, ssh://user@host/path, user@host:path or file:///path")
		}
		if raw = "ssh://" + host + "/" + strings.TrimPrefix(path, "/"); !strings.HasPrefix(path, "/") {
			relative = path
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return address{}, invalid("repository url: cannot be read as a URL")
	}
	_, password := u.User.Password()
	switch {
	case password, u.User != nil && u.Scheme != "ssh":
		return address{}, invalid("repository url: holds credentials, which end up in logs: use a token file")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return address{}, invalid("repository url: has a query (?...) or a fragment (#...), which a repository's address has not")
	}
	a := address{scheme: u.Scheme, host: u.Host, path: u.Path}
	switch u.Scheme {
	case "https", "http", "ssh":
		if u.Scheme == "ssh" {
			a.user = cmp.Or(u.User.Username(), "git")
		}
		if u.Host == "" || strings.Trim(u.Path, "/") == "" {
			return address{}, invalid("repository url: host or path is missing")
		}
		if strings.HasPrefix(u.Host, "-") || strings.HasPrefix(a.user, "-") {
			return address{}, invalid("repository url: the host looks like an option")
		}
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return address{}, invalid("repository url: file wants three slashes: file:///path")
		}
		a.host = ""
		if !filepath.IsAbs(u.Path) {
			return address{}, invalid("repository url: file wants an absolute path")
		}
	default:
		return address{}, invalid("repository url: want https, http, ssh or file")
	}
	if err := outbound.AllowedURL(u); err != nil {
		return address{}, &fault.Error{Reason: fault.Invalid, Message: "repository url", Err: err}
	}
	a.path = cmp.Or(relative, a.path)
	return a, nil
}

// validBranch applies git's rules for names of branches.
func validBranch(name string) error {
	bad := name == "" || len(name) > 200 || name == "@" || strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) })
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return invalid("branch %q: git does not allow this name", outbound.Cut(name, 80))
	}
	return nil
}

func validPerson(what string, p gitops.Person) error {
	for _, s := range []string{p.Name, p.Email} {
		if strings.ContainsFunc(s, func(r rune) bool { return r == '<' || r == '>' || unicode.IsControl(r) }) {
			return invalid("%s %q: holds < or > or a control character", what, outbound.Cut(s, 80))
		}
	}
	if (p.Name == "") != (p.Email == "") {
		return invalid("%s: wants a name and an email", what)
	}
	return nil
}

func invalid(format string, args ...any) *fault.Error {
	return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(format, args...)}
}

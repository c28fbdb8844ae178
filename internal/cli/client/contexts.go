package client

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/spelling"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Context names a service and the credential for it. It contains paths of files and no
// secret.
type Context struct {
	Name      string `json:"name" yaml:"-"`
	Server    string `json:"server" yaml:"server"`
	TokenFile string `json:"tokenFile,omitempty" yaml:"token_file,omitempty"` // absolute, as the other paths; empty: none
	CertFile  string `json:"certFile,omitempty" yaml:"cert_file,omitempty"`
	KeyFile   string `json:"keyFile,omitempty" yaml:"key_file,omitempty"`
	CAFile    string `json:"caFile,omitempty" yaml:"ca_file,omitempty"`
}

// Contexts is the content of the file of contexts.
type Contexts struct {
	File    string
	Current string    // name of the one that is used without --context; empty: none
	All     []Context // by name
}

// maxContexts bounds the file, in bytes.
const maxContexts = 1 << 20

var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// contextsFile returns the path of the file; empty if the environment names no
// directory for it.
func contextsFile(getenv func(string) string) (string, error) {
	dir := getenv("XDG_CONFIG_HOME")
	switch {
	case dir != "" && !filepath.IsAbs(dir):
		return "", fmt.Errorf("$XDG_CONFIG_HOME is %q, which is no absolute path; contexts are kept in its responder/contexts.yaml", dir)
	case dir == "" && getenv("HOME") == "":
		return "", nil
	case dir == "":
		dir = filepath.Join(getenv("HOME"), ".config")
	}
	return filepath.Join(dir, "responder", "contexts.yaml"), nil
}

// ReadContexts reads the file of contexts: $XDG_CONFIG_HOME/responder/contexts.yaml,
// or below ~/.config. There are none if it does not exist. A file that others may
// write or replace is an error, because it says where tokens are sent.
func ReadContexts(getenv func(string) string) (Contexts, error) {
	file, err := contextsFile(getenv)
	if err != nil || file == "" {
		return Contexts{}, err
	}
	data, err := readOwn(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Contexts{File: file}, nil
	case err != nil:
		return Contexts{}, fmt.Errorf("read contexts: %w", err)
	}
	return parseContexts(file, data)
}

func parseContexts(file string, data []byte) (Contexts, error) {
	c := Contexts{File: file}
	var problems yamldoc.Problems
	doc := yamldoc.Single(file, data, maxContexts, &problems)
	if doc == nil {
		return c, problems.Err() // an empty file is no error
	}
	if root := doc.Mapping(doc.Root, "", "current", "contexts"); root != nil {
		c.Current = root.Text("current")
		if n := root.Get("contexts"); n != nil {
			if all := doc.Mapping(n, "contexts"); all != nil {
				for _, pair := range all.Pairs {
					c.All = append(c.All, parseContext(doc, pair))
				}
			}
		}
		if _, known := c.find(c.Current); c.Current != "" && !known {
			doc.Report(root.Get("current"), "current", fmt.Sprintf("no context is named %q", yamldoc.Clip(c.Current)), yamldoc.DidYouMean(c.Current, c.Names()))
		}
	}
	slices.SortFunc(c.All, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
	return c, problems.Err()
}

func parseContext(doc *yamldoc.Document, pair yamldoc.Pair) Context {
	at := "contexts." + pair.Name
	c := Context{Name: pair.Name}
	if !contextName.MatchString(pair.Name) {
		doc.Report(pair.Key, "contexts", fmt.Sprintf("%q is no name of a context", yamldoc.Clip(pair.Name)), badContextName)
	}
	f := doc.Mapping(pair.Value, at, "server", "token_file", "cert_file", "key_file", "ca_file")
	if f == nil {
		return c
	}
	f.Need("server", "write its URL, like "+defaultServer)
	c.Server, c.TokenFile, c.CertFile, c.KeyFile, c.CAFile = f.Text("server"), f.Text("token_file"), f.Text("cert_file"), f.Text("key_file"), f.Text("ca_file")
	if _, err := serverURL(c.Server); c.Server != "" && err != nil {
		doc.Report(f.Get("server"), f.At("server"), err.Error(), "")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		doc.Report(pair.Key, at, "a certificate and its key go together", "set cert_file and key_file")
	}
	for name, path := range map[string]string{"token_file": c.TokenFile, "cert_file": c.CertFile, "key_file": c.KeyFile, "ca_file": c.CAFile} {
		if path != "" && !filepath.IsAbs(path) {
			doc.Report(f.Get(name), f.At(name), "want an absolute path", "commands run in any directory") // not shown: somebody may have written a token
		}
	}
	return c
}

const badContextName = "write it like prod, with letters, digits, '.', '_' and '-'"

// Names lists the names of the contexts.
func (c Contexts) Names() []string {
	var names []string
	for _, one := range c.All {
		names = append(names, one.Name)
	}
	return names
}

func (c Contexts) find(name string) (Context, bool) {
	i := slices.IndexFunc(c.All, func(one Context) bool { return one.Name == name })
	if i < 0 {
		return Context{}, false
	}
	return c.All[i], true
}

// Named returns the context of that name. An unknown name is an error that lists
// the known ones.
func (c Contexts) Named(name string) (Context, error) {
	if one, ok := c.find(name); ok {
		return one, nil
	}
	hint := "there is none; 'responder config set-context' makes one"
	if names := c.Names(); len(names) > 0 {
		hint = "there is " + strings.Join(names, ", ")
		if near := spelling.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q? ", near) + hint
		}
	}
	return Context{}, fmt.Errorf("no context is named %q in %s; %s", name, c.File, hint)
}

// Set adds a context, or replaces the one of its name.
func (c *Contexts) Set(one Context) error {
	if !contextName.MatchString(one.Name) {
		return fmt.Errorf("%q is no name of a context; %s", one.Name, badContextName)
	}
	if _, err := serverURL(one.Server); err != nil {
		return err
	}
	if (one.CertFile == "") != (one.KeyFile == "") {
		return errors.New("a certificate and its key go together; --cert-file and --key-file name them")
	}
	c.All = slices.DeleteFunc(c.All, func(o Context) bool { return o.Name == one.Name })
	c.All = append(c.All, one)
	return nil
}

// Write replaces the file as a whole. Only its owner can read it.
func (c Contexts) Write() (err error) {
	if c.File == "" {
		return errors.New("write contexts: neither $XDG_CONFIG_HOME nor $HOME is set, so there is no place for them")
	}
	all := map[string]Context{}
	for _, one := range c.All {
		all[one.Name] = one
	}
	var data bytes.Buffer
	e := yaml.NewEncoder(&data)
	e.SetIndent(2)
	if err := e.Encode(struct {
		Current  string             `yaml:"current,omitempty"`
		Contexts map[string]Context `yaml:"contexts"`
	}{c.Current, all}); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	dir := filepath.Dir(c.File)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	tmp, err := os.CreateTemp(dir, "contexts.yaml.*") // mode 0600
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write contexts: %w", errors.Join(err, os.Remove(tmp.Name())))
		}
	}()
	_, err = tmp.Write(data.Bytes())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), c.File)
}

// settle returns the server and the credentials: those of flags first, then those of the
// context that --context names, of the environment, and of the current context. A
// context is used as a whole or not at all: the current one's token is never sent to a
// server that a flag or the environment names, and no credential of the environment to
// the server of a context: for that, the environment says only what a context does not, its
// CA and whether plain http will do.
func (c *Client) settle() (server string, from Credentials, err error) {
	getenv := c.Process.Getenv
	server, from = c.Server, c.Credentials
	inContext := c.context != ""
	if inContext {
		named, err := c.namedContext(c.context)
		if err != nil {
			return "", from, err
		}
		server, from = named.fill(server, from)
	}
	if server == "" {
		server = getenv(serverVariable)
	}
	if server == "" {
		all, err := ReadContexts(getenv)
		if err != nil {
			return "", from, fmt.Errorf("%w; --server or $%s names the service without it", err, serverVariable)
		}
		var current Context
		if current, inContext = all.find(all.Current); inContext {
			server, from = current.fill(server, from)
		}
	}
	credentials := getenv
	if inContext {
		credentials = func(string) string { return "" }
	}
	if from, err = from.complete(getenv, credentials); err != nil {
		return "", from, err
	}
	if server == "" {
		server = defaultServer
	}
	server, err = serverURL(server)
	return server, from, err
}

func (c *Client) namedContext(name string) (Context, error) {
	all, err := ReadContexts(c.Process.Getenv)
	if err != nil {
		return Context{}, err
	}
	return all.Named(name)
}

// fill adds the server, the credential and the CA of a context where they are missing.
func (one Context) fill(server string, from Credentials) (string, Credentials) {
	if server == "" {
		server = one.Server
	}
	if from.kind() == "" && from.passwordFile == "" && from.keyFile == "" {
		from.TokenFile, from.certFile, from.keyFile = one.TokenFile, one.CertFile, one.KeyFile
	}
	if from.caFile == "" {
		from.caFile = one.CAFile
	}
	return server, from
}

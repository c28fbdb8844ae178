package client

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inference-responder/responder/internal/cli/command"
)

// writeContexts stores a file of contexts and returns its directory.
func writeContexts(t *testing.T, text string, mode os.FileMode) (home string) {
	t.Helper()
	home = t.TempDir()
	dir := filepath.Join(home, ".config", "responder")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "contexts.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	return home
}

const twoContexts = `current: prod
contexts:
  prod: {server: 'https://prod.example', token_file: /prod.token, ca_file: /prod.ca}
  lab: {server: 'https://lab.example', cert_file: /lab.crt, key_file: /lab.key}
  bare: {server: 'https://bare.example'}
`

// A flag comes before a named context, that before the environment, and that before
// the current context. The token of the current context goes to no other server.
func TestPrecedenceOfContexts(t *testing.T) {
	home := writeContexts(t, twoContexts, 0o600)
	type found struct{ server, token, user, cert, ca string }
	for name, c := range map[string]struct {
		flags Client
		env   map[string]string
		want  found
	}{
		"the current one":                  {Client{}, nil, found{server: "https://prod.example", token: "/prod.token", ca: "/prod.ca"}},
		"a named one":                      {Client{context: "lab"}, nil, found{server: "https://lab.example", cert: "/lab.crt"}},
		"a named one before the variables": {Client{context: "lab"}, map[string]string{serverVariable: "https://env.example"}, found{server: "https://lab.example", cert: "/lab.crt"}},
		"a flag before the named one": {
			Client{context: "prod", Server: "https://flag.example", Credentials: Credentials{TokenFile: "/flag.token"}},
			nil,
			found{server: "https://flag.example", token: "/flag.token", ca: "/prod.ca"},
		},
		"a server of a flag gets no token": {Client{Server: "https://flag.example"}, nil, found{server: "https://flag.example"}},
		"a server of the environment gets no token": {
			Client{}, map[string]string{serverVariable: "https://env.example"}, found{server: "https://env.example"},
		},
		"a user of a flag": {
			Client{Credentials: Credentials{user: "ada", passwordFile: "/pw"}},
			nil,
			found{server: "https://prod.example", user: "ada", ca: "/prod.ca"},
		},
		"no token of the environment": {
			Client{}, map[string]string{tokenVariable: "/env.token"}, found{server: "https://prod.example", token: "/prod.token", ca: "/prod.ca"},
		},
		"no token of the environment for a context without one": {
			Client{context: "bare"}, map[string]string{tokenVariable: "/env.token", certVariable: "/c", keyVariable: "/k"}, found{server: "https://bare.example"},
		},
		"a token of the environment for its server": {
			Client{}, map[string]string{tokenVariable: "/env.token", serverVariable: "https://env.example"}, found{server: "https://env.example", token: "/env.token"},
		},
		"a CA of the environment": {
			Client{context: "bare"}, map[string]string{caVariable: "/env.ca"}, found{server: "https://bare.example", ca: "/env.ca"},
		},
	} {
		client := c.flags
		client.Process = &command.Process{Getenv: func(v string) string {
			if v == "HOME" {
				return home
			}
			return c.env[v]
		}}
		server, from, err := client.settle()
		got := found{server, from.TokenFile, from.user, from.certFile, from.caFile}
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestNoContexts(t *testing.T) {
	for _, env := range []map[string]string{{}, {"HOME": t.TempDir()}, {"HOME": writeContexts(t, "", 0o600)}} {
		client := Client{Process: &command.Process{Getenv: func(v string) string { return env[v] }}}
		if server, from, err := client.settle(); server != defaultServer || from.kind() != "" || err != nil {
			t.Errorf("%v: %s, %q, %v", env, server, from.kind(), err)
		}
		client.context = "prod"
		if _, _, err := client.settle(); err == nil || !strings.Contains(err.Error(), `no context is named "prod"`) {
			t.Errorf("%v: a context that is not there: %v", env, err)
		}
	}
}

// What is wrong with the file is said with its place, and what could be a token is not
// repeated.
func TestWrongContexts(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		mode       os.FileMode
	}{
		"an unknown field":    {"contexts:\n  prod: {server: 'https://a.example', token: s3cret}\n", `contexts.yaml:2:39: contexts.prod: unknown field "token" (`, 0o600},
		"no server":           {"contexts:\n  prod: {ca_file: /ca}\n", "contexts.yaml:2:9: contexts.prod: missing field server", 0o600},
		"no URL":              {"contexts:\n  prod: {server: prod.example}\n", `contexts.yaml:2:18: contexts.prod.server: server "prod.example" is not a URL`, 0o600},
		"a relative path":     {"contexts:\n  prod: {server: 'https://a.example', token_file: s3cret}\n", "contexts.yaml:2:51: contexts.prod.token_file: want an absolute path", 0o600},
		"half a certificate":  {"contexts:\n  prod: {server: 'https://a.example', key_file: /k}\n", "contexts.yaml:2:3: contexts.prod: a certificate and its key go together", 0o600},
		"an unknown current":  {"current: prdo\ncontexts:\n  prod: {server: 'https://a.example'}\n", `contexts.yaml:1:10: current: no context is named "prdo" (did you mean "prod"?`, 0o600},
		"a name with a blank": {"contexts:\n  'a b': {server: 'https://a.example'}\n", `contexts.yaml:2:3: contexts: "a b" is no name of a context`, 0o600},
		"an indentation":      {"contexts:\n  prod:\n    server: 'https://a.example'\n   ca_file: /ca\n", `invalid YAML: did not find expected key (look below this line too: for another indentation, or`, 0o600},
		"a file of others":    {twoContexts, "others may write", 0o620},
	} {
		home := writeContexts(t, c.text, c.mode)
		_, err := ReadContexts(func(v string) string { return map[string]string{"HOME": home}[v] })
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := ReadContexts(func(string) string { return "relative" }); err == nil {
		t.Error("a relative directory was taken")
	}
}

// TestContextsOfOthers: a file that somebody else may replace, or owns, is not read.
func TestContextsOfOthers(t *testing.T) {
	home := writeContexts(t, twoContexts, 0o600)
	dir := filepath.Join(home, ".config", "responder")
	file := filepath.Join(dir, "contexts.yaml")
	read := func() error {
		_, err := ReadContexts(func(v string) string { return map[string]string{"HOME": home}[v] })
		return err
	}
	for mode, want := range map[os.FileMode]string{0o700: "", 0o777 | os.ModeSticky: "", 0o777: "chmod go-w " + dir} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := read(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a directory of mode %s: %v, want %q", mode, err, want)
		}
	}
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chmod(dir, 0o775), os.Chown(dir, 0, 0)); err != nil {
			t.Fatal(err)
		}
		if err := read(); err != nil {
			t.Errorf("a directory that root's group writes: %v", err)
		}
		if err := os.Chown(dir, -1, 12345); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), "chmod go-w "+dir) {
			t.Errorf("a directory that some group writes: %v", err)
		}
		if err := os.Chown(dir, unmapped, 0); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), "stands for every user outside this user namespace; name the service by --server and --token-file") {
			t.Errorf("a directory of a user namespace: %v", err)
		}
		if err := os.Chown(dir, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "others")
	if err := errors.Join(os.Mkdir(elsewhere, 0o700), os.Chmod(elsewhere, 0o777), os.Rename(file, filepath.Join(elsewhere, "c")), os.Symlink(filepath.Join(elsewhere, "c"), file)); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == nil || !strings.Contains(err.Error(), "others may write "+elsewhere) {
		t.Errorf("a link to where others may write: %v", err)
	}
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chmod(elsewhere, 0o700), os.Chown(filepath.Join(elsewhere, "c"), 12345, -1)); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), "belongs to the user with ID 12345") {
			t.Errorf("a file of somebody else: %v", err)
		}
		own := filepath.Join(t.TempDir(), "own")
		if err := errors.Join(os.Rename(filepath.Join(elsewhere, "c"), own), os.Chown(own, 0, -1), os.Symlink(own, filepath.Join(elsewhere, "c")), os.Chown(elsewhere, 12345, -1)); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), elsewhere+" belongs to the user with ID 12345") {
			t.Errorf("a link through a directory of somebody else, who may turn it: %v", err)
		}
	}
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

// TestPrivateGroup: a group is private if nobody else is in it, as far as the machine's own
// files tell.
func TestPrivateGroup(t *testing.T) {
	const passwd = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n"
	const groups = "root:x:0:\nada:x:1000:\nops:x:2000:ada\n"
	for name, c := range map[string]struct {
		passwd, groups string
		group          int
		want           bool
	}{
		"her own":               {passwd, groups, 1000, true},
		"listed in it herself":  {passwd, strings.Replace(groups, "1000:", "1000:ada", 1), 1000, true},
		"another member":        {passwd, strings.Replace(groups, "1000:", "1000:bob", 1), 1000, false},
		"a second line of it":   {passwd, groups + "other:x:1000:bob\n", 1000, false},
		"another one's primary": {passwd + "bob:x:1001:1000::/home/bob:/bin/sh\n", groups, 1000, false},
		"not her primary":       {passwd, groups, 2000, false},
		"another name":          {passwd, strings.Replace(groups, "ada:", "users:", 1), 1000, false},
		"an unknown user":       {"", groups, 1000, false},
		"an unknown group":      {passwd, "", 1000, false},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"passwd": c.passwd, "group": c.groups} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := isPrivate(c.group, 1000, filepath.Join(dir, "passwd"), filepath.Join(dir, "group")); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// FuzzOwnPath: wherever links lead, a path is the one that the system follows, and goes
// through no directory that others may write.
func FuzzOwnPath(f *testing.F) {
	for _, s := range [][2]string{{"a/f", "."}, {"l/f", "a"}, {"l/f", "open"}, {"open/../a/f", "x"}, {"l", "l"}, {"l/f", "../a/../a"}, {"a/../open/f", ""}, {"l//f", "/"}, {"l/./f", "a/l2"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, path, target string) {
		dir := t.TempDir()
		open := filepath.Join(dir, "open")
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o700), os.Mkdir(open, 0o700), os.Chmod(open, 0o777),
			os.WriteFile(filepath.Join(dir, "a", "f"), nil, 0o600), os.WriteFile(filepath.Join(open, "f"), nil, 0o600), os.Symlink("../open", filepath.Join(dir, "a", "l2"))); err != nil {
			t.Fatal(err)
		}
		if os.Symlink(target, filepath.Join(dir, "l")) != nil {
			t.Skip()
		}
		got, err := ownPath(dir + "/" + path)
		if err != nil {
			return
		}
		if want, err := filepath.EvalSymlinks(dir + "/" + path); err == nil && got != want {
			t.Errorf("%q with a link to %q is %s, want %s", path, target, got, want)
		}
		if strings.HasPrefix(got, open+"/") {
			t.Errorf("%q with a link to %q leads to %s, which others may replace", path, target, got)
		}
	})
}

// TestWayToContexts: every directory and link on the way to the file counts.
func TestWayToContexts(t *testing.T) {
	home := writeContexts(t, twoContexts, 0o600)
	read := func() error {
		_, err := ReadContexts(func(v string) string { return map[string]string{"HOME": home}[v] })
		return err
	}
	if err := os.Chmod(home, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == nil || !strings.Contains(err.Error(), "others may write "+home) {
		t.Errorf("a home directory that others write: %v", err)
	}
	dir := filepath.Join(home, ".config", "responder")
	mine, others := filepath.Join(t.TempDir(), "mine"), filepath.Join(t.TempDir(), "others")
	if err := errors.Join(os.Chmod(home, 0o700), os.Mkdir(mine, 0o700), os.Mkdir(others, 0o700), os.Rename(dir, filepath.Join(mine, "responder")),
		os.Symlink(mine, filepath.Join(others, "x")), os.Symlink(filepath.Join(others, "x", "responder"), dir)); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Errorf("links of one's own: %v", err)
	}
	if err := os.Chmod(others, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == nil || !strings.Contains(err.Error(), "others may write "+others) {
		t.Errorf("a link in the middle that others may turn: %v", err)
	}
	if err := errors.Join(os.Remove(dir), os.Symlink(dir, dir)); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == nil {
		t.Error("a loop is read")
	}
	if err := errors.Join(os.Remove(dir), os.Chmod(home, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Errorf("no contexts, and a home directory that others write: %v", err)
	}
}

// TestEnvironmentOfContexts: for the server of a context, named or current, the environment
// says whether plain http will do, and names a CA where the context names none.
func TestEnvironmentOfContexts(t *testing.T) {
	home := writeContexts(t, strings.ReplaceAll(twoContexts, "https://", "http://"), 0o600)
	for _, name := range []string{"", "prod"} {
		env := map[string]string{"HOME": home, clearVariable: "true", caVariable: "/env.ca"}
		client := Client{context: name, Process: &command.Process{Getenv: func(v string) string { return env[v] }}}
		server, from, err := client.settle()
		if err != nil || from.TokenFile != "/prod.token" || from.caFile != "/prod.ca" || from.keepsSecret(server) != nil {
			t.Errorf("context %q: %+v, %v, %v", name, from, err, from.keepsSecret(server))
		}
	}
}

// The file is its owner's, and reads back as it was written.
func TestContextsAreKept(t *testing.T) {
	home := t.TempDir()
	getenv := func(v string) string { return map[string]string{"XDG_CONFIG_HOME": home}[v] }
	all, err := ReadContexts(getenv)
	if err != nil {
		t.Fatal(err)
	}
	want := Context{Name: "prod", Server: "https://a.example", TokenFile: "/t", CAFile: "/ca"}
	all.Current = "prod"
	if err := all.Set(want); err != nil {
		t.Fatal(err)
	}
	if err := all.Set(Context{Name: "a b", Server: "https://a.example"}); err == nil {
		t.Error("a name with a blank was taken")
	}
	for range 2 { // replacing it, too
		if err := all.Write(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(home, "responder", "contexts.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Join(home, "responder"))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	again, err := ReadContexts(getenv)
	if got, named := again.Named("prod"); err != nil || named != nil || got != want || again.Current != "prod" {
		t.Errorf("read back as %+v, %v, %v", again, err, named)
	}
}

package config

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/setting"
)

// Gitops is where the manifests of services are and who deploys them.
type Gitops struct {
	Repositories []Repository `yaml:"repositories" doc:"The Git repositories that hold manifests. A service names one in its gitops, or its Argo CD application does."`
	Author       personName   `yaml:"author" doc:"Who our commits are by."`
	Signing      Signing      `yaml:"signing" doc:"What our commits are signed with. Left out: they are not signed."`
	Dir          string       `yaml:"dir" doc:"Directory in which clones are kept warm. Empty: git in journal.dir. What is lost there is fetched again."`
	ArgoCD       *ArgoCD      `yaml:"argocd" doc:"The Argo CD that deploys them."`
	Flux         Flux         `yaml:"flux" doc:"The Flux that deploys them, in the same cluster."`
}

type personName struct {
	Name  string `yaml:"name" doc:"Name."`
	Email string `yaml:"email" doc:"E-mail address."`
}

// Signing is the key that signs commits.
type Signing struct {
	SSHKeyFile     string `yaml:"ssh_key_file" doc:"File with a private SSH key. This or openpgp_key_file."`
	OpenPGPKeyFile string `yaml:"openpgp_key_file" doc:"File with an armored OpenPGP private key."`
	PassphraseFile string `yaml:"passphrase_file" doc:"File with the passphrase of either."`
}

// Repository is one Git repository.
type Repository struct {
	URL     string        `yaml:"url" doc:"Address without credentials: https, ssh or file."`
	Branch  string        `yaml:"branch" doc:"Branch, where neither the service nor its application names one. Empty: the repository's default branch."`
	Auth    GitAuth       `yaml:"auth" doc:"How the server knows us. Files are read when they are needed, so that they may be rotated."`
	Way     string        `yaml:"way" enum:"auto,push,pull_request" doc:"push commits to the branch itself; pull_request opens one and follows it to its end; auto asks the forge whether the branch is protected, and opens one where it is. Default: auto with forge, push without."`
	Forge   *Forge        `yaml:"forge" doc:"Where pull requests are opened. Required for every way but push."`
	Timeout time.Duration `yaml:"timeout" doc:"Of one exchange with the server. 0: 1m."`
}

// GitAuth is the credential of a repository.
type GitAuth struct {
	TokenFile      string `yaml:"token_file" doc:"https: file with a token."`
	Username       string `yaml:"username" doc:"https: user name that goes with the token. Default: x-access-token."`
	Bearer         bool   `yaml:"bearer" doc:"https: send the token as a Bearer token."`
	Plaintext      bool   `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	CAFile         string `yaml:"ca_file" doc:"https: PEM certificates that vouch for the server, in place of the system's."`
	KeyFile        string `yaml:"key_file" doc:"ssh: file with the private key."`
	PassphraseFile string `yaml:"passphrase_file" doc:"ssh: file with its passphrase."`
	KnownHostsFile string `yaml:"known_hosts_file" doc:"ssh: file with the server's keys; a server that is not in it is refused."`
}

// Forge is where pull requests of a repository are opened.
type Forge struct {
	Kind       string `yaml:"kind" enum:"github,gitlab,gitea" doc:"Whose API it is. Forgejo speaks gitea's."`
	API        string `yaml:"api" doc:"Base of the API, e.g. https://git.example/api/v1. Default: of github.com and gitlab.com."`
	Repository string `yaml:"repository" doc:"OWNER/NAME. Default: the path of url."`
	TokenFile  string `yaml:"token_file" doc:"File with a token that may open and close pull requests."`
	CAFile     string `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	Plaintext  bool   `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	Method     string `yaml:"method" enum:"merge,squash,rebase" doc:"How a pull request is merged. Default: merge."`

	MergeWithin time.Duration `yaml:"merge_within" doc:"How long a pull request may wait for reviews, checks and its merge; then it is closed, and the run goes on. The service is locked for other runs meanwhile. From 1m to 24h. 0: 1h. Who merges is said by a policy (merge)."`
}

// ArgoCD names the Argo CD server.
type ArgoCD struct {
	Server     string        `yaml:"server" doc:"Address of its API server, HOST or HOST:PORT."`
	URL        string        `yaml:"url" doc:"Address of its page for people; a run's page links its application there. Empty: it does not."`
	TokenFile  string        `yaml:"token_file" doc:"File with a token of an account or project role that may get and sync applications, and nothing else."`
	CAFile     string        `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	ServerName string        `yaml:"server_name" doc:"Name in the server's certificate. Default: the host."`
	Plaintext  bool          `yaml:"plaintext" doc:"Speak without TLS: the token is readable on the way."`
	GRPCWeb    bool          `yaml:"grpc_web" doc:"For a proxy in front of it that passes no HTTP/2 on."`
	Root       string        `yaml:"root" doc:"With grpc_web: the path that the server is below."`
	Timeout    time.Duration `yaml:"timeout" doc:"Of one request. 0: 15s."`
	Recovery   time.Duration `yaml:"recovery" doc:"How long an application may be Degraded after the sync of our commit before the commit is taken back: pods take their time. At most 1h. 0: 3m."`
}

// Flux configures the use of Kustomizations of Flux.
type Flux struct {
	Enabled bool `yaml:"enabled" doc:"Change in Git what a Kustomization of Flux deploys, and follow it until Flux has applied the commit. The labels of the workload tell which Kustomization it is. Its source has to be a GitRepository that follows a branch. Of a HelmRelease that it deploys, the values in its manifest are changed, and it has to be Ready. It needs the role responder-flux."`
}

// Configured reports whether anything of Git is.
func (g Gitops) Configured() bool {
	return len(g.Repositories) > 0 || g.ArgoCD != nil || g.Flux.Enabled
}

// checkGitops finds what is wrong with the repositories and Argo CD.
func (c *Config) checkGitops(bad setting.Report) {
	g := c.Gitops
	seen := map[string]string{}
	for i, r := range g.Repositories {
		at := fmt.Sprintf("gitops.repositories[%d]", i)
		r.check(at, bad)
		name := gitops.RepositoryName(r.URL)
		if other, twice := seen[name]; twice {
			bad(at+".url", "a service names the branch it needs", "is the repository of %s too", other)
		}
		seen[name] = at
	}
	if len(g.Repositories) > 0 && (g.Author.Name == "" || g.Author.Email == "") {
		bad("gitops.author", "e.g. {name: responder, email: responder@example.com}", "commits need a name and an e-mail address")
	}
	if g.Signing.SSHKeyFile != "" && g.Signing.OpenPGPKeyFile != "" {
		bad("gitops.signing", "keep one", "an SSH key and an OpenPGP key exclude each other")
	}
	if a := g.ArgoCD; a != nil {
		if a.Server == "" || strings.Contains(a.Server, "/") {
			bad("gitops.argocd.server", "write it like argocd-server.argocd:443", "%q is not an address", runview.Cut(a.Server, 100))
		}
		if a.URL != "" && !setting.IsHTTP(a.URL) {
			bad("gitops.argocd.url", "write it like https://argocd.example", "%s is not a URL", setting.QuotedURL(a.URL))
		}
		if a.TokenFile == "" {
			bad("gitops.argocd.token_file", "", "must name a file")
		}
		if a.Root != "" && !a.GRPCWeb {
			bad("gitops.argocd.root", "set grpc_web", "counts with grpc_web only")
		}
		if a.Timeout < 0 {
			bad("gitops.argocd.timeout", "", "must not be negative")
		}
		if a.Recovery < 0 || a.Recovery > time.Hour {
			bad("gitops.argocd.recovery", "e.g. 3m", "%s is not between 0 and 1h", a.Recovery)
		}
	}
	if g.Flux.Enabled && !c.Kubernetes.Configured() {
		bad("gitops.flux.enabled", "set kubernetes", "needs the cluster in which Flux runs")
	}
	if len(g.Repositories) > 0 && g.ArgoCD == nil && !g.Flux.Enabled {
		bad("gitops.argocd", "name the Argo CD that deploys the repositories, or set gitops.flux.enabled", "is missing: a commit would be made and nobody asked whether it is deployed")
	}
}

// check finds what is wrong with one repository. What may hold a password is
// not repeated.
func (r Repository) check(at string, bad setting.Report) {
	u, err := url.Parse(r.URL)
	switch scp := strings.Contains(r.URL, ":") && !strings.Contains(r.URL, "://"); {
	case r.URL == "":
		bad(at+".url", "", "must name a repository")
	case scp:
	case err != nil || u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh" && u.Scheme != "file":
		bad(at+".url", "write it like https://git.example/ml/serving", "is no https, ssh or file address")
	case u.User != nil && u.Scheme != "ssh":
		bad(at+".url", "put them into auth, as files", "holds credentials")
	}
	if r.Timeout < 0 {
		bad(at+".timeout", "", "must not be negative")
	}
	switch f := r.Forge; {
	case f == nil && (r.Way == "pull_request" || r.Way == "auto"):
		bad(at+".forge", "name kind and token_file", "is missing: pull requests are opened there")
	case f != nil && r.Way == "push":
		bad(at+".forge", "leave it out, or set way: auto", "is of no use for way: push")
	case f == nil:
	case f.MergeWithin != 0 && (f.MergeWithin < time.Minute || f.MergeWithin > 24*time.Hour):
		bad(at+".forge.merge_within", "e.g. 1h", "%s is not between 1m and 24h", f.MergeWithin)
	case f.Kind == "":
		bad(at+".forge.kind", "one of github, gitlab, gitea", "must not be empty")
	case f.TokenFile == "":
		bad(at+".forge.token_file", "", "must name a file")
	case f.API != "" && !setting.IsHTTP(f.API):
		bad(at+".forge.api", "write it like https://git.example/api/v1", "%s is not a URL", runview.Cut(setting.QuotedURL(f.API), 100))
	}
}

// ForgeRepository is OWNER/NAME, as the address says.
func (r Repository) ForgeRepository() string {
	if r.Forge.Repository != "" {
		return r.Forge.Repository
	}
	p := r.URL
	if u, err := url.Parse(r.URL); err == nil && u.Host != "" {
		p = u.Path
	} else if _, after, ok := strings.Cut(r.URL, ":"); ok {
		p = after
	}
	return strings.TrimSuffix(strings.Trim(path.Clean("/"+p), "/"), ".git")
}

package app

import (
	"testing"

	"github.com/inference-responder/responder/internal/config"
)

// TestCommitPages: a commit is linked where its forge is known for sure.
func TestCommitPages(t *testing.T) {
	on := func(address, kind, api string) config.Repository {
		r := config.Repository{URL: address}
		if kind != "" {
			r.Forge = &config.Forge{Kind: kind, API: api}
		}
		return r
	}
	for _, c := range []struct {
		config     config.Repository
		repository string // as a plan has it
		want       string
	}{
		{on("https://github.com/acme/fleet.git", "", ""), "https://github.com/acme/fleet", "https://github.com/acme/fleet/commit/abc"},
		{on("git@gitlab.com:acme/group/fleet.git", "", ""), "ssh://git@gitlab.com/acme/group/fleet", "https://gitlab.com/acme/group/fleet/-/commit/abc"},
		{on("ssh://git@ssh.example:2222/Acme/fleet.git", "gitea", "https://git.example/sub/api/v1"), "ssh://git@ssh.example/acme/fleet", "https://git.example/sub/Acme/fleet/commit/abc"},
		{on("https://git.example/acme/fleet", "gitlab", "https://git.example/api/v4/"), "https://git.example/acme/fleet.git", "https://git.example/acme/fleet/-/commit/abc"},
		{on("https://github.com/acme/fleet", "github", "https://api.github.com/"), "https://github.com/acme/fleet", "https://github.com/acme/fleet/commit/abc"},
		{on("https://git.example/acme/fleet", "", ""), "https://git.example/acme/fleet", ""},
		{on("https://git.example/acme/fleet", "gitea", ""), "https://git.example/acme/fleet", ""},
		{on("https://git.example/acme/fleet", "github", "https://api.git.example"), "https://git.example/acme/fleet", ""},
		{on("https://github.com/acme/fleet", "", ""), "https://github.com/acme/other", ""},
		{on("https://github.com/acme/fleet", "", ""), "", ""},
	} {
		if got := commitPages([]config.Repository{c.config})(c.repository, "abc"); got != c.want {
			t.Errorf("%+v, %s: %q, want %q", c.config, c.repository, got, c.want)
		}
	}
}

// TestApplicationPages: the application is linked on the page that the configuration names.
func TestApplicationPages(t *testing.T) {
	s := &Service{}
	for _, c := range []struct{ base, name, want string }{
		{"https://argocd.example/", "argocd/chat", "https://argocd.example/applications/argocd/chat"},
		{"https://argocd.example/cd", "chat", "https://argocd.example/cd/applications/chat"},
		{"https://argocd.example", "a?b/c#d", "https://argocd.example/applications/a%3Fb/c%23d"},
	} {
		l := s.linksOf(config.Config{Gitops: config.Gitops{ArgoCD: &config.ArgoCD{URL: c.base}}})
		if got := l.Application(c.name); got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.name, c.base, got, c.want)
		}
	}
	if l := s.linksOf(config.Config{Gitops: config.Gitops{ArgoCD: &config.ArgoCD{Server: "argocd:443"}}}); l.Application != nil {
		t.Error("the address of the API is taken for that of the page")
	}
}

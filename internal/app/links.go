package app

import (
	"net/url"
	"strings"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/web"
)

// linksOf finds the pages of other systems, for the page of a run.
func (s *Service) linksOf(c config.Config) web.Links {
	l := web.Links{Trace: c.Tracing.LinkOf, Commit: commitPages(c.Gitops.Repositories)}
	if s.world.Simulated == nil {
		l.Alertmanager = s.alertmanagerOf
	}
	if a := c.Gitops.ArgoCD; a != nil && a.URL != "" {
		l.Application = func(name string) string {
			page := strings.TrimRight(a.URL, "/") + "/applications"
			for part := range strings.SplitSeq(name, "/") { // namespace/name, or name
				page += "/" + url.PathEscape(part)
			}
			return page
		}
	}
	return l
}

// alertmanagerOf returns what Alertmanager calls its own address in a notification. Empty:
// the notification is not known, or archived.
func (s *Service) alertmanagerOf(notification uint64) string {
	n, err := s.executor.Notification(notification)
	if err != nil {
		return ""
	}
	return n.ExternalURL
}

// commitPages returns what finds the page of a commit: that of a configured repository whose
// forge is known.
func commitPages(repositories []config.Repository) func(repository, revision string) string {
	pages := map[string]string{}
	for _, r := range repositories {
		if page := commitPage(r); page != "" {
			pages[gitops.RepositoryName(r.URL)] = page
		}
	}
	return func(repository, revision string) string {
		page := pages[gitops.RepositoryName(repository)]
		if page == "" {
			return ""
		}
		return page + url.PathEscape(revision)
	}
}

// commitPage returns the address of commits of a repository, without the commit. Empty: the
// configuration does not tell.
func commitPage(r config.Repository) string {
	if r.Forge == nil {
		host, path, _ := strings.Cut(gitops.RepositoryName(r.URL), "/")
		switch host {
		case "github.com", "codeberg.org":
			return "https://" + host + "/" + path + "/commit/"
		case "gitlab.com":
			return "https://" + host + "/" + path + "/-/commit/"
		}
		return ""
	}
	commits, base := "/commit/", "https://github.com"
	if r.Forge.Kind == "gitlab" {
		commits, base = "/-/commit/", "https://gitlab.com"
	}
	if api := r.Forge.API; api != "" && strings.TrimRight(api, "/") != "https://api.github.com" {
		before, _, ok := strings.Cut(api, "/api/v")
		if !ok {
			return "" // an API that is not below its forge's page
		}
		base = before
	} else if r.Forge.Kind == "gitea" {
		return ""
	}
	return base + "/" + r.ForgeRepository() + commits
}

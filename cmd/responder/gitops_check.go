package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// gitopsCheckWithin bounds the whole check.
const gitopsCheckWithin = 5 * time.Minute

func newGitopsCheckCommand(p *process) *cobra.Command {
	var out output
	var file string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Prove that Git and Argo CD can be reached and used as the configuration says",
		Long: `Prove that Git and Argo CD can be reached and used as the configuration says: each
repository is fetched, Argo CD's server, token and rights are asked for, and each
configured service's application, manifests and object are looked up. It writes
nothing.

Exit codes:
  0  everything works
  1  something does not; the table says what to do`,
		Args: none,
		Example: `  responder gitops check --config responder.yaml
  responder gitops check --config responder.yaml -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), gitopsCheckWithin)
			defer cancel()
			findings, err := checkGitopsSetup(ctx, file)
			if err != nil {
				return err
			}
			if err := out.print(p.stdout, findings, func(w io.Writer) error { return writeSlackFindings(w, findings, out.wide()) }); err != nil {
				return err
			}
			for _, f := range findings {
				if !f.OK {
					return exitCode(exitError)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "responder.yaml", "configuration file")
	out.addFlag(cmd)
	return cmd
}

func checkGitopsSetup(ctx context.Context, file string) (out []slackFinding, err error) {
	c, err := loadConfig(file)
	if err != nil {
		return nil, err
	}
	if !c.Gitops.configured() {
		return nil, fmt.Errorf("%s configures no Git and no Argo CD; gitops.repositories and gitops.argocd begin it, and docs/reference/config.md has the rest", file)
	}
	entries, err := catalog.ParseNode(c.file, &c.Services)
	if err != nil {
		return nil, err
	}
	g, err := openGitopsOnce(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	if g.manifests != nil {
		for _, r := range g.manifests.Check(ctx) {
			out = append(out, found("repository "+r.Repository, "at "+shortCommit(r.Head), r.Err, "see the message; a token or key file is read anew each time"))
		}
	}
	var names []string
	for _, e := range entries {
		if app := e.Service.GitOps.Application; app != "" {
			names = append(names, app)
		}
	}
	out = append(out, g.checkArgoCD(ctx, names)...)
	for _, e := range entries {
		if e.Service.GitOps != (playbook.GitOps{}) {
			detail, err := g.checkService(ctx, e.Service)
			out = append(out, found("service "+e.Service.Name, detail, err, "correct gitops of the service in the catalog"))
		}
	}
	return out, nil
}

// found is the result of one check.
func found(name, detail string, err error, fix string) slackFinding {
	if err != nil {
		return slackFinding{Name: name, Detail: err.Error(), Fix: fix}
	}
	return slackFinding{Name: name, OK: true, Detail: detail}
}

// checkService looks up what is said of a service.
func (g *gitopsWorld) checkService(ctx context.Context, svc playbook.Service) (string, error) {
	target := step.ManifestOf(svc)
	if g.argocd != nil && svc.GitOps.Application != "" {
		app, err := g.argocd.Application(ctx, svc.GitOps.Application)
		if err != nil {
			return "", err
		}
		if err := step.Manages(app, target); err != nil {
			return "", err
		}
		if _, err := step.SourceOf(svc, app); err != nil {
			return "", err
		}
	}
	src, err := g.source(ctx, svc)
	if err != nil {
		return "", err
	}
	places, err := g.manifests.Places(ctx, src, target, []gitops.Variable{{Replicas: true}})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%d is its number of replicas", places[0].File, places[0].Line), nil
}

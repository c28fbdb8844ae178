package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/inference-responder/responder/internal/gitops/argocd"
)

// openArgoCD makes the client of the configured Argo CD. It connects to nobody.
func openArgoCD(a argocdConfig, log *slog.Logger) (*argocd.Client, error) {
	return argocd.New(argocd.Options{
		Server: a.Server, TokenFile: a.TokenFile, CAFile: a.CAFile, ServerName: a.ServerName,
		Plaintext: a.Plaintext, GRPCWeb: a.GRPCWeb, Root: a.Root, Timeout: a.Timeout, Log: log,
	})
}

// checkArgoCD proves that the server answers, and that the token has the rights
// that are needed and no others.
func (g *gitopsWorld) checkArgoCD(ctx context.Context, names []string) []slackFinding {
	if g.argocd == nil {
		return nil
	}
	r, err := g.argocd.Check(ctx, names...)
	if err != nil {
		return []slackFinding{found("argo cd", "", err, "see the message; the token file is read anew each time")}
	}
	out := []slackFinding{found("argo cd", fmt.Sprintf("version %s, as %s", r.Version, r.Account), nil, "")}
	if len(r.Lacking) > 0 {
		out = append(out, slackFinding{Name: "argo cd rights", Detail: "missing: " + strings.Join(r.Lacking, "; "), Fix: "add them to the role; deploy/argocd has one"})
	}
	if len(r.Excess) > 0 {
		out = append(out, slackFinding{Name: "argo cd rights", Detail: "never needed: " + strings.Join(r.Excess, "; "), Fix: "take them away; deploy/argocd has a role that is enough"})
	}
	return out
}

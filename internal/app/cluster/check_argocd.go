package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/argocd"
)

// openArgoCD makes the client of the configured Argo CD. It connects to nobody.
func openArgoCD(a config.ArgoCD, log *slog.Logger) (*argocd.Client, error) {
	return argocd.New(argocd.Options{
		Server: a.Server, TokenFile: a.TokenFile, CAFile: a.CAFile, ServerName: a.ServerName,
		Plaintext: a.Plaintext, GRPCWeb: a.GRPCWeb, Root: a.Root, Timeout: a.Timeout, Log: log,
	})
}

// checkArgoCD proves that the server answers, and that the token has the rights
// that are needed and no others. Answers is whether it can be asked for more.
func (g *GitOps) checkArgoCD(ctx context.Context, names []string) (out []app.Finding, answers bool) {
	if g.by.argocd == nil {
		return nil, false
	}
	r, err := g.by.argocd.Check(ctx, names...)
	if err != nil {
		answers = r.Account != "" // what failed is about one application
		return []app.Finding{found("argo cd", "", err, argocdFix(err, answers))}, answers
	}
	out = []app.Finding{found("argo cd", fmt.Sprintf("version %s, as %s", r.Version, r.Account), nil, "")}
	if len(r.Lacking) > 0 {
		out = append(out, app.Finding{Name: "argo cd rights", Detail: "missing: " + strings.Join(r.Lacking, "; "), Fix: "add them to the role; deploy/argocd has one"})
	}
	if len(r.Excess) > 0 {
		out = append(out, app.Finding{Name: "argo cd rights", Detail: "never needed: " + strings.Join(r.Excess, "; "), Fix: "take them away; deploy/argocd has a role that is enough"})
	}
	return out, true
}

// argocdFix reports what helps against an error of the server.
func argocdFix(err error, answers bool) string {
	switch reasonOf(err) {
	case fault.Unreachable:
		return "see that argocd-server runs, that gitops.argocd.server is its HOST:PORT and that this machine reaches it; " +
			"behind a proxy without HTTP/2 set grpc_web, without TLS set plaintext, with a certificate of one's own set ca_file"
	case fault.Timeout:
		return "see that argocd-server and its Redis run and are not overloaded; gitops.argocd.timeout is how long it may take"
	case fault.Forbidden, fault.NotFound:
		if answers {
			return "see that gitops.application of each service is NAMESPACE/NAME of one that is there, and that the token may get it; deploy/argocd has a role that is enough"
		}
		return "put a valid token into gitops.argocd.token_file; it is read anew each time"
	case fault.ServerError:
		return "see that gitops.argocd.server is an Argo CD API server, not its web page's proxy (grpc_web), and its log"
	default:
		return "see the message, and the log of argocd-server"
	}
}

package main

import (
	"context"
	"log/slog"

	"github.com/inference-responder/responder/internal/step"
)

type argocdClient struct{ step.Applications }

func (argocdClient) Close() error { return nil }

func openArgoCD(argocdConfig, *slog.Logger) (*argocdClient, error) { return nil, nil }

func (g *gitopsWorld) checkArgoCD(context.Context, []string) []slackFinding { return nil }

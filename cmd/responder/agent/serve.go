package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/inference-responder/responder/internal/cli/agentflags"
	"github.com/inference-responder/responder/internal/gpu/agent"
	"github.com/inference-responder/responder/internal/gpu/nvml"
)

// serve serves until ctx is done.
func serve(ctx context.Context, f agentflags.Serve, stderr io.Writer, getenv func(string) string) error {
	keepSmall(getenv)
	log := newLogger(stderr, f)
	reading, err := options(f.Reading, getenv, log)
	if err != nil {
		return err
	}
	o := agent.Options{
		CertFile: f.CertFile, KeyFile: f.KeyFile, ClientCAFile: f.ClientCAFile, ClientNames: f.Clients, Accounts: f.Accounts,
		MetricsAccounts: f.MetricsAccounts, MetricsOpen: f.MetricsOpen,
		IdentityFile: f.IdentityFile, Registry: registry(), Log: log,
	}
	api := agent.APIServer{URL: f.APIServer, CAFile: f.APICAFile, TokenFile: f.APITokenFile, Audience: f.Audience}
	if len(f.Accounts) > 0 {
		if o.Reviewer, err = agent.NewReviewer(api, getenv, log); err != nil {
			return err
		}
	}
	if len(f.MetricsAccounts) > 0 {
		api.Audience, api.Own = f.MetricsAudience, f.MetricsAudience == ""
		if o.MetricsReviewer, err = agent.NewReviewer(api, getenv, log); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	read, err := startSource(ctx, reading, f.Kubelet)
	if err != nil {
		return err
	}
	o.Source = read
	o.Alive = func() error {
		var u *nvml.Unavailable
		if errors.As(read.Problem(), &u) && u.Restart {
			return u
		}
		return nil
	}
	server, err := agent.New(o)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w; --listen names another address", err)
	}
	log.Info("serving", "address", ln.Addr().String(), "node", reading.Node, "version", reading.Agent, "period", reading.Period)
	if err := server.Serve(ctx, ln); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// keepSmall bounds what the agent takes of a node that belongs to others. Two
// threads of Go are plenty; those that wait in the driver do not count.
func keepSmall(getenv func(string) string) {
	if getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2)
	}
	if getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

func registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "responder_agent_build_info", Help: "What the binary was built from; always 1.",
			ConstLabels: prometheus.Labels{"version": version(), "goversion": runtime.Version()},
		}, func() float64 { return 1 }),
	)
	return r
}

func newLogger(w io.Writer, f agentflags.Serve) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
		level = slog.LevelInfo // unreachable: the flags were checked
	}
	options := &slog.HandlerOptions{Level: level}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

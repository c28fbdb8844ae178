package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/sandbox"
)

const serveLong = `Run the service: receive webhooks of Alertmanager, run playbooks, accept decisions.

With --config it works on the cluster and the Prometheus of that file. With
--sandbox it works on a simulated cluster, to try it with a real Alertmanager or
with curl.

Exit codes:
  0  stopped by a signal
  1  could not start, or a part failed; restart it, and it resumes from the journal`

// serveFlags are what serve is asked.
type serveFlags struct {
	config   string
	sandbox  bool
	listen   string
	dir      string
	policy   string
	insecure bool
	pace     float64
}

func newServeCommand(p *command.Process) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --config FILE | --sandbox [SCENARIO]",
		Short: "Run the service",
		Long:  serveLong,
		Args:  atMostOne,
		Example: `  responder serve --config responder.yaml
  responder serve --sandbox
  responder serve --sandbox traffic-burst --dir ./data --listen 127.0.0.1:8080`,
		ValidArgs: sandbox.ScenarioNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !f.sandbox {
				return fmt.Errorf("%q is not expected; a scenario goes with --sandbox", args[0])
			}
			if f.config == "" && !f.sandbox {
				return errors.New("missing --config or --sandbox: the configuration of a cluster, or a simulated one")
			}
			if cmd.Flags().Changed("pace") && !f.sandbox {
				return errors.New("--pace goes with --sandbox: a real cluster's time passes by itself")
			}
			if f.sandbox {
				return serveSandbox(cmd.Context(), p, f, strings.Join(args, ""))
			}
			return serveCluster(cmd.Context(), p, f)
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration file")
	cmd.Flags().BoolVar(&f.sandbox, "sandbox", false, "simulate the cluster; the argument is a scenario: "+strings.Join(sandbox.ScenarioNames(), ", "))
	cmd.Flags().StringVar(&f.listen, "listen", "", "address to serve on (default: the configuration's, else 127.0.0.1:8080)")
	cmd.Flags().StringVar(&f.dir, "dir", "", "directory of journal.db, journal.key and journal.pub (default: the configuration's; with --sandbox a temporary one)")
	cmd.Flags().StringVar(&f.policy, "policy", "", "file of rules over all playbooks (default: the configuration's)")
	cmd.Flags().BoolVar(&f.insecure, "insecure", false, "accept all requests without authentication, with all rights")
	cmd.Flags().Float64Var(&f.pace, "pace", 10, "with --sandbox: simulated seconds per real second; 1 while a question is open")
	cmd.MarkFlagsMutuallyExclusive("config", "sandbox")
	return cmd
}

// serveCluster runs the service on what the configuration names.
func serveCluster(ctx context.Context, p *command.Process, f serveFlags) error {
	c, err := config.Load(f.config)
	if err != nil {
		return err
	}
	f.override(&c)
	if err := c.MissingFiles(); err != nil {
		return err
	}
	log := newLogger(p.Stderr, c.Log)
	w, err := cluster.Open(c, nil, log)
	if err != nil {
		return err
	}
	return serveWorld(ctx, p, c, w, log, nil)
}

// serveSandbox runs the service on a simulated cluster.
func serveSandbox(ctx context.Context, p *command.Process, f serveFlags, scenario string) (err error) {
	if scenario == "" {
		scenario = app.DefaultScenario
	}
	c := app.SandboxConfig()
	if f.dir == "" {
		var remove func() error
		if f.dir, remove, err = p.Temp.Dir("responder-sandbox-"); err != nil {
			return fmt.Errorf("make a directory for the journal: %w; --dir names one", err)
		}
		defer func() { err = errors.Join(err, remove()) }()
	} else if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("make the journal's directory: %w; --dir names one this user may write", err)
	}
	f.override(&c)
	log := newLogger(p.Stderr, c.Log)
	for {
		// Kept beside the journal, so that a service that is killed finds the
		// cluster as it left it, as it would a real one.
		sim, err := sandbox.Resume(filepath.Join(f.dir, "sandbox.json"), scenario, f.pace)
		if err != nil {
			return err
		}
		w := app.ServedSandbox(sim, f.pace)
		w.Channels = app.SandboxChannels(log)
		err = serveWorld(ctx, p, c, w, log, func(addr net.Addr) error {
			c.Listen = addr.String() // also of the scenario that follows
			return sandboxHints(ctx, p.Stderr, sim, addr, f.dir)
		})
		if !errors.Is(err, app.ErrNextScenario) {
			return err
		}
	}
}

func (f serveFlags) override(c *config.Config) {
	if f.listen != "" {
		c.Listen = f.listen
	}
	if f.dir != "" {
		c.Journal.Dir = f.dir
	}
	if f.policy != "" {
		c.Policy.File = f.policy
	}
	if f.insecure {
		c.Auth.Insecure = true
	}
}

// serveWorld listens, builds the service and runs it until ctx is done. ready
// is called once connections are accepted.
func serveWorld(ctx context.Context, p *command.Process, c config.Config, w app.World, log *slog.Logger, ready func(net.Addr) error) (err error) {
	app.BoundGarbage(p.Getenv)
	var probes net.Listener
	if c.ListenProbes != "" {
		if probes, err = (&net.ListenConfig{}).Listen(ctx, "tcp", c.ListenProbes); err != nil {
			return fmt.Errorf("listen: %w; listen_probes in the configuration names another address", err)
		}
		defer func() { _ = probes.Close() }() // the service closes it, if it runs
	}
	s, err := app.New(app.Options{Config: c, World: w, Log: log, Probes: probes, Failpoint: command.Failpoint(p.Getenv), Processors: p.Getenv("GOMAXPROCS") == ""})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w; --listen or listen in the configuration names another address", err)
	}
	b := app.ReadBuildInfo()
	log.Info("serving", "address", ln.Addr().String(), "version", b.Version, "journal", s.JournalPath(), "autonomy", c.Autonomy.String())
	for _, what := range c.Exposures() {
		log.Warn("exposed", "what", what)
	}
	for _, what := range s.Approvals(c) {
		log.Warn("approval does not count", "what", what)
	}
	if ready != nil {
		if err := ready(ln.Addr()); err != nil {
			return errors.Join(err, ln.Close())
		}
	}
	switch err = s.Run(ctx, ln); {
	case err == nil:
		log.Info("stopped")
	case errors.Is(err, app.ErrNextScenario):
		log.Info("another scenario of the sandbox begins")
	}
	return err
}

// sandboxHints reports how to point something at the sandbox, and leaves a webhook
// body of its incident in the directory.
func sandboxHints(ctx context.Context, w io.Writer, sim *sandbox.World, addr net.Addr, dir string) error {
	body, err := sim.Notification(ctx, sim.Clock().Now())
	if err != nil {
		return fmt.Errorf("simulate the alert: %w", err)
	}
	file := filepath.Join(dir, "notification.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return fmt.Errorf("write the sample notification: %w", err)
	}
	sc, pace := sim.Scenario(), "Time passes as fast as real time."
	if p := sim.Clock().Pace(); p != 1 {
		pace = fmt.Sprintf(`Time passes %v times as fast as real time, and as fast as real time while a
question is open: one for 15 minutes is open for 15 minutes.`, p)
	}
	_, err = fmt.Fprintf(w, `
SANDBOX: nothing is real. %s: %s

In another terminal:
  export RESPONDER_SERVER=http://%s
  responder sandbox fire             # its alert arrives
  responder runs list
  responder sandbox list             # what else can happen
  responder approve RUN --as ada     # as another person, where a policy wants two
The alert can also be posted as Alertmanager does:
  curl --data-binary @%s http://%s/api/v1/alertmanager
or by an Alertmanager of your own:
  receivers:
    - name: responder
      webhook_configs:
        - url: http://%s/api/v1/alertmanager
          max_alerts: 0
%s

`, sc.Title, sc.Description, addr, file, addr, addr, pace)
	return err
}

// newLogger writes the service's own log.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // unreachable: the configuration was checked
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

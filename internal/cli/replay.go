package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/cli/replay"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	source        entrySource
	from, to      string
	notifications string
	config        string
	prometheus    string
	playbooks     string
	against       string
	assume        string
	parallel      int
	verbose       bool
}

func newReplayCommand(p *command.Process) *cobra.Command {
	var f replayFlags
	var out command.Output
	cmd := &cobra.Command{
		Use:   "replay --from T [--to T] --config FILE",
		Short: "Show what playbooks would have proposed in the past",
		Long:  replayLong,
		Args:  none,
		Example: `  responder replay --from 2026-10-01 --to 2026-11-01 --config responder.yaml
  responder replay --from 30d --config responder.yaml --journal journal-copy.db -v
  responder replay --from 7d --config responder.yaml --notifications bodies/ --assume assume.yaml
  responder replay --from 30d --config responder.yaml --against playbooks-edited/`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := runReplay(cmd.Context(), p, &f)
			if err != nil {
				return err
			}
			if f.verbose {
				report.WithEvents()
			}
			err = out.Print(p.Stdout, report.Replay, func(w io.Writer) error { return replay.Write(w, report, out.Wide(), f.verbose) })
			if err == nil && report.Interrupted {
				return command.ExitCode(command.ExitError)
			}
			return err
		},
	}
	f.source.client.Process = p
	f.source.client.AddFlags(cmd)
	cmd.Flags().StringVar(&f.from, "from", "", "episodes that began at this time or later: 2026-11-01 for its midnight on this machine's clock, 2026-11-01T12:00:00Z, or 7d for seven days ago")
	cmd.Flags().StringVar(&f.to, "to", "", "and before this time (default now)")
	cmd.Flags().StringVar(&f.source.file, "journal", "", "read notifications from this copy of a journal instead of asking a service")
	cmd.Flags().StringVar(&f.notifications, "notifications", "", "read them from a file, or the files of a directory, of bodies that Alertmanager posted: one, or one a line")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration of the service: its services, Prometheus and playbooks")
	cmd.Flags().StringVar(&f.prometheus, "prometheus", "", "URL of the Prometheus with the history (default: the configuration's)")
	cmd.Flags().StringVar(&f.playbooks, "playbooks", "", "playbook file or directory (default: the configuration's, else the shipped ones)")
	cmd.Flags().StringVar(&f.against, "against", "", "replay with this playbook file or directory, too, and show only what differs")
	cmd.Flags().StringVar(&f.assume, "assume", "", "file of results for checks that have no history, by kind, as in tests of playbooks")
	cmd.Flags().IntVar(&f.parallel, "parallel", 4, "queries to Prometheus at once")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show the evidence and every branch of each run, with its values")
	cmd.MarkFlagsMutuallyExclusive("journal", "notifications", "server")
	out.AddFlag(cmd)
	return cmd
}

const replayLong = `Run playbooks over stored notifications and the history in Prometheus: which playbook
each episode would have started, joined or missed, what the checks would have found at
that time, and which lever a run would have proposed first. An episode is one firing
of one alert.

Notifications come from a running service, from a copy of its journal, or from files.
Checks are evaluated by Prometheus at the moment of the past; waits ask again later.

It never changes anything, and has its limits:
  - A run stops at its first change: after it the past would have been another.
  - What the cluster, nodes, Git and Argo CD were like then is not known. Checks of
    them are unknown, and the playbook's own branches for that are taken. --assume gives
    results in their place, such as "kube.workload: {ready: 4, ...}".
  - Pods and their nodes are read from kube-state-metrics, GPUs from dcgm-exporter
    (gpu.dcgm), where Prometheus has them. Node agents have no history.
  - Prometheus knows nothing older than its retention. The answer says where it had
    nothing.
  - Guards, policy and approvals are not asked, and plans are not computed.
  - Services and their objectives are those of now.

Ctrl-C prints what was done so far, with exit code 1.`

func runReplay(ctx context.Context, p *command.Process, f *replayFlags) (_ replay.Report, err error) {
	now := time.Now().UTC()
	o := replay.Options{Now: now, Parallel: f.parallel, Progress: progressOn(p.Stderr)}
	c, err := f.options(&o)
	if err != nil {
		return replay.Report{}, err
	}
	discard := slog.New(slog.DiscardHandler)
	world, err := cluster.Open(c, p.Temp.Dir, discard)
	if err != nil {
		return replay.Report{}, err
	}
	if world.Close != nil {
		defer func() { err = errors.Join(err, world.Close()) }()
	}
	if world.Prepare != nil {
		if err := world.Prepare(ctx); err != nil {
			return replay.Report{}, fmt.Errorf("find the services: %w", err)
		}
	}
	o.Resolve, o.Services, o.Querier, o.GPUs = world.Resolve, world.Services, world.Deps.Querier, cluster.RecordedGPUs(c)
	if o.Querier != nil {
		if _, err := o.Querier.Instant(ctx, "vector(1)", now); err != nil {
			return replay.Report{}, fmt.Errorf("ask for the history: %w", err)
		}
	}
	files, err := f.read(ctx, c)
	if err != nil {
		return replay.Report{}, err
	}
	tellProblems(p.Stderr, files)
	report, err := replay.Run(ctx, o, files.Notifications)
	report.Unread = len(files.Problems)
	if files.Guessed > 0 {
		report.Notes = append(report.Notes, runview.Count(files.Guessed, "notification")+" without a time of receipt: taken as received when the newest alert began or ended")
	}
	return report, err
}

// options fills in what the flags and the configuration say.
func (f *replayFlags) options(o *replay.Options) (c config.Config, err error) {
	switch {
	case f.from == "":
		return c, errors.New("missing --from: the time from which episodes are replayed, such as 30d or 2026-11-01")
	case f.config == "":
		return c, errors.New("missing --config: the configuration names the services that alerts are about, and Prometheus")
	case f.parallel < 1:
		return c, fmt.Errorf("--parallel is %d; it is the number of queries at once, 1 or more", f.parallel)
	}
	if o.From, err = moment("--from", f.from, o.Now); err != nil {
		return c, err
	}
	o.To = o.Now
	if f.to != "" {
		if o.To, err = moment("--to", f.to, o.Now); err != nil {
			return c, err
		}
	}
	if !o.From.Before(o.To) {
		return c, fmt.Errorf("--from %s is not before --to %s", o.From.Format(time.RFC3339), o.To.Format(time.RFC3339))
	}
	if c, err = config.Load(f.config); err != nil {
		return c, err
	}
	o.Window, o.Autonomy = c.Incident.Window, c.Autonomy
	if f.prometheus != "" {
		c.Prometheus = config.Prometheus{URL: f.prometheus, Timeout: c.Prometheus.Timeout}
	}
	if o.Playbooks, err = playbooksOf(c, f.playbooks); err != nil {
		return c, err
	}
	if f.against != "" {
		if o.Against, err = playbooksOf(c, f.against); err != nil {
			return c, err
		}
	}
	if f.assume != "" {
		if o.Assumed, err = readAssumed(f.assume); err != nil {
			return c, err
		}
	}
	return c, nil
}

// playbooksOf loads the configured playbooks, from another file or directory if one is
// named.
func playbooksOf(c config.Config, path string) (_ *playbook.Set, err error) {
	source := c.Playbooks
	if path != "" {
		if source, err = app.PlaybooksAt(source, path); err != nil {
			return nil, err
		}
	}
	return app.ConfiguredPlaybooks(source)
}

func readAssumed(file string) (rehearsal.Findings, error) {
	data, err := app.ReadPlaybookFile(file)
	if err != nil {
		return nil, fmt.Errorf("--assume: %w", err)
	}
	return rehearsal.ReadFindings(file, data, kinds.Declarations())
}

// moment parses the value of a flag: a date, which begins at midnight in the zone of now, a
// time, or how long ago the time was.
func moment(flag, text string, now time.Time) (time.Time, error) {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return t.UTC(), nil
		}
	}
	if d, err := yamldoc.ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%s %q is not a time; write 2026-11-01, 2026-11-01T12:00:00Z, or 7d for seven days ago", flag, text)
}

// read returns the notifications of the source that the flags name.
func (f *replayFlags) read(ctx context.Context, c config.Config) (files replay.Files, err error) {
	if f.notifications != "" {
		return replay.ReadFiles(f.notifications, func(body []byte) (playbook.Notification, error) {
			return app.DecodeNotification(c.Receiver, body)
		})
	}
	wanted := entryFilter{stream: dispatch.StreamIntake, kind: dispatch.KindNotification}
	err = f.source.each(ctx, wanted, func(e api.Entry) error {
		var n playbook.Notification
		if err := json.Unmarshal(e.Data, &n); err != nil {
			files.Problems = append(files.Problems, fmt.Sprintf("entry %d of the journal: %v", e.Seq, err))
			return nil
		}
		if n.ReceivedAt.IsZero() {
			n.ReceivedAt = e.Time
		}
		files.Notifications = append(files.Notifications, n)
		return nil
	})
	return files, err
}

// mostProblems bounds the problems that are told one by one.
const mostProblems = 20

func tellProblems(w io.Writer, files replay.Files) {
	for i, problem := range files.Problems {
		if i == mostProblems {
			fmt.Fprintf(w, "responder: and %d more\n", len(files.Problems)-i)
			return
		}
		fmt.Fprintf(w, "responder: left out: %s\n", problem)
	}
}

// progressEvery is how often the progress of a long replay is told.
const progressEvery = 5 * time.Second

// progressOn tells how far a replay is, if it takes long.
func progressOn(w io.Writer) func(replay.Progress) {
	last := time.Now()
	return func(at replay.Progress) {
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		fmt.Fprintf(w, "responder: %d of %s, %d queries\n", at.Done, runview.Count(at.Total, "notification"), at.Queries)
	}
}

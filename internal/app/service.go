package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/alertmanager"
	"github.com/inference-responder/responder/internal/notify/report"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/trace"
	"github.com/inference-responder/responder/internal/webhook"
)

// Service is journal, playbooks, executor and receiver around a world. serve
// and demo run it over HTTP, dry-run hands its receiver one request after
// another.
type Service struct {
	journal  *audit.Journal
	library  *library
	rules    *rules
	intake   *dispatch.Intake
	ladder   *ladder.TrackRecord
	executor *executor.Executor
	receiver *webhook.Server
	slack    *slackParts // nil: no Slack
	rights   rights.Rules
	metrics  *metrics
	world    World
	hearing  hearing
	steering *steering // nil: the cluster is real
	nodes    *nodes

	retention   *retention
	checkpoints *checkpoints
	traces      *trace.Exporter // nil: none are sent
	reports     []report.Config
	log         *slog.Logger
	room        *room
	probes      net.Listener // nil: none

	link       notify.Link // where people reach it
	processors bool        // how many processors Go's runtime uses is ours to say
	temporary  bool        // nobody needs the journal afterwards
}

// Options is what a service is built from.
type Options struct {
	Config    config.Config
	World     World
	Log       *slog.Logger
	Temporary string // directory of a journal that nobody needs afterwards; empty: the configuration's
	Failpoint func(string) error
	ReadOnce  bool         // nothing watches the directory of playbooks
	Probes    net.Listener // of /healthz and /readyz; run closes it. nil: none

	Processors bool // nobody has said how many processors Go's runtime uses
}

// New builds a service. Nothing runs before [Service.Run]. [Service.Close] releases
// everything, also when Run was never called.
func New(o Options) (_ *Service, err error) {
	s := &Service{world: o.World, link: notify.Link(o.Config.ExternalURL), log: o.Log, reports: o.Config.Reports, processors: o.Processors, temporary: o.Temporary != "", probes: o.Probes}
	if s.world.Now == nil {
		s.world.Now = time.Now
	}
	s.world.Deps, s.hearing = listen(s.world.Deps, s.world.Now)
	appends := newAppendTimes()
	observe := func(took time.Duration) { appends.Observe(took.Seconds()) }
	if s.journal, err = openJournalOf(o, observe); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.journal.Close())
		}
	}()
	if file := s.journal.Unkept(); file != "" {
		s.log.Warn("no checkpoint beside the journal: whether entries were cut off cannot be told for this start; compare with one that was published",
			"file", file, "entries", s.journal.Size())
	}
	s.room = newRoom(s.journal, int64(o.Config.Journal.MinFree))
	s.retention = &retention{
		journal: s.journal, keep: o.Config.Journal.Keep, archive: o.Config.Journal.Archive, now: s.world.Now, log: o.Log,
		rule: func(now time.Time) (*executor.Retention, error) { return s.executor.Retention(now) },
	}
	if s.checkpoints, err = newCheckpoints(o.Config.Journal.Checkpoints, s.journal, o.Log); err != nil {
		return nil, o.Config.Blame(err, "journal.checkpoints")
	}
	if err = s.openExecutor(o); err != nil {
		return nil, err
	}
	if err = s.openReceiver(o, appends); err != nil {
		return nil, err
	}
	return s, nil
}

// openExecutor builds the executor and what it decides by: rights, playbooks, policy and
// track record.
func (s *Service) openExecutor(o Options) (err error) {
	if s.rights, err = o.Config.Auth.RightsRules(); err != nil {
		return o.Config.Blame(err, "auth.rights")
	}
	if s.library, err = newLibrary(o, s.journal, playbooksTell(s.world.Channels)); err != nil {
		return o.Config.Unread(err, "playbooks.dir")
	}
	if s.rules, err = newRules(o.Config.Policy.File, s.journal, policyTells(s.world.Channels), o.Log); err != nil {
		return o.Config.Unread(err, "policy.file")
	}
	if s.intake, err = dispatch.NewIntake(s.journal, s.world.Now); err != nil {
		return err
	}
	if s.ladder, err = ladder.New(ladder.Config(o.Config.Ladder)); err != nil {
		return err
	}
	s.executor, err = executor.New(s.executorOptions(o))
	return err
}

// openReceiver builds the receiver and what it shows or serves: metrics, traces, Slack
// approvals, pages and the controls of a sandbox.
func (s *Service) openReceiver(o Options, appends prometheus.Histogram) (err error) {
	s.metrics = newMetrics(appends, metricSources{
		journal:   s.journal,
		figures:   s.executor.Figures,
		demoted:   s.ladder.DemotedBy,
		pauses:    s.pauseScopes,
		policy:    s.rules.figures,
		playbooks: func() []string { return PlaybookNames(s.library.set()) },
		step:      s.library.step,
		now:       s.world.Now,
		archiving: s.retention.failure,
		room:      s.room,
	}, o.Log)
	if s.traces, err = s.openTraces(o.Config.Tracing); err != nil {
		return o.Config.Blame(err, "tracing")
	}
	if s.slack, err = s.openApprovals(o); err != nil {
		return err
	}
	s.steering, s.nodes = s.newSteering(), newNodes(s.world, s.log)
	receiver := s.receiverOptions(o.Config)
	if receiver.Pages, err = s.openPages(o.Config); err != nil {
		return err
	}
	s.receiver, err = webhook.New(receiver)
	return o.Config.Blame(err, "auth", "tls")
}

func openJournalOf(o Options, observe func(time.Duration)) (*audit.Journal, error) {
	if o.Temporary != "" {
		return audit.OpenTemp(o.Temporary)
	}
	return openJournal(o.Config.Journal, observe, o.Failpoint)
}

func (s *Service) executorOptions(o Options) executor.Options {
	return executor.Options{
		Policy:    s.rules.policy(),
		Journal:   s.journal,
		Intake:    s.intake,
		Playbooks: s.library.set,
		Kinds:     kinds.Declarations(),
		Services:  resolver(s.world.Resolve),
		Steps:     kinds.New(s.steps()),
		Guards:    o.Config.Guards.ExecutorOptions(),
		Window:    o.Config.Incident.Window,
		Autonomy:  o.Config.Autonomy,
		Ladder:    s.ladder,
		Catalog:   s.world.Known,
		Now:       s.world.Now,
		Pace:      s.world.Pace,
		Log:       o.Log,
		Failpoint: o.Failpoint,
	}
}

// steps are the dependencies of the steps.
func (s *Service) steps() step.Deps {
	d := s.world.Deps
	d.LastGood = s.ladder
	d.Journal = executor.Commits{Journal: s.journal}
	return d
}

func (s *Service) receiverOptions(c config.Config) webhook.Options {
	o := webhook.Options{
		Intake:    admission{s.intake},
		Now:       s.world.Now,
		Control:   control{s.executor, s.rights},
		Starter:   starter{s.executor, s.permits()},
		Pauses:    pauses{s.executor, s.intake, s.permits()},
		Views:     views{s.executor},
		Alerts:    s.received(),
		Trace:     c.Tracing.LinkOf,
		Reports:   s.previews(),
		Spent:     newSpendings(s.world.Deps.Querier, s.world.Now, s.log).of,
		Ladder:    trackRecord{s.executor, s.ladder, s.permits()},
		Log:       journalLog{s.journal},
		Journal:   s.retention,
		Playbooks: s.library.set,
		Services:  s.world.Services,
		Arming:    s.arming,
		Nodes:     s.nodeList,
		Ready:     s.missing,
		Refused: func(who rights.Actor, right rights.Right, why string) {
			s.executor.RecordRefused(who.By, right, "", why)
		},
		Room:          s.room.check,
		Left:          s.room.left,
		Crowded:       s.executor.Crowded,
		Watch:         s.journal.Watch,
		Metrics:       s.metrics.handler(),
		Version:       ReadBuildInfo(),
		Auth:          c.ReceiverAuth(),
		TLS:           c.ServerTLS(),
		DropLabels:    c.Receiver.DropLabels,
		MaxBody:       int64(c.Receiver.MaxBody),
		InFlightBytes: int64(c.Receiver.MaxInFlight),
		MaxConns:      c.Receiver.MaxConcurrent,
		Quota:         c.Receiver.Quota.Options(),
		Logger:        s.log,
		Registerer:    s.metrics.registry,
	}
	if s.world.Sandbox == nil {
		o.Earlier = s.earlier // a sandbox has its own time
	}
	if s.steering != nil {
		o.Sandbox = s.steering
	}
	if s.slack != nil && !s.slack.socket {
		o.Slack = s.slack.receiver
	}
	return o
}

// received lists the alerts that the service received.
func (s *Service) received() received { return received{s.executor, s.library.set, s.world.Now} }

// permits is who may do what about which service.
func (s *Service) permits() permits {
	return permits{executor: s.executor, rights: s.rights, services: s.world.Services}
}

// missing reports what keeps the service from doing its work, one line each.
func (s *Service) missing() []string {
	var missing []string
	if err := s.journal.Err(); err != nil {
		missing = append(missing, "journal: "+err.Error())
	}
	if len(s.library.set().All()) == 0 {
		missing = append(missing, "playbooks: none are loaded")
	}
	if err := s.executor.Ready(); err != nil {
		missing = append(missing, "executor: "+err.Error())
	}
	if s.world.Missing != nil {
		missing = append(missing, s.world.Missing()...)
	}
	return missing
}

func (s *Service) pauseScopes() []string {
	var scopes []string
	for _, p := range (pauses{executor: s.executor, intake: s.intake}).Pauses() {
		scopes = append(scopes, p.Scope())
	}
	return scopes
}

// Run serves connections of ln and everything behind it until ctx is done or a
// part fails, which ends the others. It closes ln.
func (s *Service) Run(ctx context.Context, ln net.Listener) error {
	parts, ctx := errgroup.WithContext(ctx)
	start := func(name string, part func(context.Context) error) {
		parts.Go(func() error {
			if err := part(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	start("executor", s.executor.Run)
	start("playbooks", func(ctx context.Context) error { return s.library.follow(ctx, s.executor) })
	start("policy", func(ctx context.Context) error { return s.rules.follow(ctx, s.executor) })
	start("metrics", s.count)
	start("retention", s.retain)
	start("checkpoints", s.checkpoints.run)
	if !s.temporary { // a run of minutes needs neither, and in virtual time they would never rest
		start("systems", s.keepAsking)
		start("memory", s.rest)
		start("garbage", s.collect)
	}
	if s.processors {
		start("processors", s.keepProcessors)
	}
	if s.world.Run != nil {
		start("world", s.world.Run)
	}
	if s.world.Sandbox != nil {
		start("sandbox", s.keepPace)
		start("scenario", s.steering.run)
	}
	if ln != nil { // a dry run has no receiver, and tells nobody
		s.startChannels(start)
		start("receiver", func(ctx context.Context) error { return s.receiver.Serve(ctx, ln) })
	}
	if s.probes != nil {
		start("probes", func(ctx context.Context) error { return s.receiver.ServeProbes(ctx, s.probes) })
	}
	return parts.Wait()
}

// startChannels starts everything that tells people and hears them.
func (s *Service) startChannels(start func(name string, part func(context.Context) error)) {
	feeds, err := s.world.Channels.Feeds(s.journal, s.executor)
	if err != nil {
		s.log.Warn("a channel that is added again is sent what happened before", "err", err)
	}
	for _, f := range feeds {
		start("channel "+f.Name, f.Run)
	}
	if p := s.slack; p != nil {
		start("slack", s.runApprovals)
		start("slack clicks", p.receiver.Run)
		start("slack secrets", func(ctx context.Context) error { return s.world.Slack.RenewSecrets(ctx, p.approvals.Renewed) })
		start("slack refusals", p.approvals.RecordRefusals)
		if p.socket {
			start("slack socket", func(ctx context.Context) error { return p.receiver.RunSocket(ctx, p.watchSocket) })
		}
	}
	if s.world.Silences != nil {
		start("silences", s.runSilencer)
	}
	start("reports", s.sendReports)
	if s.traces != nil {
		start("traces", s.sendTraces)
	}
}

// runSilencer silences the alerts of runs, once these are loaded.
func (s *Service) runSilencer(ctx context.Context) error {
	if !s.library.await(ctx) {
		return nil
	}
	open := true
	silencer := alertmanager.NewSilencer(alertmanager.SilencerOptions{
		Silences: s.world.Silences, Journal: s.journal, Runs: s.executor, Admit: admission{s.intake}.take,
		Link: s.link, Log: s.log, Now: s.world.Now,
	})
	return silencer.Run(ctx, s.executor.Runs(executor.Filter{Open: &open}))
}

// count keeps the metrics that are read from the journal. It waits for the runs:
// to be ready is more urgent than to have counted what there was.
func (s *Service) count(ctx context.Context) error {
	if !s.library.await(ctx) {
		return nil
	}
	return s.metrics.run(ctx)
}

// Handler returns the receiver's HTTP handler, for a caller in this process.
func (s *Service) Handler() http.Handler { return s.receiver.Handler() }

// JournalPath returns the path of the journal's file.
func (s *Service) JournalPath() string { return s.journal.Path() }

// Playbooks returns the playbooks in force.
func (s *Service) Playbooks() *playbook.Set { return s.library.set() }

// Close closes the journal's file and the world. Call it after run has
// returned.
func (s *Service) Close() error {
	err := s.journal.Close()
	if s.world.Close != nil {
		err = errors.Join(err, s.world.Close())
	}
	return err
}

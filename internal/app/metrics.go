package app

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
)

// countInterval is how often the journal is counted when nobody scrapes, so
// that a scrape never finds much to do.
const countInterval = 10 * time.Second

// metrics is what GET /metrics shows: a projection of the journal, and gauges
// read from the executor when asked. No label carries a run, a fingerprint or
// anything else that grows without bound.
type metrics struct {
	registry *prometheus.Registry
	counts   *projection
	sources  metricSources
	log      *slog.Logger
}

// metricSources is where gauges come from.
type metricSources struct {
	journal   *audit.Journal
	figures   func() executor.Figures
	demoted   func() map[string]int // levers by playbook
	pauses    func() []string       // scopes: global, service:NAME, playbook:NAME
	policy    func() (inForce, bad bool)
	playbooks func() []string // names of those in force
	step      func(playbook, state string) string
	now       func() time.Time
	archiving func() *api.JournalFailure // why the last attempt to archive failed; nil: it did not
	room      *room
}

// newAppendTimes makes the histogram that the journal fills. It is made first,
// because every other source needs the open journal.
func newAppendTimes() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "responder_journal_append_seconds", Help: "Time until an append to the journal was on disk.",
		Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5},
	})
}

func newMetrics(appends prometheus.Histogram, s metricSources, log *slog.Logger) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), counts: newProjection(s.journal, s.step), sources: s, log: log}
	b := ReadBuildInfo()
	m.registry.MustRegister(
		appends,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "responder_build_info", Help: "What the binary was built from; always 1.",
			ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
		}, func() float64 { return 1 }),
		gauges{m},
	)
	m.registry.MustRegister(m.counts.collectors()...)
	return m
}

// run counts the journal's history, and goes on until ctx is done. A scrape
// that comes before history is counted waits for it: a counter never goes back.
func (m *metrics) run(ctx context.Context) error {
	m.catchUp()
	tick := time.NewTicker(countInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := m.counts.stop(); err != nil {
				m.log.Warn("the next start counts more of the journal", "err", err)
			}
			return nil
		case <-tick.C:
			m.catchUp()
		}
	}
}

func (m *metrics) catchUp() {
	m.counts.expect(m.sources.playbooks())
	if err := m.counts.catchUp(); err != nil {
		m.log.Error("metrics are behind the journal", "err", err)
	}
}

// handler answers a scrape. Counting goes first, so that a scrape right after
// a run shows the run.
func (m *metrics) handler() http.Handler {
	scrape := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.catchUp()
		scrape.ServeHTTP(w, r)
	})
}

// gauges are read when a scrape asks.
type gauges struct{ m *metrics }

// Describe sends nothing: the collector is unchecked, because the label values
// of its gauges come and go.
func (gauges) Describe(chan<- *prometheus.Desc) {}

// Collect reads every gauge once.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	s := g.m.sources
	gauge := func(name, help string, value float64, labels ...string) {
		var names, values []string
		for i := 0; i+1 < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), prometheus.GaugeValue, value, values...)
	}
	g.collectRuns(gauge)
	open, oldest := g.m.counts.oldestGate()
	gauge("responder_gates_open", "Questions waiting for a person.", float64(open))
	age := 0.0
	if open > 0 {
		age = s.now().Sub(oldest).Seconds()
	}
	gauge("responder_gate_oldest_seconds", "Age of the question that waits longest; 0 when none does.", age)
	for _, scope := range s.pauses() {
		gauge("responder_paused", "Pauses in force, by what they hold up; always 1.", 1, "scope", scope)
	}
	for playbook, n := range s.demoted() {
		gauge("responder_levers_demoted", "Levers that are held at suggest on a service because they did not help.", float64(n), "playbook", playbook)
	}
	inForce, bad := s.policy()
	gauge("responder_policy_configured", "1: a policy holds over all playbooks; 0: none is configured.", oneIf(inForce))
	gauge("responder_policy_last_load_bad", "1: the policy file as it is now cannot be loaded, and the last good rules stay.", oneIf(bad))
	gauge("responder_playbooks_loaded", "Playbooks in force.", float64(len(s.playbooks())))
	gauge("responder_journal_entries", "Entries of the journal.", float64(s.journal.Size()))
	gauge("responder_journal_unsigned_entries", "Entries after the last signed checkpoint.", float64(s.journal.Unsigned()))
	if archived, err := s.journal.Archived(); err == nil {
		gauge("responder_journal_archived_entries", "Entries of which the journal's file has only the hash; their bodies are in the archive.", float64(archived))
	}
	gauge("responder_journal_archive_last_failed", "1: the last attempt to archive the journal failed, and everything stays in it.", oneIf(s.archiving() != nil))
	if free, err := s.room.free(); err == nil {
		gauge("responder_journal_volume_free_bytes", "Space of the journal's volume that is free; together with responder_journal_reusable_bytes below journal.min_free, notifications are refused.", float64(free))
	}
	gauge("responder_journal_reusable_bytes", "Space within the journal's file that is free and written to again.", float64(s.room.inFile()))
	gauge("responder_memory_limit_bytes", "Memory limit of the Go runtime, 0 if there is none; with more than 60 % of it in use, notifications are refused.", float64(s.room.limit))
	gauge("responder_memory_live_bytes", "Memory in use after the last collection of garbage.", float64(s.room.lives()))
	if info, err := os.Stat(s.journal.Path()); err == nil {
		gauge("responder_journal_size_bytes", "Size of the journal's file.", float64(info.Size()))
	}
}

func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// collectRuns counts; it never asks for the runs themselves, which may be
// many thousands.
func (g gauges) collectRuns(gauge func(name, help string, value float64, labels ...string)) {
	f := g.m.sources.figures()
	for at, n := range f.Phases {
		gauge("responder_runs_open", "Runs that have not ended.", float64(n), "playbook", at.Playbook, "phase", string(at.Phase))
	}
	for state, n := range f.Loans {
		gauge("responder_loans", "Loans that are neither returned nor kept for good, by the state of the playbook that gives them back; still-owed: a person has to decide.", float64(n), "state", state)
	}
	gauge("responder_runs_set_aside", "Runs that cannot be processed and wait to be released by a person.", float64(f.Quarantined))
	gauge("responder_alerts_crowded", "1: alerts start no runs, because as many that had one are remembered and fire still as may be.", oneIf(f.Crowded))
	for lock, run := range f.Locks {
		gauge("responder_lock_held", "Locks held by runs; always 1.", 1, "lock", lock, "playbook", f.Holders[run])
	}
}

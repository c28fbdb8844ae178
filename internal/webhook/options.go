package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// Intake admits notifications.
type Intake interface {
	// Admit returns how many bytes it stored once n is durable. Every error is answered 503, so
	// that Alertmanager tries again; [ErrBusy], [ErrPaused] and
	// [ErrUnavailable] name the reason. It is called concurrently.
	Admit(ctx context.Context, n playbook.Notification) (stored int, err error)
}

// Control sends commands to runs.
type Control interface {
	// Command hands c to the run and returns once its outcome is durable.
	// Its errors wrap [ErrNotFound], [ErrConflict], [ErrForbidden],
	// [ErrInvalid] or one of Admit's; their text is shown to the caller.
	// c.Now is the wall clock's; whoever keeps another time replaces it.
	Command(ctx context.Context, run string, c machine.Command) error
}

// Pauses switches automation off and on again. Errors are as for [Control].
type Pauses interface {
	// Pauses lists what is paused now.
	Pauses() []Pause
	// Pause records p and stops what p names; p.By and p.Reason are set.
	Pause(ctx context.Context, who rights.Actor, p Pause) error
	// Unpause lifts the pause with p's service and playbook; p.By and
	// p.Reason are who lifts it and why.
	Unpause(ctx context.Context, who rights.Actor, p Pause) error
}

// Views reads runs. What it returns is not changed afterwards.
type Views interface {
	// Runs lists runs, newest first, at most f.Limit.
	Runs(f RunFilter) []machine.State
	// Run returns one run, and false if there is none.
	Run(id string) (machine.State, bool)
	// Events returns a run's events from seq from on; the first is 0.
	Events(id string, from uint64) ([]machine.Event, error)
}

// Log is the journal as the API shows it.
type Log interface {
	// Entries yields the entries from seq from on, ascending.
	Entries(from uint64) iter.Seq2[api.Entry, error]
	// Checkpoint returns the latest signed checkpoint.
	Checkpoint() ([]byte, error)
	// Snapshot writes a consistent copy of the whole journal.
	Snapshot(w io.Writer) error
}

// Options is what a [Server] needs. Intake is required; a nil Control, Starter, Pauses,
// Views, Alerts, Reports, Ladder, Log, Journal, Playbooks or Services answers 404 on its routes.
type Options struct {
	Intake  Intake
	Control Control
	Starter Starter
	Pauses  Pauses
	Views   Views
	Alerts  Alerts
	Reports Reports
	Ladder  Ladder
	Log     Log
	Journal Journal
	Sandbox Sandbox // nil: the cluster is real

	// Trace returns the address of the page of a run's trace; empty: there is none. Nil: no run has one.
	Trace func(run string) string
	// Spent returns what each part of a run's time spent of error budgets, within seconds. Nil: 404.
	Spent func(ctx context.Context, run machine.State, events []machine.Event) api.RunBudget

	Playbooks func() *playbook.Set
	Services  func() []playbook.Service
	Arming    func() func(playbook.Service) api.Arming                            // whether Responder can act on a service, as it is now; nil: it is not told
	Nodes     func(ctx context.Context) api.NodeList                              // within seconds; nil: 404
	Refused   func(who rights.Actor, right rights.Right, why string)              // records a request that its credential's scopes refuse; nil: nobody
	Ready     func() []string                                                     // what is missing before work can be done; empty: ready. nil: always ready
	Room      func() error                                                        // nil when notifications can be taken in; else it wraps ErrMemory or ErrDisk. nil: they always can
	Left      func() (bytes int64, known bool)                                    // what notifications may still take of the journal's volume; nil: never known, and senders have no share of it
	Earlier   func(ctx context.Context, since time.Time) iter.Seq2[Stored, error] // notifications that were stored since then, oldest first, until ctx is done; nil: none
	Crowded   func() bool                                                         // alerts start no runs, because too many that had one fire still; nil: never
	Watch     func() (<-chan struct{}, func())                                    // signals after every append to the journal; the function ends it. nil: follow=1 is refused
	Metrics   http.Handler                                                        // served at /metrics; nil: 404
	Slack     http.Handler                                                        // takes Slack's clicks at /api/v1/slack/interactivity. It authenticates and bounds them itself; nil: 404
	Pages     Pages                                                               // what people see in a browser; nil: 404
	Version   any                                                                 // served as JSON at /api/v1/version

	Auth Auth
	TLS  TLS
	Now  func() time.Time // when a notification was received; default time.Now

	DropLabels    []string      // labels removed before an alert's identity is computed
	MaxBody       int64         // bytes of one notification; default 16 MiB
	InFlightBytes int64         // bytes of bodies being read or admitted, over all senders, >= twice MaxBody: one sender gets half; default 32 MiB. Memory needed is about four times that
	MaxConns      int           // open connections; default 2048
	Quota         Quota         // of one sender; default 200000 at once, 1000 a second, 25 % of the room at once and in each day
	SlowTimeout   time.Duration // for headers and body of a request together; default 10 s

	Logger     *slog.Logger          // required
	Registerer prometheus.Registerer // default: metrics are not exposed
}

// RunFilter selects runs; zero fields select everything.
type RunFilter struct {
	Service  string
	Playbook string
	Begins   string // beginning of the ID
	Open     *bool  // only runs that have not ended, or only such that have
	Limit    int    // > 0
}

// Pause keeps runs from acting. Without Service and Playbook it is for
// everything. A pause with Intake refuses notifications with 503 until it is
// lifted, and has no Service and no Playbook.
type Pause struct {
	Service  string    `json:"service,omitempty"`
	Playbook string    `json:"playbook,omitempty"`
	Intake   bool      `json:"intake,omitempty"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
}

// Scope names what the pause holds up: global, intake, service:NAME or
// playbook:NAME.
func (p Pause) Scope() string {
	return api.PauseScope(p.Service, p.Playbook, p.Intake)
}

// Why something was not done. Interfaces of this package return errors that
// wrap these; anything else is an internal error.
var (
	ErrBusy        = errors.New("too much is waiting already")
	ErrPaused      = errors.New("intake is paused")
	ErrUnavailable = errors.New("the journal cannot take it now")
	ErrMemory      = errors.New("memory is short")
	ErrDisk        = errors.New("the journal's volume is almost full")

	ErrNotFound  = errors.New("not found")
	ErrArchived  = errors.New("archived")
	ErrConflict  = errors.New("not possible in the present state")
	ErrForbidden = errors.New("not allowed to decide this")
	ErrInvalid   = errors.New("invalid request")
)

// withDefaults sets the defaults and refuses invalid options.
func (o Options) withDefaults() (Options, error) {
	const mib = 1 << 20
	if o.MaxBody == 0 {
		o.MaxBody = 16 * mib
	}
	if o.InFlightBytes == 0 {
		o.InFlightBytes = max(32*mib, 2*o.MaxBody)
	}
	if o.MaxConns == 0 {
		o.MaxConns = 2048
	}
	if o.Quota == (Quota{}) {
		o.Quota = Quota{Burst: 200_000, Rate: 1000}
	}
	if o.Quota.Share == 0 {
		o.Quota.Share = 25
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SlowTimeout == 0 {
		o.SlowTimeout = 10 * time.Second
	}
	switch {
	case o.Intake == nil:
		return o, errors.New("webhook: no intake")
	case o.Logger == nil:
		return o, errors.New("webhook: no logger")
	case o.MaxBody < 0 || o.MaxConns < 0 || o.SlowTimeout < 0 || o.Quota.Burst < 1 || o.Quota.Rate < 1 || o.Quota.Share < 1 || o.Quota.Share > 100:
		return o, errors.New("webhook: a limit is negative")
	case o.InFlightBytes < 2*o.MaxBody:
		return o, fmt.Errorf("webhook: %d bytes in flight are less than two bodies of %d", o.InFlightBytes, o.MaxBody)
	case slices.Contains(o.DropLabels, "alertname"):
		return o, errors.New("webhook: the label alertname cannot be dropped: alerts are told apart by it")
	}
	return o, nil
}

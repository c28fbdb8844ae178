package step

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/playbook"
)

// Deps is what steps need of the world. Workloads, Changer and Querier may be
// nil when nothing of the kind is configured: their steps then answer with an
// [*fault.Error] that says so.
type Deps struct {
	Querier   Querier
	Workloads Workloads
	Changer   Changer
	GPUs      GPUs // nil: nothing is known of GPUs
	XIDs      XIDs // nil: only what GPUs remember is known

	Nodes       Nodes // nil: not configured, as NodeChanger
	NodeChanger NodeChanger
	Repairs     Repairs                   // nil: repairs are asked for by labels only
	Services    func() []playbook.Service // the catalog; nil: only a run's own service is known

	// What Git holds, and Argo CD. Nil: not configured.
	Manifests    Manifests
	Commits      Commits
	Pulls        Pulls
	History      History
	Applications Applications
	Objects      Objects
	LastGood     LastGood      // nil: nothing was ever verified
	Recovery     time.Duration // how long an application may be unhealthy after a sync before it counts as Degraded; 0: 3m

	Prober   Prober   // nil: HTTP with a dialer that refuses link-local and metadata addresses
	Notifier Notifier // nil: messages go to Log
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now. The sandbox's time runs faster.
}

// GPUs reads what is known of the GPUs of nodes: node agents, dcgm-exporter, or
// the sandbox.
type GPUs interface {
	// Snapshots gives one answer for each node, in their order. A node that
	// cannot be asked, in time, is an answer with an error. Freshness and what
	// the readings mean are the caller's to judge: [judge.Answers]. Each
	// remembers the time that back reaches, as far as its source does; 0: what a
	// verdict needs. It is at most [MaxHealthyFor].
	Snapshots(ctx context.Context, nodes []string, back time.Duration) []gpu.Answer
}

// Prober sends one HTTP request to a service's endpoint: the network, or the
// sandbox. It follows no redirect to another host.
type Prober interface {
	Do(req *http.Request) (*http.Response, error)
}

// Notifier tells people. It is called once per notification; when it cannot
// deliver it returns an error and the executor decides whether to try again.
type Notifier interface {
	Notify(ctx context.Context, n Notice) error
}

// Notice is one message to people.
type Notice struct {
	Key      string // idempotency key: the same notice has the same key
	Run      string
	Playbook string
	State    string
	Service  playbook.Service
	Alert    playbook.Alert
	Text     string
	To       []string  // channels by their configured names; empty: the default ones
	Urgent   bool      // a person has to take over
	Asks     bool      // a question was just asked, which is shown elsewhere too
	At       time.Time // when it was decided that people are told
}

package step

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/kube/jobs"
	"github.com/inference-responder/responder/internal/playbook"
)

// Deps holds what steps need. Workloads, Changer and Querier may be nil if they
// are not configured: steps that need them then return a [*fault.Error] that
// names the setting.
type Deps struct {
	Querier   Querier
	Workloads Workloads
	Logs      Logs       // nil: what containers printed is not read
	Events    Events     // nil: only the warnings of Workloads are known
	Capacity  Capacities // nil: what nodes have room for is not known
	Fleet     Fleet      // nil: what a lever costs as a share of all services is not known
	Changer   Changer
	Pods      Pods        // nil: single pods are not relabeled
	Scalers   Autoscalers // nil: bounds of autoscalers are not changed
	Routes    Routes      // nil: no requests are moved
	Jobs      Jobs        // nil: no Jobs are run
	Templates *jobs.Set   // of Jobs, as the platform team configured them; nil: none
	GPUs      GPUs        // nil: nothing is known of GPUs
	XIDs      XIDs        // nil: only what GPUs remember is known

	Nodes       Nodes // nil: not configured, as NodeChanger
	NodeChanger NodeChanger
	Repairs     Repairs                   // nil: repairs are asked for by labels only
	NodeOwners  NodeOwners                // nil: no node pools are configured
	Services    func() []playbook.Service // the catalog; nil: only a run's own service is known

	// What Git holds, and Argo CD. Nil: not configured.
	Manifests    Manifests
	Commits      Commits
	Pulls        Pulls
	History      History
	Applications Applications
	Objects      Objects
	LastGood     LastGood      // nil: nothing was ever verified
	Journal      Journal       // nil: no commit is known to be Responder's
	Recovery     time.Duration // how long an application may be unhealthy after a sync before it counts as Degraded; 0: 3m

	Probes   *golden.Probes // nil: no service has golden prompts
	Prober   Prober         // nil: HTTP with a guarded dialer, see [outbound.Options]
	Networks []netip.Prefix // in which endpoints of services are asked; none: all that are not refused always
	Notifier Notifier       // nil: messages go to Log
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now. The sandbox's time runs faster.
}

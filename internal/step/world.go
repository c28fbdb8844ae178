package step

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// Manifests reads the manifests of services in Git and computes changes. It
// writes nothing. Every answer is of the branch's current head.
type Manifests interface {
	// Places returns where each variable stands, in the order they were asked.
	Places(ctx context.Context, src gitops.Source, t gitops.Target, vs []gitops.Variable) ([]gitops.Place, error)
	// Made returns an error unless the target is known to be what its HelmRelease makes.
	Made(ctx context.Context, src gitops.Source, t gitops.Target) error
	// Propose computes one edit that sets the variables, or takes back what commits
	// changed of the target. A field that was changed again since is a conflict,
	// except replicas, which stay.
	Propose(ctx context.Context, w gitops.Want) (gitops.Proposal, error)
	// Reverting computes a change that reverts these commits in the target's
	// manifests, and no later commit. Lines that were changed again since are a
	// conflict.
	Reverting(ctx context.Context, src gitops.Source, t gitops.Target, shas []string) (gitops.Proposal, error)
}

// Commits writes to the branch of a source: directly, or by a pull request.
type Commits interface {
	// Commit makes one commit of a proposal whose base is still the head, delivered
	// as requested. It is idempotent under the request's key. A base that moved is a
	// conflict. If a push is refused because the branch is protected, the error
	// wraps [gitops.ErrProtected], and from then on Delivery returns a pull request.
	Commit(ctx context.Context, r gitops.Request) (gitops.Landing, error)
	// Find returns the state of the commit with that key.
	Find(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error)
}

// Pulls handles the pull requests that commits may wait in.
type Pulls interface {
	// Delivery returns how a change of the source's branch is made now: by a push or
	// by a pull request.
	Delivery(ctx context.Context, src gitops.Source) (gitops.Delivery, error)
	// Withdraw closes the pull request with that key, if it is open.
	Withdraw(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error)
	// Merge merges the pull request with that key. If reviews or checks are missing,
	// the error names them. It is called only if Responder may merge.
	Merge(ctx context.Context, src gitops.Source, key string) error
}

// History reads who changed what in Git.
type History interface {
	// Changes returns the commits since then that touched the manifests of the
	// target, newest first. A history that does not reach back that far is an error.
	Changes(ctx context.Context, src gitops.Source, t gitops.Target, since time.Time) ([]gitops.Touched, error)
	// Since returns the commits after a commit; with an empty target, those of every
	// workload. It recognizes commits by Responder, whoever merged them.
	Since(ctx context.Context, src gitops.Source, t gitops.Target, sha string) ([]gitops.Touched, error)
	// Contains reports whether ancestor is in the history of descendant.
	Contains(ctx context.Context, src gitops.Source, ancestor, descendant string) (bool, error)
}

// Applications reads and syncs the applications of Argo CD.
type Applications interface {
	// Application returns the state of an application, by namespace/name or name.
	Application(ctx context.Context, name string) (gitops.Application, error)
	// Refresh asks for a fresh comparison with Git.
	Refresh(ctx context.Context, name string) error
	// Lacks describes the missing right to sync the application; empty: none is missing.
	Lacks(ctx context.Context, name string) (string, error)
	// Sync starts a sync of an application at these revisions, one for each source.
	// They may be old. If a sync is under way, the error is throttled.
	Sync(ctx context.Context, s gitops.Sync) error
	// Stop asks Argo CD to end the operation with that key, if it is under way. What
	// it did so far stays. The operation ends a moment later.
	Stop(ctx context.Context, name, key string) error
}

// Objects reads live objects of any kind and dry-runs manifests against the API
// server.
type Objects interface {
	// Object returns an object as JSON. If it does not exist, the error is NotFound.
	Object(ctx context.Context, id kube.ObjectID) ([]byte, error)
	// Try applies a manifest as a server-side dry-run and returns the resulting
	// object as JSON. The namespace is for manifests that name none. The error is
	// Invalid, with the server's message, if the manifest is refused, and Forbidden if
	// Responder has no right to try.
	Try(ctx context.Context, namespace string, manifest []byte) ([]byte, error)
}

// LastGood returns what was last verified.
type LastGood interface {
	// LastGood returns the value of a variable of a service, and the commit, that
	// a run last proved to be good. An empty variable asks for the commit alone.
	LastGood(service, variable string) (value, sha string, ok bool)
}

// Journal tells what runs have done.
type Journal interface {
	// Committed reports whether a run recorded that a commit is what its change, or
	// the undo of it, became. It is false of a run that is archived.
	Committed(run, sha string) (bool, error)
}

// NodeOwners returns the first pool that the labels of a node select, and its
// owners; empty: none does.
type NodeOwners func(labels map[string]string) (pool string, owners []string)

// Repairs asks another system to repair hardware. Requests cannot be read back
// from that system.
type Repairs interface {
	// Ask sends a request. The error is a [*fault.Error], Unknown if the request may
	// have arrived. ticket is the receiver's name of the request; it may be empty.
	Ask(ctx context.Context, r RepairRequest) (ticket string, err error)
	// Where returns the receiver's name for people.
	Where() string
	// Once reports whether the receiver deduplicates requests by key, so that a
	// request whose outcome is unknown may be sent again.
	Once() bool
}

// RepairRequest asks for a reset, or withdraws what was asked for.
type RepairRequest struct {
	Key      string // the same for the same request
	Withdraw string // key of the request that is withdrawn; empty: this is one
	Ticket   string // what the receiver calls that; empty: not known
	Node     string
	GPUs     []string // UUIDs or indices; none: all of the node's
	Reason   string
	Run      string
	Service  string
}

// XIDs has the XIDs of GPUs for longer than their agents remember them.
type XIDs interface {
	// Quiet returns nil if it is known without a gap that none of these GPUs of a
	// node has had another XID since that time. Otherwise the error names the XID or
	// the gap.
	Quiet(ctx context.Context, node string, uuids []string, since time.Time) error
}

// Querier evaluates PromQL: Prometheus, or the sandbox.
type Querier interface {
	// Instant evaluates expr at the given time.
	Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error)
	// Range evaluates expr over [from, to].
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) (slo.Matrix, error)
}

// Workloads reads workloads and their history: a cluster, or the sandbox.
type Workloads interface {
	// Workload returns the state of one workload and its pods.
	Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error)
	// Revisions returns the revision history, oldest first.
	Revisions(ctx context.Context, ref kube.Ref) ([]kube.Revision, error)
	// Nodes returns the conditions of the nodes the workload's pods run on.
	Nodes(ctx context.Context, ref kube.Ref) ([]kube.Node, error)
}

// Capacities tells where further replicas would find room. Every answer lists the
// nodes and pods of the cluster.
type Capacities interface {
	// Capacity returns how many more replicas of a workload the nodes and quotas take now.
	Capacity(ctx context.Context, ref kube.Ref) (kube.Capacity, error)
}

// Logs reads what containers printed last. It may hold what users asked.
type Logs interface {
	// Log returns the last lines that a container printed, or the one before it.
	Log(ctx context.Context, q kube.LogQuery) (string, error)
}

// Events reads what the cluster says of a workload.
type Events interface {
	// Events returns the events of a workload, its pods and their nodes, newest
	// first, and what it did not read.
	Events(ctx context.Context, ref kube.Ref, since time.Time) (all []kube.EventCount, missing []string, err error)
}

// Changer changes workloads. Every method takes dryRun, which asks the server
// to validate and default the change without storing it, and a precondition on
// the object's UID and generation.
type Changer interface {
	// Scale sets the replicas of the object.
	Scale(ctx context.Context, c kube.ScaleChange) (kube.Applied, error)
	// Undo sets the pod template to that of an earlier revision.
	Undo(ctx context.Context, c kube.UndoChange) (kube.Applied, error)
	// Restart rolls the same pod template out once more.
	Restart(ctx context.Context, c kube.RestartChange) (kube.Applied, error)
	// Hold pauses the rollouts of the object, or resumes them.
	Hold(ctx context.Context, c kube.HoldChange) (kube.Applied, error)
}

// Autoscalers reads autoscalers and changes their bounds: a cluster, or the sandbox.
type Autoscalers interface {
	// AutoscalerOf returns the autoscaler of a workload. The error is NotFound if it
	// has none, and Ambiguous if it has several.
	AutoscalerOf(ctx context.Context, workload kube.Ref) (kube.Autoscaler, error)
	// Autoscaler returns an autoscaler by its name.
	Autoscaler(ctx context.Context, ref kube.Ref) (kube.Autoscaler, error)
	// SetBounds sets the bounds of an autoscaler on the precondition that nobody has
	// changed them since it was read. It has a dry-run, which the server validates
	// without storing it.
	SetBounds(ctx context.Context, c kube.BoundsChange) (kube.Autoscaler, error)
}

// Pods reads and relabels single pods: a cluster, or the sandbox.
type Pods interface {
	// Pod returns one pod, whether or not a workload controls it.
	Pod(ctx context.Context, namespace, name string) (kube.PodState, error)
	// ChangePod edits labels and annotations of one pod, identified by its UID. A pod
	// that was written since it was read is a conflict.
	ChangePod(ctx context.Context, c kube.PodChange) (kube.PodState, error)
}

// Routes reads and changes how requests are split between revisions: a cluster, or
// the sandbox.
type Routes interface {
	// Route returns how an object splits requests.
	Route(ctx context.Context, ref kube.Ref) (kube.Route, error)
	// SetRoute sets the weights of a route. It has a dry-run, and a precondition on the
	// object's UID and generation.
	SetRoute(ctx context.Context, c kube.RouteChange) (kube.Route, error)
}

// Jobs runs Kubernetes Jobs: a cluster, or the sandbox.
type Jobs interface {
	// Job returns a Job with its pods. If it does not exist, the error is NotFound.
	Job(ctx context.Context, namespace, name string) (kube.Job, error)
	// CreateJob makes a Job with the name that is asked for. One of that name that is
	// there is a conflict. It has a dry-run, which the server validates without storing it.
	CreateJob(ctx context.Context, c kube.JobCreation) (kube.Job, error)
	// DeleteJob deletes a Job, identified by its UID, once its pods have ended. One that
	// is gone is no error.
	DeleteJob(ctx context.Context, d kube.JobDeletion) error
}

// Nodes reads nodes and what runs on them: a cluster, or the sandbox.
type Nodes interface {
	// Node returns one node.
	Node(ctx context.Context, name string) (kube.NodeState, error)
	// NodePods returns the pods bound to it; their budgets need not be known.
	NodePods(ctx context.Context, name string) ([]kube.NodePod, error)
	// NodeView returns the node with its pods and their budgets, its pool and what serves on it.
	NodeView(ctx context.Context, name string) (kube.NodeView, error)
	// InRotation returns the pods of a namespace that may get new requests, by UID, each with the EndpointSlice that says so.
	InRotation(ctx context.Context, namespace string) (map[string]string, error)
}

// NodeChanger changes nodes and evicts pods, one request each. Both methods
// have a dry-run, which the server validates without storing it.
type NodeChanger interface {
	// ChangeNode edits a node on the precondition that it has not changed since it was read.
	ChangeNode(ctx context.Context, c kube.NodeChange) (kube.NodeState, error)
	// Evict evicts one pod, identified by its UID. blocked is the reason if a
	// disruption budget does not allow it now. A pod that is gone is no error.
	Evict(ctx context.Context, e kube.Eviction) (blocked string, err error)
}

// GPUs reads the state of the GPUs of nodes: node agents, dcgm-exporter, or the
// sandbox.
type GPUs interface {
	// Snapshots returns one answer for each node, in their order. A node that does
	// not answer in time has an answer with an error. The caller judges freshness
	// and readings (judge.Answers). Each answer covers the time back, as far as its
	// source remembers; 0: what a verdict needs. back is at most node.MaxHealthyFor.
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

// ErrNoGPUSource is the error if no source of GPU readings is configured.
var ErrNoGPUSource = errors.New("neither node agents nor dcgm-exporter are configured: set gpu")

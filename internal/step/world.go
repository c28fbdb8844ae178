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

// Manifests reads what Git says of a service and computes changes of it. It
// writes nothing. Every answer is of the branch's head at the time of asking.
type Manifests interface {
	// Places returns where each variable stands, in the order they were asked.
	Places(ctx context.Context, src gitops.Source, t gitops.Target, vs []gitops.Variable) ([]gitops.Place, error)
	// Propose computes the one edit that gives the variables their values.
	Propose(ctx context.Context, w gitops.Want) (gitops.Proposal, error)
	// Reverting computes the change that takes these commits back, as far as
	// they touch the target's manifests, and nothing that came later. Lines that
	// were changed again since are a conflict.
	Reverting(ctx context.Context, src gitops.Source, t gitops.Target, shas []string) (gitops.Proposal, error)
}

// Commits writes to the branch of a source: directly, or by a pull request.
type Commits interface {
	// Commit makes one commit of a proposal whose base is still the head, the way
	// the request says. It is idempotent under the request's key. A base that
	// moved is a conflict; a push that is refused because the branch is protected
	// has [gitops.ErrProtected] in its error, and from then on Delivery reports a pull request.
	Commit(ctx context.Context, r gitops.Request) (gitops.Landing, error)
	// Find tells what became of the commit with that key.
	Find(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error)
}

// Pulls steers the pull requests that commits may wait in.
type Pulls interface {
	// Delivery returns how a change of the source's branch is made now: pushed, or by a
	// pull request. What cannot be found out is an error.
	Delivery(ctx context.Context, src gitops.Source) (gitops.Delivery, error)
	// Withdraw closes that of the commit with that key, if it is open.
	Withdraw(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error)
	// Merge merges it, as soon as no review or check is missing; what is missing
	// is the error. It is called where that is ours to do.
	Merge(ctx context.Context, src gitops.Source, key string) error
}

// History tells who changed what in Git.
type History interface {
	// Changes returns the commits since then that touched the manifests of the
	// target, newest first. A history that does not reach back that far is an error.
	Changes(ctx context.Context, src gitops.Source, t gitops.Target, since time.Time) ([]gitops.Touched, error)
	// Since returns those that came after a commit; with an empty target, those of
	// every workload. Those of ours are known as such, whoever merged them.
	Since(ctx context.Context, src gitops.Source, t gitops.Target, sha string) ([]gitops.Touched, error)
	// Contains tells whether a commit is in the history of another one.
	Contains(ctx context.Context, src gitops.Source, ancestor, descendant string) (bool, error)
}

// Applications knows the applications of Argo CD.
type Applications interface {
	// Application returns the state of one, by namespace/name or name.
	Application(ctx context.Context, name string) (gitops.Application, error)
	// Refresh asks for a fresh comparison with Git.
	Refresh(ctx context.Context, name string) error
	// Lacks reports which right to sync it is missing, for people; empty: none.
	Lacks(ctx context.Context, name string) (string, error)
	// Sync begins a sync of an application at these revisions, one for each
	// source, older ones too. One that runs already is throttled.
	Sync(ctx context.Context, s gitops.Sync) error
	// Stop has Argo CD end the operation with that key, if it is under way; what
	// it did stays. It ends a moment later.
	Stop(ctx context.Context, name, key string) error
}

// Objects reads live objects of any kind and has the API server judge
// manifests: the cluster.
type Objects interface {
	// Object returns an object as it is now, as JSON. One that is not there is NotFound.
	Object(ctx context.Context, id kube.ObjectID) ([]byte, error)
	// Try asks whether the server would take a manifest, and stores nothing. It
	// gives the object as it would be, as JSON. The namespace is for manifests
	// that name none. Invalid: it is refused, with the server's words; Forbidden:
	// we may not ask.
	Try(ctx context.Context, namespace string, manifest []byte) ([]byte, error)
}

// LastGood knows what was last verified.
type LastGood interface {
	// LastGood returns the value of a variable of a service, and the commit, that
	// a run last proved to be good. An empty variable asks for the commit alone.
	LastGood(service, variable string) (value, sha string, ok bool)
}

// Repairs asks another system for the repair of hardware. That system keeps what
// it was asked for; nothing can be read back from it.
type Repairs interface {
	// Ask sends a request. The error is a [*fault.Error], Unknown where the
	// request may have arrived. ticket is what the receiver calls it; it may be empty.
	Ask(ctx context.Context, r RepairRequest) (ticket string, err error)
	// Where names the receiver for people.
	Where() string
	// Once reports whether the receiver takes a key that it has seen for the
	// same request, so that a request whose fate is unknown may be sent again.
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

// XIDs knows the XIDs of GPUs for longer than those who read them remember.
type XIDs interface {
	// Quiet is nil where it is known without a gap that none of these GPUs of a
	// node has had another XID since that time. Anything else is an error: that
	// there was one, or that nobody knows.
	Quiet(ctx context.Context, node string, uuids []string, since time.Time) error
}

// Querier answers PromQL: Prometheus, or the sandbox.
type Querier interface {
	// Instant evaluates expr at the given time.
	Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error)
	// Range evaluates expr over [from, to].
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) (slo.Matrix, error)
}

// Workloads reads workloads and what happened to them: a cluster, or the sandbox.
type Workloads interface {
	// Workload returns the state of one workload and its pods.
	Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error)
	// Revisions returns the revision history, oldest first.
	Revisions(ctx context.Context, ref kube.Ref) ([]kube.Revision, error)
	// Nodes returns the conditions of the nodes the workload's pods run on.
	Nodes(ctx context.Context, ref kube.Ref) ([]kube.Node, error)
}

// Changer changes workloads. Every method takes dryRun, which asks the server
// to validate and default the change without storing it, and a precondition on
// the object's UID and generation.
type Changer interface {
	// Scale sets the replicas of the object.
	Scale(ctx context.Context, c kube.ScaleChange) (kube.Applied, error)
	// Undo sets the pod template to that of an earlier revision.
	Undo(ctx context.Context, c kube.UndoChange) (kube.Applied, error)
}

// Nodes reads nodes and what runs on them: a cluster, or the sandbox.
type Nodes interface {
	// Node returns one node.
	Node(ctx context.Context, name string) (kube.NodeState, error)
	// NodePods returns the pods bound to it; their budgets need not be known.
	NodePods(ctx context.Context, name string) ([]kube.NodePod, error)
	// NodeView gives the node with its pods and their budgets, its pool and what serves on it.
	NodeView(ctx context.Context, name string) (kube.NodeView, error)
	// InRotation returns the pods of a namespace that may get new requests, by UID, each with the EndpointSlice that says so.
	InRotation(ctx context.Context, namespace string) (map[string]string, error)
}

// NodeChanger changes nodes and moves pods off them, one request each. Both
// methods have a dry-run that the server validates and forgets.
type NodeChanger interface {
	// ChangeNode edits a node on the precondition that it is still as it was looked at.
	ChangeNode(ctx context.Context, c kube.NodeChange) (kube.NodeState, error)
	// Evict asks for one pod, this very one, to leave. Blocked: a disruption
	// budget says not now. A pod that is gone is no error.
	Evict(ctx context.Context, e kube.Eviction) (blocked string, err error)
}

// GPUs reads what is known of the GPUs of nodes: node agents, dcgm-exporter, or
// the sandbox.
type GPUs interface {
	// Snapshots returns one answer for each node, in their order. A node that
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

// ErrNoGPUSource reports that nothing is configured that reads the state of GPUs.
var ErrNoGPUSource = errors.New("neither node agents nor dcgm-exporter are configured: set gpu")

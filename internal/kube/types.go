package kube

import (
	"slices"
	"time"
)

// Ref names a workload.
type Ref struct {
	Kind      string // Deployment, Rollout, StatefulSet
	Namespace string
	Name      string
}

// Workload is the state of a workload and its pods at one moment.
type Workload struct {
	Ref         Ref
	APIVersion  string
	UID         string
	Generation  int64
	Observed    int64 // generation the controller has seen
	Replicas    int   // desired
	Ready       int
	Updated     int
	Available   int
	Unavailable int
	Revision    int64             // current revision number
	Paused      bool              // spec.paused; of a Rollout of Argo Rollouts, or it is aborted
	PausedBy    string            // field manager that sets that, or kubectl apply; empty: nobody does, or it is not known
	Held        string            // ReplicaSet whose rollout a hold of ours has paused or aborted; empty: none has
	HoldOver    bool              // the pod template has another spec than that of Held
	Template    string            // ReplicaSet of the current pod template; empty: none yet, or not a Deployment
	Stable      string            // of a Rollout: ReplicaSet that its requests go back to when it is aborted; empty: none yet
	Stuck       string            // progress deadline exceeded, replica failure: the condition's message
	Strategy    Strategy          // how a change of the template rolls out
	Labels      map[string]string // of the object
	Selector    map[string]string // labels by which it selects its pods; expressions are not among them
	Annotations map[string]string // of the object; secrets never stand there
	ScaledBy    string            // effect of ours that set the replicas, as [EffectManager] names it; empty: somebody else's write, or none
	AbortedBy   string            // of a Rollout: who set status.abort last, to false too; an effect of ours as [EffectManager] names it
	Version     string            // resource version of a Rollout: an abort moves no generation
	Pods        []Pod
	Events      []EventCount // warnings of the last hour, newest first, deduplicated
	Owners      []Owner      // who owns fields of it: see Owner
}

// RollingOut reports whether pods of an earlier revision are left, or the controller has
// not seen the newest change yet. A Rollout of Argo Rollouts keeps those for a while after its
// release became the stable one: its rollout is over then. Pods that a partition or the strategy OnDelete keeps
// back are not left over, nor are those that have ended or leave.
func (w Workload) RollingOut() bool {
	if w.Ref.Kind == Rollout {
		return w.Observed < w.Generation || w.Stable != w.Template
	}
	keeps := w.Strategy.Partition > 0 || w.Strategy.Type == "OnDelete"
	return w.Observed < w.Generation || !keeps && slices.ContainsFunc(w.Pods, func(p Pod) bool {
		return p.Revision != w.Revision && !p.Over() && !p.Worker
	})
}

// Over reports whether a pod leaves or has ended, so that its controller makes another.
// One that the kubelet evicted stays on the list as Failed.
func (p Pod) Over() bool {
	return slices.Contains([]string{"Terminating", "Failed", "Succeeded"}, p.Phase)
}

// Strategy is how a workload replaces its pods. The zero value is unknown:
// nothing can then be said about capacity.
type Strategy struct {
	Type           string // RollingUpdate, Recreate, OnDelete; Canary, BlueGreen of a Rollout; empty: unknown
	MaxUnavailable int    // pods that may be missing at once, resolved against Replicas; RollingUpdate and Canary only
	MaxSurge       int    // pods that may be there in addition; RollingUpdate of a Deployment only
	Partition      int    // StatefulSet: ordinals below it are not updated
}

// Pod is one pod of a workload.
type Pod struct {
	Name      string
	UID       string
	Node      string
	Phase     string
	Ready     bool
	Revision  int64
	Restarts  int
	OOMKilled bool
	Waiting   string // reason of a waiting container, e.g. CrashLoopBackOff, ImagePullBackOff
	Message   string // why it cannot be scheduled or started
	Init      string // init container that runs; empty: none does
	Created   time.Time
	Started   time.Time
	Loading   time.Duration // from its start until it became ready, model and all; 0: it is not ready, or has restarted since
	Ended     *Ended        // how one of its containers last ended that should not have; nil: none did

	IP         string    // empty: it has none yet
	ReadySince time.Time // zero: it is not ready
	Worker     bool      // it works for the leader of its group, and answers no requests itself
	Containers []PodContainer
}

// PodContainer is one container of a pod, with what tells whether it serves.
type PodContainer struct {
	Name      string
	Port      int       // the declared one named http, else the first of TCP; 0: none
	Since     time.Time // it runs since then; zero: it does not run
	Readiness HealthProbe
	Startup   HealthProbe
}

// HealthProbe is how the kubelet asks a container. The zero value is none.
type HealthProbe struct {
	Kind string // http, tcp, grpc, exec; empty: there is none
	Path string // of http
	Port int    // 0: not a number that is known
}

// Ended is how a container ended with an error or was killed.
type Ended struct {
	Container   string
	Reason      string // Error, OOMKilled, ContainerCannotRun, ...
	ExitCode    int
	Began       time.Time
	At          time.Time
	Message     string // its termination message; empty unless it writes one, or falls back to its log
	MemoryLimit int64  // bytes that it may use; 0: as many as the node has
	Again       bool   // it was started again since, so that its words are in the log of the container before
	Served      Served
}

// Served reports whether a container had been ready before it ended.
type Served string

// Values of [Served].
const (
	ServedYes     Served = "yes"
	ServedNo      Served = "no"
	ServedUnknown Served = "unknown"
)

// EventCount is a Kubernetes event, repeated Count times.
type EventCount struct {
	Reason  string
	Object  string // Kind/name
	Message string
	Normal  bool // it is no warning
	Count   int
	Last    time.Time
}

// Owner is another actor that owns a field of the workload and would change it back.
type Owner struct {
	Field string // spec.replicas, spec.template, *
	Kind  string // HorizontalPodAutoscaler, ScaledObject, ArgoCD, Flux, FluxHelm, or the kind of a controlling object
	Name  string
	Why   string // how we know: the label, annotation, ownerReference or managed field

	Namespace string // of Flux's objects; empty: not known, or the workload's
}

// Owners that deploy from Git.
const (
	ArgoCD   = "ArgoCD"   // an application of Argo CD
	Flux     = "Flux"     // a Kustomization of Flux
	FluxHelm = "FluxHelm" // a HelmRelease of Flux
)

// Deploys reports whether the owner deploys from Git what others declare there.
func (o Owner) Deploys() bool { return o.Kind == ArgoCD || o.Kind == Flux || o.Kind == FluxHelm }

// Revision is one entry of a workload's history.
type Revision struct {
	Number  int64
	Name    string // of the ReplicaSet or ControllerRevision
	Created time.Time
	Active  time.Time // when it last became the current one; of one that came back before the current, the earliest it can have been
	Current bool
	Cause   string // kubernetes.io/change-cause
	Ours    bool   // it is current because Responder put it there as a repair, and nobody changed the pod template since
	PutBack bool   // it is current because Responder undid a change of its own, and nobody changed the pod template since: no repair
	// Acquitted reports that it is PutBack, and that the service's objectives were measured
	// without it and were not met: it is not what they miss.
	Acquitted bool
	Fields    map[string]string // the pod template, flattened: containers[vllm].image, containers[vllm].args[--max-num-seqs], containers[vllm].env[X]; values of env from secrets are references only
}

// Became returns when the revision became current, or when it was created where
// that is not known.
func (r Revision) Became() time.Time {
	if r.Active.IsZero() {
		return r.Created
	}
	return r.Active
}

// Node is a node that runs pods of the workload.
type Node struct {
	Name          string
	Ready         bool
	Unschedulable bool
	Conditions    []string // conditions that are bad: MemoryPressure, GPUUnhealthy=True, Ready=Unknown, ...
	Taints        []string
	Pods          int // of the workload
}

// Precondition is the incarnation of an object a change was planned on.
type Precondition struct {
	UID        string
	Generation int64
	Version    string // resource version; empty: any
}

// ScaleChange asks for a number of replicas.
type ScaleChange struct {
	Ref      Ref
	Replicas int
	Pre      Precondition
	DryRun   bool
	Run      string // run id, recorded in an annotation as responder.dev/run
	Key      string // idempotency key, recorded in an annotation as responder.dev/effect
}

// UndoChange asks for an earlier revision's pod template. A hold of ours ends with it.
type UndoChange struct {
	Ref      Ref
	Revision int64
	Hold     string // ReplicaSet whose rollout is held again with it; empty: none is
	PutBack  bool   // it undoes a change of Responder's: what it puts in place is no repair
	Acquits  bool   // with PutBack: that change was measured and did not help, so what is put in place is not the cause
	Pre      Precondition
	DryRun   bool
	Run      string
	Key      string
}

// RestartChange asks for a rollout of the same pod template.
type RestartChange struct {
	Ref    Ref
	At     time.Time
	Pre    Precondition
	DryRun bool
	Run    string
	Key    string
}

// RestartedAt is the annotation of a pod template by which kubectl restarts a
// workload.
const RestartedAt = "kubectl.kubernetes.io/restartedAt"

// Annotations by which a change is recognised after a crash. They are written
// in the same request as the change.
const (
	AnnotationRun    = "responder.dev/run"    // run that made the last change
	AnnotationEffect = "responder.dev/effect" // idempotency key of that change

	// AnnotationTemplate is the hash of the pod template that the last rollback
	// put in place, behind [putBack] or [acquitted] if that rollback undid one of ours. As long as
	// it is the template's, the rollout is ours.
	AnnotationTemplate = "responder.dev/template"
)

// Applied is what the server says after a change.
type Applied struct {
	UID        string
	Generation int64
	Replicas   int
	Fields     map[string]string // the pod template after the change, flattened
}

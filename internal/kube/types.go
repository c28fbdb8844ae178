package kube

import "time"

// Ref names a workload.
type Ref struct {
	Kind      string // Deployment, StatefulSet
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
	Revision    int64 // current revision number
	Paused      bool
	Stuck       string            // progress deadline exceeded, replica failure: the condition's message
	Strategy    Strategy          // how a change of the template rolls out
	Labels      map[string]string // of the object
	Annotations map[string]string // of the object; secrets never stand there
	Pods        []Pod
	Events      []EventCount // warnings of the last hour, newest first, deduplicated
	Owners      []Owner      // who owns fields of it: see Owner
}

// Strategy is how a workload replaces its pods. The zero value is unknown:
// nothing can then be said about capacity.
type Strategy struct {
	Type           string // RollingUpdate, Recreate, OnDelete; empty: unknown
	MaxUnavailable int    // pods that may be missing at once, resolved against Replicas; RollingUpdate only
	MaxSurge       int    // pods that may be there in addition; RollingUpdate of a Deployment only
	Partition      int    // StatefulSet: ordinals below it are not updated
}

// Pod is one pod of a workload.
type Pod struct {
	Name      string
	Node      string
	Phase     string
	Ready     bool
	Revision  int64
	Restarts  int
	OOMKilled bool
	Waiting   string // reason of a waiting container, e.g. CrashLoopBackOff, ImagePullBackOff
	Message   string // why it cannot be scheduled or started
	Started   time.Time
	Loading   time.Duration // from its start until it became ready, model and all; 0: it is not ready, or has restarted since
}

// EventCount is a Kubernetes event, repeated Count times.
type EventCount struct {
	Reason  string
	Object  string
	Message string
	Count   int
	Last    time.Time
}

// Owner is another actor that owns a field of the workload and would change it back.
type Owner struct {
	Field string // spec.replicas, spec.template, *
	Kind  string // HorizontalPodAutoscaler, ScaledObject, ArgoCD, Flux, or the kind of a controlling object
	Name  string
	Why   string // how we know: the label, annotation, ownerReference or managed field
}

// Revision is one entry of a workload's history.
type Revision struct {
	Number  int64
	Name    string // of the ReplicaSet or ControllerRevision
	Created time.Time
	Active  time.Time // when it last became the current one, as far as known; else Created
	Current bool
	Cause   string            // kubernetes.io/change-cause
	Ours    bool              // it is current because Responder put it there, and nobody changed the pod template since
	Fields  map[string]string // the pod template, flattened: containers[vllm].image, containers[vllm].args[--max-num-seqs], containers[vllm].env[X]; values of env from secrets are references only
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

// UndoChange asks for an earlier revision's pod template.
type UndoChange struct {
	Ref      Ref
	Revision int64
	Pre      Precondition
	DryRun   bool
	Run      string
	Key      string
}

// Annotations by which a change is recognised after a crash. They are written
// in the same request as the change.
const (
	AnnotationRun    = "responder.dev/run"    // run that made the last change
	AnnotationEffect = "responder.dev/effect" // idempotency key of that change

	// AnnotationTemplate is the hash of the pod template that the last rollback
	// put in place. As long as it is the template's, the rollout is ours.
	AnnotationTemplate = "responder.dev/template"
)

// Applied is what the server says after a change.
type Applied struct {
	UID        string
	Generation int64
	Replicas   int
	Fields     map[string]string // the pod template after the change, flattened
}

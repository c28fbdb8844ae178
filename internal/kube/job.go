package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/fault"
)

// Job is a Job of batch/v1 with its pods.
type Job struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string

	Complete  bool // it has ended well
	Failed    bool // it has ended otherwise, or is being ended: Reason and Message tell why
	Reason    string
	Message   string
	Suspended bool
	Leaving   bool     // it was deleted, and its pods are ending
	Pods      []JobPod // the oldest first
	Waits     string   // why its pod does not run; empty: it does, or the Job has ended
	Began     bool     // a pod of it has run, or may have
}

// Over reports whether no pod of the Job runs any more.
func (j Job) Over() bool { return j.Complete || j.Failed && !slices.ContainsFunc(j.Pods, JobPod.runs) }

// JobPod is a pod of a Job.
type JobPod struct {
	Name    string
	Phase   string
	Reason  string         // of its own end: DeadlineExceeded, Evicted; empty: its containers ended by themselves
	Message string         // about Reason
	Ends    []ContainerEnd // of its containers, the first that ended first
}

func (p JobPod) runs() bool { return p.Phase != "Succeeded" && p.Phase != "Failed" }

// ContainerEnd is how a container ended.
type ContainerEnd struct {
	Container string
	ExitCode  int
	Reason    string // Completed, Error, OOMKilled
	Message   string // what it wrote to its termination log
	At        time.Time
}

// JobCreation asks for a Job.
type JobCreation struct {
	Namespace, Name string
	Manifest        json.RawMessage   // of batch/v1; its name and namespace are replaced
	Labels          map[string]string // added to those of the Job and of its pods
	DryRun          bool
	Run             string
	Key             string
}

// JobDeletion asks for the end of one Job, identified by its UID.
type JobDeletion struct {
	Namespace, Name, UID string
}

func jobRequest(verb, namespace, name string) request {
	return request{verb: verb, group: batchv1.GroupName, resource: "jobs", namespace: namespace, name: name}
}

// Job returns a Job with its pods. The error is a [*fault.Error].
func (c *Client) Job(ctx context.Context, namespace, name string) (Job, error) {
	j, err := c.typed.jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Job{}, jobRequest("get", namespace, name).fail(err)
	}
	out := describeJob(j)
	list, err := c.typed.pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.ControllerUidLabel + "=" + out.UID})
	if err != nil {
		return Job{}, request{verb: "list", resource: "pods", namespace: namespace}.fail(err)
	}
	pods := list.Items
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range pods {
		out.Pods = append(out.Pods, describeJobPod(&pods[i]))
		out.Began = out.Began || hasRun(&pods[i])
	}
	if !out.Complete && !out.Failed {
		out.Waits = c.jobWaits(ctx, out, pods)
	}
	return out, nil
}

// jobWaits returns why no pod of a Job runs; empty: one does. Warnings are read if the
// status of the pods does not tell.
func (c *Client) jobWaits(ctx context.Context, j Job, pods []corev1.Pod) string {
	if j.Suspended {
		return "it is suspended: somebody else starts it"
	}
	var p *Pod
	if n := len(pods); n > 0 {
		newest := describePod(pods[n-1], nil)
		if newest.Phase != string(corev1.PodPending) {
			return ""
		}
		p = &newest
		if cause, why := p.pending(nil); cause.Blocks() {
			return pendingWords[cause] + ": " + why
		}
	}
	about := map[string]bool{"Job/" + j.Name: true}
	if p != nil {
		about["Pod/"+p.Name] = true
	}
	list, _, err := c.listEvents(ctx, j.Namespace, "type="+corev1.EventTypeWarning, func(e *corev1.Event) bool {
		return e.Type == corev1.EventTypeWarning && about[objectOf(e)]
	}, pageOfEvents)
	warnings := merged(list)
	switch {
	case p != nil:
		cause, why := p.pending(warnings)
		return pendingWords[cause] + ": " + why
	case err == nil && len(warnings) > 0:
		return "its pod may not be created: " + warnings[0].Message
	case err != nil:
		return "its pod is not created yet, and its events cannot be read: " + err.Error()
	default:
		return "its pod is not created yet"
	}
}

// CreateJob makes a Job. Its error is a [*fault.Error]; it is a conflict if there is one
// of that name.
func (c *Client) CreateJob(ctx context.Context, ch JobCreation) (Job, error) {
	r := jobRequest("create", ch.Namespace, ch.Name)
	r.write = !ch.DryRun
	var j batchv1.Job
	if err := json.Unmarshal(ch.Manifest, &j); err != nil {
		return Job{}, &fault.Error{Reason: fault.Invalid, Message: r.String() + ": manifest", Err: cause{err}}
	}
	j.Name, j.Namespace = ch.Name, ch.Namespace
	j.Annotations = with(j.Annotations, record(ch.Run, ch.Key))
	j.Labels, j.Spec.Template.Labels = with(j.Labels, ch.Labels), with(j.Spec.Template.Labels, ch.Labels)
	options := metav1.CreateOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict}
	if ch.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	made, err := c.typed.jobs(ch.Namespace).Create(ctx, &j, options)
	switch {
	case apierrors.IsAlreadyExists(err):
		return Job{}, &fault.Error{Reason: fault.Conflict, Message: r.String() + ": there is a Job of that name", Err: cause{err}}
	case err != nil:
		return Job{}, r.fail(err)
	}
	return describeJob(made), nil
}

// DeleteJob deletes a Job; it is gone once its pods have ended. One that is gone already,
// or was made anew since, is no error. The error is a [*fault.Error].
func (c *Client) DeleteJob(ctx context.Context, d JobDeletion) error {
	r := jobRequest("delete", d.Namespace, d.Name)
	r.write = true
	foreground := metav1.DeletePropagationForeground
	err := c.typed.jobs(d.Namespace).Delete(ctx, d.Name, metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: (*types.UID)(&d.UID)},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or not the Job that was meant: the precondition kept it
	}
	return r.fail(err)
}

// with returns a map with more entries.
func with(m, more map[string]string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

func describeJob(j *batchv1.Job) Job {
	out := Job{
		Namespace: j.Namespace, Name: j.Name, UID: string(j.UID), Labels: maps.Clone(j.Labels), Annotations: maps.Clone(j.Annotations),
		Suspended: j.Spec.Suspend != nil && *j.Spec.Suspend, Leaving: j.DeletionTimestamp != nil,
		Began: j.Status.Succeeded+j.Status.Failed > 0,
	}
	for _, cond := range j.Status.Conditions {
		if cond.Status != corev1.ConditionTrue {
			continue
		}
		switch cond.Type {
		case batchv1.JobSuspended:
			// Suspended anew, as Kueue does to make room: its pods are gone and not counted.
			out.Began = out.Began || cond.LastTransitionTime.Sub(j.CreationTimestamp.Time) > suspendedAtOnce
		case batchv1.JobComplete:
			out.Complete = true
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			out.Failed, out.Reason, out.Message = true, cond.Reason, clip(cond.Message)
		}
	}
	return out
}

// suspendedAtOnce is how soon after its creation a Job that never ran is suspended.
const suspendedAtOnce = 10 * time.Second

// hasRun reports whether a container of a pod has run.
func hasRun(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodPending || slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(cs corev1.ContainerStatus) bool {
		return cs.State.Running != nil || cs.State.Terminated != nil || cs.LastTerminationState.Terminated != nil
	})
}

func describeJobPod(p *corev1.Pod) JobPod {
	out := JobPod{Name: p.Name, Phase: string(p.Status.Phase), Reason: p.Status.Reason, Message: clip(p.Status.Message)}
	for _, cs := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if e := cs.State.Terminated; e != nil {
			out.Ends = append(out.Ends, ContainerEnd{
				Container: cs.Name, ExitCode: int(e.ExitCode), Reason: e.Reason, Message: clip(e.Message), At: e.FinishedAt.Time,
			})
		}
	}
	slices.SortStableFunc(out.Ends, func(a, b ContainerEnd) int { return a.At.Compare(b.At) })
	return out
}

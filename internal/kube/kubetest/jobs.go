package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/kube"
)

// JobPath is where a Job is stored.
func JobPath(namespace, name string) string {
	return "/apis/batch/v1/namespaces/" + namespace + "/jobs/" + name
}

// JobPlay is the outcome that PlayJob gives a Job. The zero value: its container exits with 0.
type JobPlay struct {
	ExitCode      int
	Reason        string // of the container's end, e.g. OOMKilled
	Log           string
	Runs          bool   // it runs on
	Hangs         bool   // it runs until its deadline, which takes its pod
	Waiting       string // reason of the container that does not start, e.g. ImagePullBackOff
	Unschedulable string // message of the scheduler
	Suspended     bool   // somebody else starts it, as Kueue does
	PodReason     string // of the pod's own end, e.g. Evicted
	PodMessage    string
}

// printed is the body of a log, sent without JSON.
type printed string

// decode reads a body, which client-go writes as protocol buffers.
func decode(r *http.Request, into runtime.Object) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_, _, err = kube.Codecs.UniversalDeserializer().Decode(data, nil, into)
	return err
}

// create stores a Job under the name that it asks for.
func (s *Server) create(r *http.Request, path string) (int, any) {
	var job batchv1.Job
	if err := decode(r, &job); err != nil {
		return 400, failure(400, err.Error())
	}
	m := asMap(job)
	meta := sub(m, "metadata")
	at := path + "/" + fmt.Sprint(meta["name"])
	if _, there := s.objects[at]; there {
		status := failure(409, at+" already exists")
		status.Reason = metav1.StatusReasonAlreadyExists
		return 409, status
	}
	m["kind"], m["apiVersion"] = "Job", "batch/v1"
	meta["uid"], meta["generation"] = fmt.Sprintf("uid-%d", s.version+1), 1
	if r.URL.Query().Get("dryRun") == "" {
		s.put(at, m)
		s.writes = append(s.writes, "POST "+at)
	}
	return 201, m
}

// remove deletes a Job. One with pods that run stays until they have ended, see
// [Server.EndPods].
func (s *Server) remove(r *http.Request, path string) (int, any) {
	m, ok := s.objects[path]
	if !ok {
		return 404, failure(404, path+" not found")
	}
	var options metav1.DeleteOptions
	if err := decode(r, &options); err != nil {
		return 400, failure(400, err.Error())
	}
	if p := options.Preconditions; p != nil && p.UID != nil && string(*p.UID) != fmt.Sprint(sub(m, "metadata")["uid"]) {
		return 409, failure(409, "the UID in the precondition does not match")
	}
	s.writes = append(s.writes, "DELETE "+path)
	if p := options.PropagationPolicy; p != nil && *p == metav1.DeletePropagationForeground && len(s.podsOf(m)) > 0 {
		sub(m, "metadata")["deletionTimestamp"] = Epoch().Format(time.RFC3339)
		return 200, m
	}
	delete(s.objects, path)
	return 200, m
}

// podsOf returns the paths of a Job's pods.
func (s *Server) podsOf(job map[string]any) []string {
	var out []string
	for path, m := range s.objects {
		if strings.Contains(path, "/pods/") && labelsOf(m)[batchv1.ControllerUidLabel] == fmt.Sprint(sub(job, "metadata")["uid"]) {
			out = append(out, path)
		}
	}
	return out
}

// EndPods removes the pods of a deleted Job, and then the Job.
func (s *Server) EndPods(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.objects[path]
	if !ok || sub(m, "metadata")["deletionTimestamp"] == nil {
		return
	}
	for _, pod := range s.podsOf(m) {
		delete(s.objects, pod)
	}
	delete(s.objects, path)
}

// Jobs lists the paths of all Jobs.
func (s *Server) Jobs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for path := range s.objects {
		if strings.Contains(path, "/jobs/") {
			out = append(out, path)
		}
	}
	return out
}

// Object returns a stored object.
func (s *Server) Object(path string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return asMap(s.objects[path])
}

// PlayJob does what the Job controller and the kubelet would do to a Job.
func (s *Server) PlayJob(path string, p JobPlay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var job batchv1.Job
	if err := json.Unmarshal(encode(s.objects[path]), &job); err != nil {
		panic(err) // unreachable: it came from JSON
	}
	container := job.Spec.Template.Spec.Containers[0].Name
	labels := map[string]string{batchv1.ControllerUidLabel: string(job.UID), batchv1.JobNameLabel: job.Name}
	for k, v := range job.Spec.Template.Labels {
		labels[k] = v
	}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: job.Name + "-abcde", Namespace: job.Namespace, Labels: labels, UID: types.UID("uid-" + job.Name + "-abcde")},
		Spec:       job.Spec.Template.Spec,
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	pod.Spec.NodeName = "node-0"
	at := "/api/v1/namespaces/" + job.Namespace + "/pods/" + pod.Name
	status := corev1.ContainerStatus{Name: container}
	end := func(kind batchv1.JobConditionType, reason, message string) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}}
	}
	switch {
	case p.Suspended:
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, Reason: "JobSuspended"}}
	case p.Unschedulable != "":
		pod.Spec.NodeName = ""
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: p.Unschedulable}}
	case p.Waiting != "":
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: p.Waiting, Message: "back-off"}
	case p.Runs:
		pod.Status.Phase, status.State.Running = corev1.PodRunning, &corev1.ContainerStateRunning{}
	case p.Hangs:
		end(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	default:
		status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: int32(p.ExitCode), Reason: p.Reason}
		pod.Status.Phase = corev1.PodSucceeded
		end(batchv1.JobComplete, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
		if p.ExitCode != 0 {
			pod.Status.Phase = corev1.PodFailed
			end(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	pod.Status.Reason, pod.Status.Message = p.PodReason, p.PodMessage
	m := s.objects[path]
	m["status"] = asMap(job.Status)
	sub(m, "spec")["suspend"] = p.Suspended
	s.put(path, m)
	if p.Hangs || p.Suspended {
		delete(s.objects, at)
		return
	}
	s.put(at, asMap(pod))
	s.logs[at] = p.Log
}

// log answers with what a pod printed.
func (s *Server) log(path string) (int, any) {
	text, ok := s.logs[strings.TrimSuffix(path, "/log")]
	if !ok {
		return 404, failure(404, path+" not found")
	}
	return 200, printed(text)
}

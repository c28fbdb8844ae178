package kinds_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// replacement drives kube.replace_pod on chat-0 of a Deployment with three replicas,
// whose engine says what it has in flight.
type replacement struct {
	s        *kubetest.Server
	now      time.Time
	inFlight int
	paused   string
	set      *step.Set
	plan     *machine.Plan
}

// Do answers as the engine of chat-0 at its /metrics.
func (r *replacement) Do(req *http.Request) (*http.Response, error) {
	if req.URL.String() != "http://10.0.0.7:8000/metrics" {
		return nil, fmt.Errorf("asked %s", req.URL)
	}
	body := fmt.Sprintf("vllm:num_requests_running{engine=\"0\"} %d\nvllm:num_requests_waiting{engine=\"0\"} 0\n", r.inFlight)
	if r.inFlight < 0 { // a version that calls its queue something else
		body = "vllm:num_requests_running{engine=\"0\"} 0\n"
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

func newReplacement(t *testing.T) *replacement {
	r := &replacement{s: cluster(t, "Deployment"), now: kubetest.Epoch().Add(time.Hour)}
	r.s.Change(kubetest.PodPath("serving", "chat-0"), func(m map[string]any) {
		m["spec"].(map[string]any)["containers"] = []any{map[string]any{"name": "vllm", "ports": []any{map[string]any{"containerPort": 8000.0}}}}
		m["status"].(map[string]any)["podIP"] = "10.0.0.7"
	})
	c := r.s.Client(t)
	r.set = kinds.New(step.Deps{
		Workloads: c, Changer: c, Pods: c, Nodes: c, NodeChanger: c, Prober: r, Now: func() time.Time { return r.now },
	})
	return r
}

func (r *replacement) do(t *testing.T, a machine.Action, want machine.Status) machine.Outcome {
	t.Helper()
	o := r.set.Do(t.Context(), machine.Effect{
		Key: "r-1/fix#1/" + string(a) + "#1", Run: "r-1", Action: a, Step: "kube.replace_pod", Service: service("Deployment"), With: map[string]any{"pod": "chat-0"}, Plan: r.plan, Paused: r.paused,
	})
	if o.Status != want {
		t.Fatalf("%s: %s %s %s, want %s", a, o.Status, o.Reason, o.Message, want)
	}
	return o
}

// begin plans and adds the spare.
func (r *replacement) begin(t *testing.T) {
	t.Helper()
	r.plan = r.do(t, machine.ActionPlan, machine.StatusOK).Plan
	r.do(t, machine.ActionApply, machine.StatusOK)
}

func (r *replacement) settle(after time.Duration) {
	r.now = r.now.Add(after)
	r.s.Settle(ref("Deployment"), r.now)
}

func (r *replacement) replicas() string { return r.s.Spec(kubetest.Path(ref("Deployment"))) }

func (r *replacement) chat0(t *testing.T) (kube.PodState, error) {
	return r.s.Client(t).Pod(t.Context(), "serving", "chat-0")
}

// The spare comes first; then the pod goes out of rotation, and is evicted when its
// own counters say that nothing is in flight.
func TestReplacePod(t *testing.T) {
	r := newReplacement(t)
	r.begin(t)
	if o := r.do(t, machine.ActionSettle, machine.StatusPending); !strings.Contains(o.Message, "the spare is not ready: 2 of 3") {
		t.Errorf("before the spare is ready: %s", o.Message)
	}
	if p, err := r.chat0(t); err != nil || p.Labels["app"] != "chat" {
		t.Fatalf("it left rotation before the spare was ready: %+v %v", p, err)
	}
	r.settle(time.Minute)
	r.inFlight = 2
	r.do(t, machine.ActionSettle, machine.StatusPending)
	if p, err := r.chat0(t); err != nil || p.Labels["app"] != "" {
		t.Fatalf("it is in rotation: %+v %v", p, err)
	}
	r.settle(10 * time.Second)
	if o := r.do(t, machine.ActionSettle, machine.StatusPending); !strings.Contains(o.Message, "2 requests in flight, 1m50s left") && !strings.Contains(o.Message, "2 requests in flight, 2m left") {
		t.Errorf("while requests finish: %s", o.Message)
	}
	for _, requests := range []int{0, 1, 0} { // once is not enough
		r.inFlight = requests
		r.settle(5 * time.Second)
		r.do(t, machine.ActionSettle, machine.StatusPending)
		if _, err := r.chat0(t); err != nil {
			t.Fatalf("with %d requests in flight it was evicted: %v", requests, err)
		}
	}
	r.settle(4 * time.Second)
	r.do(t, machine.ActionSettle, machine.StatusPending)
	if _, err := r.chat0(t); err != nil {
		t.Fatalf("it was evicted 4s after it had nothing in flight: %v", err)
	}
	r.settle(time.Second)
	r.do(t, machine.ActionSettle, machine.StatusPending)
	if _, err := r.chat0(t); !step.HasReason(err, fault.NotFound) {
		t.Errorf("nothing is in flight, and it was not evicted: %v", err)
	}
	r.settle(time.Second)
	if o := r.do(t, machine.ActionSettle, machine.StatusOK); !strings.Contains(o.Message, "pod chat-0 is replaced") {
		t.Errorf("at the end: %s", o.Message)
	}
	const deployment = "/apis/apps/v1/namespaces/serving/deployments/chat"
	pod := kubetest.PodPath("serving", "chat-0")
	if w, want := r.s.Writes(), []string{"PATCH " + deployment + "/scale", "PATCH " + pod, "PATCH " + deployment + "/scale", "EVICT " + pod}; !slices.Equal(w, want) {
		t.Errorf("writes %q, want %q", w, want)
	}
	if !strings.Contains(r.replicas(), `"replicas":3`) {
		t.Errorf("the replicas were not set back: %s", r.replicas())
	}
}

// Half done it must not stay; its steps have time beside the start of the spare.
func TestReplacePodIsStaged(t *testing.T) {
	r := newReplacement(t)
	r.s.Change(kubetest.PodPath("serving", "chat-0"), func(m map[string]any) {
		m["spec"].(map[string]any)["terminationGracePeriodSeconds"] = 90.0
	})
	if o := r.do(t, machine.ActionPlan, machine.StatusOK); o.Plan.Staged != 4*time.Minute {
		t.Errorf("its steps have %s, want those of the drain (2m), the rotation (30s) and the grace period (1m30s)", o.Plan.Staged)
	}
}

// An undo with the spare pending takes it away.
func TestReplacePodUndoneBeforeTheSpareServes(t *testing.T) {
	r := newReplacement(t)
	r.begin(t)
	r.do(t, machine.ActionSettle, machine.StatusPending)
	r.do(t, machine.ActionUndo, machine.StatusOK)
	r.settle(time.Second)
	r.do(t, machine.ActionUnwind, machine.StatusOK)
	if p, err := r.chat0(t); err != nil || p.Labels["app"] != "chat" || !strings.Contains(r.replicas(), `"replicas":3`) {
		t.Errorf("it is not as before: %+v %v %s", p, err, r.replicas())
	}
}

// Somebody else's change while the pod is out of rotation ends the run, and the pod
// has its labels back, also where the run was about to undo or is paused. What cannot
// be given back is said.
func TestReplacePodYields(t *testing.T) {
	const deployment = "/apis/apps/v1/namespaces/serving/deployments/chat"
	annotate := func(r *replacement) {
		r.s.Edit(deployment, func(map[string]any) {}) // the server counts annotations of a Deployment, too
	}
	for name, c := range map[string]struct {
		action machine.Action
		paused string
		fail   bool
		want   string
		app    string
	}{
		"settling":  {machine.ActionSettle, "", false, "pod chat-0 has its labels app=chat back", "chat"},
		"paused":    {machine.ActionSettle, "everything", false, "pod chat-0 has its labels app=chat back", "chat"},
		"undoing":   {machine.ActionUndo, "", false, "pod chat-0 has its labels app=chat back", "chat"},
		"forbidden": {machine.ActionSettle, "", true, "pod chat-0 runs without its labels app=chat: give them back or delete it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplacement(t)
			r.begin(t)
			r.inFlight = 1
			r.settle(time.Minute)
			r.do(t, machine.ActionSettle, machine.StatusPending)
			annotate(r)
			r.s.Fail(func(req *http.Request) kubetest.Fault {
				if c.fail && req.Method == http.MethodPatch {
					return kubetest.Fault{Status: http.StatusForbidden}
				}
				return kubetest.Fault{}
			})
			r.paused = c.paused
			if o := r.do(t, c.action, machine.StatusForeign); !strings.Contains(o.Message, c.want) {
				t.Errorf("says %q, want %q in it", o.Message, c.want)
			}
			p, err := r.chat0(t)
			if err != nil || p.Labels["app"] != c.app || c.app != "" && p.Annotations[kube.MarkReplace] != "" {
				t.Errorf("the pod is %+v %v, want the label app=%s", p, err, c.app)
			}
			if !strings.Contains(r.replicas(), `"replicas":3`) {
				t.Errorf("the workload was touched: %s", r.replicas())
			}
		})
	}
}

// A pod that somebody else took out of rotation is theirs.
func TestReplacePodYieldsItsOwnOnly(t *testing.T) {
	r := newReplacement(t)
	r.begin(t)
	r.s.Change(kubetest.PodPath("serving", "chat-0"), func(m map[string]any) {
		delete(m["metadata"].(map[string]any)["labels"].(map[string]any), "app")
	})
	r.s.Edit("/apis/apps/v1/namespaces/serving/deployments/chat", func(map[string]any) {})
	r.do(t, machine.ActionSettle, machine.StatusForeign)
	if p, err := r.chat0(t); err != nil || p.Labels["app"] != "" {
		t.Errorf("it was given labels: %+v %v", p, err)
	}
}

// What has not finished within the bound is lost, and said.
func TestReplacePodDrainIsBounded(t *testing.T) {
	r := newReplacement(t)
	r.begin(t)
	r.inFlight = 1
	r.settle(time.Minute)
	r.do(t, machine.ActionSettle, machine.StatusPending)
	r.settle(2*time.Minute + time.Second)
	if o := r.do(t, machine.ActionSettle, machine.StatusPending); !strings.Contains(o.Message, "1 requests have not finished within 2m, and are lost") {
		t.Errorf("after the bound: %s", o.Message)
	}
	if _, err := r.chat0(t); !step.HasReason(err, fault.NotFound) {
		t.Errorf("it was not evicted: %v", err)
	}
}

// What its counters do not say may be lost, and that is said.
func TestReplacePodLosesWhatIsNotKnown(t *testing.T) {
	r := newReplacement(t)
	r.begin(t)
	r.inFlight = -1
	r.settle(time.Minute)
	r.do(t, machine.ActionSettle, machine.StatusPending)
	r.settle(time.Minute)
	if o := r.do(t, machine.ActionSettle, machine.StatusPending); !strings.Contains(o.Message, "what is in flight is not known (its /metrics show no requests)") {
		t.Errorf("while its counters say nothing: %s", o.Message)
	}
	r.settle(time.Minute + time.Second)
	if o := r.do(t, machine.ActionSettle, machine.StatusPending); !strings.Contains(o.Message, "what was in flight on it is not known (its /metrics show no requests), and may be lost") {
		t.Errorf("after the bound: %s", o.Message)
	}
	if _, err := r.chat0(t); !step.HasReason(err, fault.NotFound) {
		t.Errorf("it was not evicted: %v", err)
	}
}

// hooked is an API server with a webhook that puts the label app back.
type hooked struct {
	step.Pods
	dry, on bool // it sees dry-runs; the others
}

func (h hooked) ChangePod(ctx context.Context, c kube.PodChange) (kube.PodState, error) {
	if c.DryRun && h.dry || !c.DryRun && h.on {
		c.Labels = maps.Clone(c.Labels)
		c.Labels["app"] = "chat"
	}
	return h.Pods.ChangePod(ctx, c)
}

// A pod that keeps its labels is not out of rotation, whatever was asked for: nothing
// is planned, or the spare is not given back in its place.
func TestReplacePodKeepsItsLabels(t *testing.T) {
	r := newReplacement(t)
	c := r.s.Client(t)
	hook := func(dry, on bool) {
		r.set = kinds.New(step.Deps{
			Workloads: c, Changer: c, Pods: hooked{c, dry, on}, Nodes: c, NodeChanger: c, Prober: r, Now: func() time.Time { return r.now },
		})
	}
	hook(true, true)
	if o := r.do(t, machine.ActionPlan, machine.StatusRefused); !strings.Contains(o.Message, "keeps its labels app=chat") {
		t.Errorf("the plan is refused: %s", o.Message)
	}
	hook(false, true)
	r.begin(t)
	r.settle(time.Minute)
	if o := r.do(t, machine.ActionSettle, machine.StatusFailed); o.Reason != fault.Overridden || !strings.Contains(o.Message, "keeps its labels app=chat") {
		t.Errorf("settling: %s %s", o.Reason, o.Message)
	}
	if p, err := r.chat0(t); err != nil || p.Labels["app"] != "chat" || p.Annotations[kube.MarkReplace] != "" {
		t.Errorf("it is not as before: %+v %v", p, err)
	}
	if !strings.Contains(r.replicas(), `"replicas":4`) {
		t.Errorf("the spare was given back, and a ReplicaSet chose what goes: %s", r.replicas())
	}
}

// A Service that selects the pod by other labels sends it requests, and that is said.
func TestReplacePodInRotationByOtherLabels(t *testing.T) {
	r := newReplacement(t)
	r.begin(t)
	r.inFlight = 1
	r.settle(time.Minute)
	p, err := r.chat0(t)
	if err != nil {
		t.Fatal(err)
	}
	r.do(t, machine.ActionSettle, machine.StatusPending)
	r.s.Put("/apis/discovery.k8s.io/v1/namespaces/serving/endpointslices/engines-1", &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "engines-1", Namespace: "serving"},
		Endpoints:  []discoveryv1.Endpoint{{TargetRef: &corev1.ObjectReference{Kind: "Pod", UID: types.UID(p.UID)}}},
	})
	r.settle(10 * time.Second)
	if o := r.do(t, machine.ActionSettle, machine.StatusPending); !strings.Contains(o.Message, "EndpointSlice engines-1 lists it still") {
		t.Errorf("at first: %s", o.Message)
	}
	r.settle(30 * time.Second)
	if o := r.do(t, machine.ActionSettle, machine.StatusPending); !strings.Contains(o.Message, "EndpointSlice engines-1 lists it by other labels: it gets requests until it ends") {
		t.Errorf("after a while: %s", o.Message)
	}
}

// A cancel in the middle puts back what the plan says: the labels and the replicas.
func TestReplacePodUndoneInTheMiddle(t *testing.T) {
	r := newReplacement(t)
	r.begin(t)
	r.inFlight = 1
	r.settle(time.Minute)
	r.do(t, machine.ActionSettle, machine.StatusPending)
	r.do(t, machine.ActionUndo, machine.StatusOK)
	if p, err := r.chat0(t); err != nil || p.Labels["app"] != "chat" || p.Annotations[kube.MarkReplace] != "" {
		t.Errorf("it is not back in rotation: %+v %v", p, err)
	}
	r.settle(time.Second)
	r.do(t, machine.ActionUnwind, machine.StatusOK)
	if !strings.Contains(r.replicas(), `"replicas":3`) {
		t.Errorf("the replicas were not set back: %s", r.replicas())
	}
	// A step that was on its way arrives only now: the pod is not left behind.
	r.s.Change(kubetest.PodPath("serving", "chat-0"), func(m map[string]any) {
		delete(m["metadata"].(map[string]any)["labels"].(map[string]any), "app")
	})
	r.do(t, machine.ActionUnwind, machine.StatusPending)
	if p, err := r.chat0(t); err != nil || p.Labels["app"] != "chat" {
		t.Errorf("it was left without its labels: %+v %v", p, err)
	}
	r.do(t, machine.ActionUnwind, machine.StatusOK)
	if o := r.do(t, machine.ActionSettle, machine.StatusForeign); o.Reason != fault.ForeignChange {
		t.Errorf("a late step after the undo: %s", o.Message)
	}
}

// A disruption budget that lets no pod go keeps it in rotation.
func TestReplacePodAsksTheBudget(t *testing.T) {
	r := newReplacement(t)
	r.begin(t)
	r.settle(time.Minute)
	r.s.Budget(t, "serving", "chat", 0, 3, 4, 4)
	if o := r.do(t, machine.ActionSettle, machine.StatusPending); !strings.Contains(o.Message, "held back") {
		t.Errorf("held back: %s", o.Message)
	}
	if p, err := r.chat0(t); err != nil || p.Labels["app"] != "chat" {
		t.Errorf("it left rotation: %+v %v", p, err)
	}
}

// Of a missing right the plan names verb, resource and namespace.
func TestReplacePodNamesTheRight(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"relabel": {"/pods/chat-0", `patch pods serving/chat-0: allow it with the rule {apiGroups: [""], resources: ["pods"], verbs: ["patch"]}`},
		"evict":   {"/eviction", `create pods/eviction serving/chat-0: allow it with the rule {apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"]}`},
		"scale":   {"/deployments/chat/scale", `patch deployments/scale.apps serving/chat`},
	} {
		r := newReplacement(t)
		r.s.Fail(func(req *http.Request) kubetest.Fault {
			if req.Method != http.MethodGet && strings.HasSuffix(req.URL.Path, c.path) {
				return kubetest.Fault{Status: http.StatusForbidden}
			}
			return kubetest.Fault{}
		})
		if o := r.do(t, machine.ActionPlan, machine.StatusOK); !strings.Contains(o.Plan.Lacks, c.want) {
			t.Errorf("%s: the plan lacks %q, want %q", name, o.Plan.Lacks, c.want)
		}
	}
}

//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	language "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// What may become of a pod.
const (
	evicted = "evicted"
	refused = "refused"
	stays   = "stays"
	leaves  = "leaves" // already: no eviction is asked for
)

// differs are the pods with which node.drain does otherwise than kubectl drain,
// by what they are: what kubectl does, what we do, and why. docs/decisions/0009
// has the reasons at length. Everything else has to be alike.
var differs = map[string][2]string{
	// Engines share memory between their processes through it: there is nothing
	// in it to keep, and agreeing to that would agree to losing disks as well.
	"emptydir-memory": {refused, evicted},
	// A second eviction would change nothing. Both wait until it has gone.
	"leaving": {evicted, leaves},
	// It is on its way out: the garbage collector has seen to it, and kubectl
	// refuses the node until it has gone.
	"daemonset-gone": {refused, leaves},
	// A DaemonSet of another API, as OpenKruise has it: it comes back at once.
	"daemonset-of-others": {evicted, stays},
}

// TestDrainReferee has kubectl's drain package, as the control plane's release
// has it, say what it would do with pods of every kind on one node, and holds
// the plan of node.drain to it, pod by pod.
func TestDrainReferee(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	cp.BindNodes(t)
	ns, nodes := cp.Own(t, 1, 8)
	cp.BindLevers(t, ns)
	r := &referee{cp: cp, ns: ns, node: nodes[0], differed: map[string]bool{}}
	r.fill(t)

	// While others are refused nobody says what would become of the rest.
	onlyRefused := func(verdict string) string {
		if verdict != refused {
			return "not refused"
		}
		return verdict
	}
	r.compare(t, "without a parameter", r.kubectl(t), r.ours(t, map[string]any{}), onlyRefused)

	// Nothing moves a pod without a controller, so that it has to go first.
	cp.Kubectl(t, "-n", ns, "delete", "pod", "unmanaged", "--grace-period=0", "--force")
	given := map[string]any{"delete_emptydir_data": true}
	r.compare(t, "emptyDirs given up", r.kubectl(t, "--delete-emptydir-data"), r.ours(t, given), func(verdict string) string { return verdict })

	for kind := range differs {
		if !r.differed[kind] {
			t.Errorf("nobody does otherwise with a pod %s any more", kind)
		}
	}
}

// referee is a node with pods of every kind, and who is asked about them.
type referee struct {
	cp       *rig.ControlPlane
	ns, node string
	differed map[string]bool
}

// kinds are the pods on the node by what they are, as their label has it.
func (r *referee) kinds(t *testing.T) map[string]string {
	t.Helper()
	list, err := r.cp.Client.CoreV1().Pods(r.ns).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + r.node})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		out[r.ns+"/"+list.Items[i].Name] = list.Items[i].Labels["kind"]
	}
	return out
}

// kubectl is what kubectl's drain does with them.
func (r *referee) kubectl(t *testing.T, flags ...string) map[string]string {
	t.Helper()
	v := r.cp.DrainVerdicts(t, r.node, flags...)
	t.Logf("kubectl %v: %+v", flags, v)
	out := map[string]string{}
	for pod, kind := range r.kinds(t) {
		switch {
		case v.Refuses[pod] != "":
			out[kind] = refused
		case slices.Contains(v.Evicts, pod):
			out[kind] = evicted
		default:
			out[kind] = stays
		}
	}
	return out
}

// ours is what node.drain does with them.
func (r *referee) ours(t *testing.T, with map[string]any) map[string]string {
	t.Helper()
	client, err := kube.New(kube.Options{Kubeconfig: r.cp.Kubeconfig(t, rig.Responder)})
	if err != nil {
		t.Fatal(err)
	}
	with = maps.Clone(with)
	with["node"] = r.node
	o := kinds.New(step.Deps{Workloads: client, Nodes: client, NodeChanger: client, Now: time.Now}).Do(t.Context(), machine.Effect{
		Key: "r-1/drain#1/plan#1", Run: "r-1", State: "drain", Action: machine.ActionPlan, Step: "node.drain", With: with, Attempt: 1,
		Service: language.Service{Name: r.ns + "/deployment", Namespace: r.ns, Workload: language.Workload{Kind: "Deployment", Name: "deployment"}},
	})
	t.Logf("node.drain %v: %s %s %s", with, o.Status, o.Reason, o.Message)
	goes, says := map[string]bool{}, ""
	if o.Plan != nil {
		t.Logf("plan: %s\n%+v\n%s", o.Plan.Summary, o.Plan.Diff, strings.Join(o.Plan.Notes, "\n"))
		for _, d := range o.Plan.Diff {
			goes[d.Path] = d.To == "evicted"
		}
		for _, note := range o.Plan.Notes {
			says += note + "\n"
		}
	}
	out := map[string]string{}
	for pod, kind := range r.kinds(t) {
		switch {
		case o.Reason == fault.OutOfBounds && strings.Contains(o.Message, pod):
			out[kind] = refused
		case goes["pods["+pod+"]"]:
			out[kind] = evicted
		case strings.Contains(says, pod+" is leaving already"):
			out[kind] = leaves
		case o.Plan != nil && strings.Contains(says, "stay on the node: ") && strings.Contains(says, pod):
			out[kind] = stays
		default:
			out[kind] = "" // nothing is said of it
		}
	}
	return out
}

// compare fails unless both do the same with each pod, as far as it is to be
// seen, but for those that differ.
func (r *referee) compare(t *testing.T, when string, theirs, ours map[string]string, seen func(string) string) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for kind, verdict := range theirs {
		if d, ok := differs[kind]; ok && d[0] == verdict {
			verdict, r.differed[kind] = d[1], true
		}
		want[kind], got[kind] = seen(verdict), seen(ours[kind])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, what becomes of each pod (-kubectl, but for what is known to differ; +node.drain):\n%s", when, diff)
	}
}

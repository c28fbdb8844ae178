//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step/steptest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// TestPodLevers holds the levers that end pods to their contract on a real API server
// with its controllers, as the account of deploy/ with the roles of its example.
func TestPodLevers(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Responder)})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		t.Run(kind+"/kube.restart", func(t *testing.T) {
			t.Parallel()
			steptest.TestLever(t, "kube.restart", nil, func(t *testing.T) steptest.World {
				w := leverWorld(t, cp, client, kind, []string{"set", "image", "engine=vllm:v3"})
				cp.BindLevers(t, w.Service.Namespace)
				return w
			})
		})
		if kind == "StatefulSet" {
			continue // its controller (Kubernetes 1.36.3) can leave a status of 2 replicas beside 3 ready pods until the next event
		}
		t.Run(kind+"/kube.replace_pod", func(t *testing.T) {
			t.Parallel()
			with := map[string]any{"drain": "1s"}
			steptest.TestLever(t, "kube.replace_pod", with, func(t *testing.T) steptest.World {
				w := leverWorld(t, cp, client, kind, []string{"scale", "--replicas=4"})
				ns := w.Service.Namespace
				cp.BindLevers(t, ns)
				with["pod"] = podsOf(t, cp, ns, "app=chat")[0]
				w.Deps.Pods, w.Deps.Nodes, w.Deps.NodeChanger, w.Deps.Capacity = client, client, client, client
				settle := w.Settle
				w.Settle = func(t testing.TB) {
					settle(t)
					time.Sleep(time.Second) // its requests have that long, and a StatefulSet's pod begins again only then
				}
				return w
			})
		})
	}
}

// podsOf returns the names of pods that are not leaving.
func podsOf(t testing.TB, cp *rig.ControlPlane, ns, selector string) []string {
	t.Helper()
	list, err := cp.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out = append(out, list.Items[i].Name)
		}
	}
	return out
}

// replaceRun is a run that replaces one pod of a Deployment of its own.
type replaceRun struct {
	name    string
	during  func(t *testing.T, w *replaceRuns, r *replaceRun) // once the spare was added
	outcome machine.RunOutcome
	stays   bool // the pod is there at the end
	writes  int  // of the Deployment by Responder
	pod     string
}

// replaceRuns is one responder over all of them, behind a proxy to the API server.
type replaceRuns struct {
	cp        *rig.ControlPlane
	ns        string
	responder *rig.Service
	api       *rig.Proxy
}

// TestReplacePod replaces pods with a whole responder: as it should go, with a cancel
// in the middle, and with somebody else at it, also while the pod is out of rotation.
func TestReplacePod(t *testing.T) {
	t.Parallel()
	all := []*replaceRun{
		{name: "spared", outcome: machine.OutcomeResolved, writes: 2},
		{name: "canceled", outcome: machine.OutcomeCanceled, stays: true, writes: 2, during: cancelReplacement},
		{name: "meddled", outcome: machine.OutcomeHandedOver, stays: true, writes: 1, during: func(t *testing.T, w *replaceRuns, r *replaceRun) {
			w.cp.Kubectl(t, "-n", w.ns, "scale", "deployment/"+r.name, "--replicas=5")
		}},
	}
	annotated := &replaceRun{name: "annotated", outcome: machine.OutcomeHandedOver, stays: true, writes: 2}
	annotated.during = func(t *testing.T, w *replaceRuns, r *replaceRun) {
		w.awaitSaid(t, r, "out of rotation")
		w.cp.Kubectl(t, "-n", w.ns, "annotate", "deployment/"+r.name, "team=ml") // which the server counts as a change
	}
	all = append(all, annotated)
	w := newReplaceRuns(t, all)
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			w.run(t, r)
		})
	}
}

// TestReplacePodInterrupted kills the responder at each step of a replacement, and
// takes the API server away for a minute: every step happens once all the same.
func TestReplacePodInterrupted(t *testing.T) {
	t.Parallel()
	killed := func(t *testing.T, w *replaceRuns, r *replaceRun) {
		kill := func() {
			w.responder.Kill9()
			w.responder.Process = rig.Start(t, w.responder.Spec())
		}
		kill() // before the spare is ready
		for _, step := range []string{"out of rotation", "is told to go"} {
			w.awaitSaid(t, r, step)
			kill()
		}
	}
	away := func(t *testing.T, w *replaceRuns, r *replaceRun) {
		w.api.Shut()
		time.Sleep(time.Minute)
		w.api.Open(t)
	}
	for _, r := range []*replaceRun{
		{name: "killed", outcome: machine.OutcomeResolved, writes: 2, during: killed},
		{name: "away", outcome: machine.OutcomeResolved, writes: 2, during: away},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			newReplaceRuns(t, []*replaceRun{r}).run(t, r)
		})
	}
}

func newReplaceRuns(t *testing.T, all []*replaceRun) *replaceRuns {
	t.Helper()
	w := &replaceRuns{cp: rig.Shared(t)}
	w.cp.Deploy(t)
	w.ns, _ = w.cp.Own(t, 2, 64)
	w.cp.BindLevers(t, w.ns)
	fleets := &crashes{engines: map[string]*rig.Fleet{}}
	services, files, manifests := "services:", map[string]string{}, []string{}
	for _, r := range all {
		// The spare takes its time, and so does the pod that goes.
		manifests = append(manifests, strings.Replace(inference(r.name, "vllm:v1", 2), "labels: {app: "+r.name+"}}",
			"labels: {app: "+r.name+"}, annotations: {rig.responder/ready-delay: 8s, rig.responder/delete-delay: 8s}}", 1))
		services += service(w.ns, r.name, "auto")
		fleets.engines[r.name] = rig.StartFleet(t, w.cp, w.ns, r.name)
	}
	w.cp.Apply(t, w.ns, strings.Join(manifests, "---"))
	for _, r := range all {
		w.cp.AwaitRollout(t, w.ns, r.name, time.Minute)
		r.pod = podsOf(t, w.cp, w.ns, "app="+r.name)[0]
		files["playbooks/"+r.name+".yaml"] = r.playbook()
	}
	config, err := os.ReadFile(w.cp.Kubeconfig(t, rig.Responder))
	if err != nil {
		t.Fatal(err)
	}
	server := regexp.MustCompile(`https://([^\s"]+)`).FindSubmatch(config)
	w.api = rig.StartProxy(t, string(server[1]))
	behind := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(behind, []byte(strings.ReplaceAll(string(config), string(server[1]), strings.Replace(w.api.Addr, "localhost", "127.0.0.1", 1))), 0o600); err != nil {
		t.Fatal(err)
	}
	w.responder = rig.StartService(t, rig.ServiceOptions{
		Prometheus: scrapeAll(t, fleets).URL, Kubeconfig: behind, Services: services, Playbook: cordonPlaybook, Files: files,
		Settings: "autonomy: auto\nguards: {cooldown: 0s, concurrency: {levers: 50}, budget: {levers: 100, runs: 100}}\n",
	})
	return w
}

func (r *replaceRun) playbook() string {
	n := &nodeRun{name: r.name, lever: "kube.replace_pod"}
	return strings.Replace(n.playbook(), "with: {node: }", fmt.Sprintf("with: {pod: %s, drain: 5s}", r.pod), 1)
}

func (w *replaceRuns) run(t *testing.T, r *replaceRun) {
	t.Helper()
	deliverAlert(t, w.responder, map[string]any{"alertname": r.name, "namespace": w.ns, "service": r.name, "severity": "critical"})
	if r.during != nil {
		w.await(t, r, "the spare is added", func(run *rig.Run) bool { return run.Has(machine.Applied) > 0 })
		r.during(t, w, r)
	}
	end := awaitRunOf(t, w.responder, r.name, w.ns+"/"+r.name, 5*time.Minute)
	wantEnd(t, end, r.outcome, "kept (events): ")
	rig.Await(t, time.Minute, "the pods are as they should be", func(context.Context) (bool, string) {
		names := podsOf(t, w.cp, w.ns, "app="+r.name)
		there := slices.Contains(names, r.pod)
		return there == r.stays && (len(names) == 2 || r.outcome == machine.OutcomeHandedOver), fmt.Sprint(names, " without labels: ", podsOf(t, w.cp, w.ns, "!app"))
	})
	if orphans := podsOf(t, w.cp, w.ns, "!app"); slices.Contains(orphans, r.pod) {
		t.Errorf("the pod %s was left without its labels", r.pod)
	}
	if n := w.writes(t, r); n != r.writes {
		t.Errorf("%d writes of the Deployment, want %d\n%s", n, r.writes, end)
	}
}

// writes counts those of the Deployment's spec by Responder, from what it recorded.
func (w *replaceRuns) writes(t *testing.T, r *replaceRun) int {
	t.Helper()
	return (&crashes{cp: w.cp, ns: w.ns}).writes(t, r.name)
}

func (w *replaceRuns) await(t *testing.T, r *replaceRun, what string, done func(*rig.Run) bool) {
	t.Helper()
	rig.Await(t, 2*time.Minute, what, func(ctx context.Context) (bool, string) {
		run, err := runOf(ctx, w.responder, r.name, w.ns+"/"+r.name)
		if err != nil {
			return false, err.Error()
		}
		return done(run), run.String()
	})
}

// awaitSaid waits until the run says so as its progress.
func (w *replaceRuns) awaitSaid(t *testing.T, r *replaceRun, text string) {
	t.Helper()
	w.await(t, r, text, func(run *rig.Run) bool {
		return slices.ContainsFunc(run.Events, func(e machine.Event) bool { return e.Kind == machine.Settling && strings.Contains(e.Message, text) })
	})
}

// cancelReplacement cancels the run while the spare gets ready: the replicas are set
// back at once. How long that takes is logged: beside other tests it depends on them, and
// only must not wait for the replacement.
func cancelReplacement(t *testing.T, w *replaceRuns, r *replaceRun) {
	run, err := runOf(t.Context(), w.responder, r.name, w.ns+"/"+r.name)
	if err != nil {
		t.Fatal(err)
	}
	w.responder.Must(t, "runs", "cancel", run.ID, "--reason", "not now")
	var took time.Duration
	w.await(t, r, "it is taken back", func(run *rig.Run) bool {
		if run.Has(machine.Undone) == 0 {
			return false
		}
		took = run.Last(machine.Undone).At.Sub(run.Last(machine.CancelRequested).At)
		return true
	})
	t.Logf("%s from the cancel until the change was taken back", took)
	if took > 10*time.Second {
		t.Errorf("%s from the cancel until the change was taken back", took)
	}
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/jobs"
	language "github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// jobTemplates are templates of a platform team, whose pods the rig's kubelets play by an
// annotation.
func jobTemplates(t testing.TB) *jobs.Set {
	t.Helper()
	const manifest = `
apiVersion: batch/v1
kind: Job
spec:
  template:
    metadata: {annotations: {%s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: work
          image: cachectl:v1
          command: [cachectl, clear, --model]
          args: ["${model}"]
`
	list := []jobs.Declaration{{Name: "good", Undo: "back"}, {Name: "back"}, {Name: "fails", Undo: "back"}, {Name: "hangs", Deadline: 3 * time.Second}, {Name: "runs", Undo: "back"}, {Name: "waits"}}
	plays := map[string]string{
		"fails": `rig.responder/fails: "true"`, "hangs": `rig.responder/complete-delay: 1h`, "runs": `rig.responder/complete-delay: 1h`, "waits": `rig.responder/waiting: ImagePullBackOff`,
	}
	for i := range list {
		d := &list[i]
		d.File, d.Parameters = filepath.Join(t.TempDir(), d.Name+".yaml"), []jobs.Parameter{{Name: "model"}}
		if err := os.WriteFile(d.File, fmt.Appendf(nil, manifest, plays[d.Name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := jobs.Open(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// jobBox is a service in a namespace of its own, and its Jobs.
type jobBox struct {
	cp   *rig.ControlPlane
	svc  language.Service
	deps step.Deps
}

func newJobBox(t *testing.T, cp *rig.ControlPlane, client *kube.Client, bind bool) *jobBox {
	ns, _ := cp.Own(t, 1, 8)
	cp.Apply(t, ns, inference("chat", "vllm:v1", 2))
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	cp.BindReading(t, ns)
	if bind {
		cp.BindLevers(t, ns)
		cp.BindJobs(t, ns)
	}
	return &jobBox{
		cp:   cp,
		svc:  language.Service{Name: ns + "/chat", Namespace: ns, Workload: language.Workload{Kind: "Deployment", Name: "chat"}, MinReady: 1, MaxScale: 6},
		deps: step.Deps{Workloads: client, Jobs: client, Templates: jobTemplates(t)},
	}
}

func (b *jobBox) list(t testing.TB) []batchv1.Job {
	t.Helper()
	all, err := b.cp.Client.BatchV1().Jobs(b.svc.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// world is the box for the contract of levers: what is in force are the Jobs that none has
// taken back.
func (b *jobBox) world(t *testing.T) steptest.World {
	return steptest.World{
		Service: b.svc, Deps: b.deps, Finds: true, Makes: true,
		Spec: func(t testing.TB) string {
			uids := map[string]string{}
			for _, j := range b.list(t) {
				uids[j.Name] = string(j.UID)
			}
			var out []string
			for name, uid := range uids {
				if _, back := uids[name+"-undo"]; !back && !strings.HasSuffix(name, "-undo") {
					out = append(out, name+" "+uid)
				}
			}
			slices.Sort(out)
			return strings.Join(out, "\n")
		},
		Settle: func(t testing.TB) {
			rig.Await(t, 30*time.Second, "the Jobs", func(context.Context) (bool, string) {
				for _, j := range b.list(t) {
					over := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
						return c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed // SuccessCriteriaMet comes before
					})
					if !over && j.Labels[jobs.LabelTemplate] != "" {
						return false, fmt.Sprintf("%s: %+v", j.Name, j.Status)
					}
				}
				return true, ""
			})
		},
		Meddle: func(t testing.TB) {
			var names []string
			for _, j := range b.list(t) {
				names = append(names, j.Name)
			}
			if len(names) == 0 {
				plan := kinds.New(b.deps).Do(t.Context(), b.effect(machine.ActionPlan, "good", nil, nil)).Plan
				names = []string{plan.Target.Name}
			}
			for _, name := range names {
				b.cp.Kubectl(t, "-n", b.svc.Namespace, "delete", "job", name, "--ignore-not-found")
				b.cp.Kubectl(t, "-n", b.svc.Namespace, "create", "job", name, "--image=other:v1")
			}
		},
	}
}

func (b *jobBox) effect(a machine.Action, template string, plan *machine.Plan, receipt []byte) machine.Effect {
	return machine.Effect{
		Action: a, Step: "job.run", Run: "r-1", Key: "r-1/fix#1/" + string(a) + "#1", Service: b.svc, Plan: plan, Receipt: receipt,
		With: map[string]any{"template": template, "parameters": map[string]any{"model": "llama"}},
	}
}

// do carries an effect out, and looks again as long as it waits.
func (b *jobBox) do(t *testing.T, e machine.Effect, text string) machine.Outcome {
	t.Helper()
	return b.until(t, e, text, func(o machine.Outcome) bool { return o.Status != machine.StatusPending })
}

// until carries an effect out until what came of it is enough.
func (b *jobBox) until(t *testing.T, e machine.Effect, text string, enough func(machine.Outcome) bool) machine.Outcome {
	t.Helper()
	set := kinds.New(b.deps)
	var o machine.Outcome
	rig.Await(t, 40*time.Second, string(e.Action), func(ctx context.Context) (bool, string) {
		o = set.Do(ctx, e)
		return enough(o), fmt.Sprintf("%s %s %s", o.Status, o.Reason, o.Message)
	})
	if !strings.Contains(o.Message, text) {
		t.Errorf("%s: %s %s %q, want %q", e.Action, o.Status, o.Reason, o.Message, text)
	}
	return o
}

// apply plans and applies a template.
func (b *jobBox) apply(t *testing.T, template string) (*machine.Plan, []byte) {
	t.Helper()
	o := b.do(t, b.effect(machine.ActionPlan, template, nil, nil), "")
	if o.Plan == nil || o.Plan.Lacks != "" {
		t.Fatalf("plan: %s %s %+v", o.Status, o.Message, o.Plan)
	}
	plan := o.Plan
	if o = b.do(t, b.effect(machine.ActionApply, template, plan, nil), ""); o.Status != machine.StatusOK {
		t.Fatalf("apply: %s %s", o.Status, o.Message)
	}
	return plan, o.Data
}

// TestJob holds job.run to the contract of levers on a real API server with the Job
// controller and the garbage collector, with exactly the rights that deploy/kubernetes
// grants, and shows each way in which a Job ends.
func TestJob(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Responder)})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("contract", func(t *testing.T) {
		t.Parallel()
		with := map[string]any{"template": "good", "parameters": map[string]any{"model": "llama"}}
		steptest.TestLever(t, "job.run", with, func(t *testing.T) steptest.World { return newJobBox(t, cp, client, true).world(t) })
	})
	t.Run("ends", func(t *testing.T) {
		t.Parallel()
		b := newJobBox(t, cp, client, true)
		plan, receipt := b.apply(t, "waits")
		why := "the image cannot be pulled"
		b.until(t, b.effect(machine.ActionSettle, "waits", plan, receipt), why, func(o machine.Outcome) bool { return strings.Contains(o.Message, why) })
		b.cp.Kubectl(t, "-n", b.svc.Namespace, "delete", "job", plan.Target.Name)
		for template, text := range map[string]string{"good": "ended well", "fails": "container work exited with 1 (Error)", "hangs": "DeadlineExceeded"} {
			plan, receipt := b.apply(t, template)
			o := b.do(t, b.effect(machine.ActionSettle, template, plan, receipt), text)
			if template == "good" && !strings.Contains(string(o.Data), `"exitCode":0`) {
				t.Errorf("receipt %s", o.Data)
			}
			if failed := template == "fails" || template == "hangs"; failed != (o.Reason == fault.Degraded) {
				t.Errorf("%s: %s %s", template, o.Status, o.Reason)
			}
		}
	})
	t.Run("canceled", func(t *testing.T) {
		t.Parallel()
		b := newJobBox(t, cp, client, true)
		plan, receipt := b.apply(t, "runs")
		undone := b.do(t, b.effect(machine.ActionUndo, "runs", plan, receipt), "")
		if o := b.do(t, b.effect(machine.ActionUnwind, "runs", plan, undone.Data), "is next"); !o.Next || len(b.list(t)) > 0 {
			t.Errorf("%s %s, Jobs %+v", o.Status, o.Message, b.list(t))
		}
		next := b.do(t, b.effect(machine.ActionUndo, "runs", plan, undone.Data), "")
		o := b.do(t, b.effect(machine.ActionUnwind, "runs", plan, next.Data), "")
		if all := b.list(t); o.Status != machine.StatusOK || len(all) != 1 || all[0].Name != plan.Target.Name+"-undo" {
			t.Errorf("%s %s, Jobs %+v", o.Status, o.Message, all)
		}
	})
	t.Run("no right", func(t *testing.T) {
		t.Parallel()
		b := newJobBox(t, cp, client, false)
		o := b.do(t, b.effect(machine.ActionPlan, "good", nil, nil), "")
		if o.Plan == nil || !strings.Contains(o.Plan.Lacks, "jobs.batch "+b.svc.Namespace+"/good-") {
			t.Errorf("%s %s %+v", o.Status, o.Message, o.Plan)
		}
	})
}

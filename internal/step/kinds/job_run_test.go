package kinds_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/jobs"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
)

const jobManifest = `apiVersion: batch/v1
kind: Job
metadata: {name: any}
spec:
  template:
    spec:
      serviceAccountName: cache-admin
      containers:
        - name: %s
          image: registry.example/cachectl@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
          command: [cachectl, %s, --model]
          args: ["${model}"]
          env: [{name: MODEL, value: "${model}"}]
`

// templates are those of a platform team: one with an undo, one without, one that changes
// nothing, one for another service, one in another namespace.
func templates(t testing.TB) *jobs.Set {
	t.Helper()
	model := []jobs.Parameter{{Name: "model", Enum: []string{"llama", "qwen"}}}
	list := []jobs.Declaration{
		{Name: "clear-cache", Description: "drops the cached blocks of a model", Undo: "warm-cache"},
		{Name: "warm-cache"},
		{Name: "wipe-disk"},
		{Name: "dump-stacks", ReadOnly: true, Autonomy: "auto"},
		{Name: "of-another", Services: []string{"serving/embed*"}},
		{Name: "elsewhere", Namespace: "cache", Touches: []string{"serving/other"}},
	}
	for i := range list {
		d := &list[i]
		d.Parameters, d.File = model, filepath.Join(t.TempDir(), d.Name+".yaml")
		verb, _, _ := strings.Cut(d.Name, "-")
		if err := os.WriteFile(d.File, fmt.Appendf(nil, jobManifest, verb, verb), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	jobs.Check(list, "jobs", func(path, _, format string, args ...any) { t.Fatalf(path+": "+format, args...) })
	set, err := jobs.Open(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func jobDeps(t testing.TB, c *kube.Client) step.Deps {
	return step.Deps{
		Workloads: c, Jobs: c, Logs: c, Templates: templates(t), Now: func() time.Time { return noon }, Querier: prom{},
		Services: func() []playbook.Service {
			return []playbook.Service{{Name: "serving/other", Namespace: "other", Owners: []string{"user:bo"}}}
		},
	}
}

func runsJob(template string) map[string]any {
	return map[string]any{"template": template, "parameters": map[string]any{"model": "llama"}}
}

// jobWorld is that cluster for the conformance test: what is in force are the Jobs that
// none has taken back.
func jobWorld(t testing.TB) steptest.World {
	s := cluster(t, "Deployment")
	d := jobDeps(t, s.Client(t))
	w := steptest.World{Service: service("Deployment"), Deps: d, Finds: true, Makes: true}
	w.Spec = func(testing.TB) string {
		all := s.Jobs()
		slices.Sort(all)
		inForce := slices.DeleteFunc(slices.Clone(all), func(path string) bool {
			return strings.HasSuffix(path, "-undo") || slices.Contains(all, path+"-undo")
		})
		var out []string
		for _, path := range inForce {
			out = append(out, fmt.Sprint(path, s.Object(path)["metadata"].(map[string]any)["uid"]))
		}
		return strings.Join(out, "\n")
	}
	w.Settle = func(testing.TB) {
		for _, path := range s.Jobs() {
			s.EndPods(path)
		}
		for _, path := range s.Jobs() {
			s.PlayJob(path, kubetest.JobPlay{Reason: "Completed", Log: "done\n"})
		}
	}
	w.Meddle = func(t testing.TB) {
		all := s.Jobs()
		if len(all) == 0 {
			o := kinds.New(d).Do(t.Context(), machine.Effect{Key: "r-1/fix#1/plan#1", Run: "r-1", Action: machine.ActionPlan, Step: "job.run", With: runsJob("clear-cache"), Service: w.Service})
			all = []string{kubetest.JobPath(o.Plan.Target.Namespace, o.Plan.Target.Name)}
		}
		for _, path := range all {
			s.Delete(path)
			s.Put(path, map[string]any{
				"metadata": map[string]any{"name": filepath.Base(path), "namespace": "serving"},
				"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "x"}}}}},
			})
		}
	}
	return w
}

// TestJobRun holds job.run to the contract of levers.
func TestJobRun(t *testing.T) {
	steptest.TestLever(t, "job.run", runsJob("clear-cache"), func(t *testing.T) steptest.World { return jobWorld(t) })
}

// jobTrial drives one job.run through effects, as the executor does.
type jobTrial struct {
	t    *testing.T
	s    *kubetest.Server
	set  *step.Set
	plan *machine.Plan
	path string
}

func startsJob(t *testing.T, template string) *jobTrial {
	t.Helper()
	s := cluster(t, "Deployment")
	x := &jobTrial{t: t, s: s, set: kinds.New(jobDeps(t, s.Client(t)))}
	o := x.do(machine.Effect{Action: machine.ActionPlan, With: runsJob(template)})
	if o.Status != machine.StatusOK {
		t.Fatalf("plan: %s %s %s", o.Status, o.Reason, o.Message)
	}
	x.plan, x.path = o.Plan, kubetest.JobPath(o.Plan.Target.Namespace, o.Plan.Target.Name)
	return x
}

func (x *jobTrial) do(e machine.Effect) machine.Outcome {
	x.t.Helper()
	e.Run, e.Step, e.Service, e.Plan = "r-1", "job.run", service("Deployment"), x.plan
	e.Key = fmt.Sprintf("r-1/fix#1/%s#1", e.Action)
	return x.set.Do(x.t.Context(), e)
}

func (x *jobTrial) applied() json.RawMessage {
	x.t.Helper()
	o := x.do(machine.Effect{Action: machine.ActionApply})
	if o.Status != machine.StatusOK {
		x.t.Fatalf("apply: %s %s %s", o.Status, o.Reason, o.Message)
	}
	return o.Data
}

func (x *jobTrial) wants(e machine.Effect, status machine.Status, reason fault.Reason, text string) machine.Outcome {
	x.t.Helper()
	o := x.do(e)
	if o.Status != status || o.Reason != reason || !strings.Contains(o.Message, text) {
		x.t.Errorf("%s: %s %q %q, want %s %q %q", e.Action, o.Status, o.Reason, o.Message, status, reason, text)
	}
	return o
}

// TestJobRunEnds: each way in which a Job goes is told, and how it ended is evidence.
func TestJobRunEnds(t *testing.T) {
	key := "api_key=sk-" + strings.Repeat("a1b2", 8) // a credential that the Job prints
	for name, tt := range map[string]struct {
		play   kubetest.JobPlay
		status machine.Status
		reason fault.Reason
		text   string
		fact   string
	}{
		"well":          {kubetest.JobPlay{Reason: "Completed", Log: "dropped 12 blocks\n"}, machine.StatusOK, "", "ended well", "it printed: dropped 12 blocks"},
		"exit code":     {kubetest.JobPlay{ExitCode: 3, Reason: "Error", Log: "a\nb\nc\nno such model\n"}, machine.StatusFailed, fault.Degraded, "container clear exited with 3 (Error); it printed: b; it printed: c; it printed: no such model", "it printed: a"},
		"out of memory": {kubetest.JobPlay{ExitCode: 137, Reason: "OOMKilled"}, machine.StatusFailed, fault.Degraded, "exited with 137 (OOMKilled)", "container clear exited with 137 (OOMKilled)"},
		"deadline":      {kubetest.JobPlay{Hangs: true}, machine.StatusFailed, fault.Degraded, "DeadlineExceeded", "its pods are gone: the exit code is not known"},
		"evicted": {
			kubetest.JobPlay{ExitCode: 137, Reason: "Error", PodReason: "Evicted", PodMessage: "The node was low on resource: memory."},
			machine.StatusFailed, fault.Degraded,
			"-abcde was ended: Evicted: The node was low on resource: memory.", "",
		},
		"deadline of the pod": {
			kubetest.JobPlay{ExitCode: 143, Reason: "Error", PodReason: "DeadlineExceeded", Log: "dropping\n"},
			machine.StatusFailed, fault.Degraded,
			"-abcde was ended: DeadlineExceeded; container clear exited with 143 (Error); it printed: dropping", "it printed: dropping",
		},
		"suspended":      {kubetest.JobPlay{Suspended: true}, machine.StatusPending, "", "waits: it is suspended", ""},
		"runs":           {kubetest.JobPlay{Runs: true}, machine.StatusPending, "", "runs", ""},
		"no image":       {kubetest.JobPlay{Waiting: "ImagePullBackOff"}, machine.StatusPending, "", "the image cannot be pulled", ""},
		"no node":        {kubetest.JobPlay{Unschedulable: "0/2 nodes are available: 2 Insufficient cpu."}, machine.StatusPending, "", "no node with enough CPU or memory", ""},
		"prints a key":   {kubetest.JobPlay{Reason: "Completed", Log: "-----BEGIN PRIVATE KEY-----\na1b2a1b2\na1b2a1b2c3\n-----END PRIVATE KEY-----\n"}, machine.StatusOK, "", "ended well", "(private key left out)"},
		"prints secrets": {kubetest.JobPlay{Reason: "Completed", Log: key + "\n"}, machine.StatusOK, "", "ended well", "(redacted)"},
	} {
		t.Run(name, func(t *testing.T) {
			x := startsJob(t, "clear-cache")
			receipt := x.applied()
			x.s.PlayJob(x.path, tt.play)
			o := x.wants(machine.Effect{Action: machine.ActionSettle, Receipt: receipt}, tt.status, tt.reason, tt.text)
			if facts := strings.Join(o.Facts, "\n"); !strings.Contains(facts, tt.fact) || strings.Contains(facts+o.Message+string(o.Data), "a1b2a1b2") {
				t.Errorf("facts %q", o.Facts)
			}
			if name == "well" && !strings.Contains(string(o.Data), `"exitCode":0`) {
				t.Errorf("receipt %s", o.Data)
			}
		})
	}
	t.Run("not created", func(t *testing.T) {
		x := startsJob(t, "clear-cache")
		receipt := x.applied()
		x.s.Put("/api/v1/namespaces/serving/events/e", map[string]any{
			"type": "Warning", "reason": "FailedCreate", "message": "pods is forbidden: exceeded quota: q",
			"involvedObject": map[string]any{"kind": "Job", "name": filepath.Base(x.path)}, "metadata": map[string]any{"name": "e", "namespace": "serving"},
		})
		x.wants(machine.Effect{Action: machine.ActionSettle, Receipt: receipt}, machine.StatusPending, "", "exceeded quota")
	})
	t.Run("no right to logs", func(t *testing.T) {
		x := startsJob(t, "clear-cache")
		receipt := x.applied()
		x.s.PlayJob(x.path, kubetest.JobPlay{ExitCode: 1, Reason: "Error"})
		x.s.Fail(func(r *http.Request) kubetest.Fault {
			if strings.HasSuffix(r.URL.Path, "/log") {
				return kubetest.Fault{Status: 403}
			}
			return kubetest.Fault{}
		})
		x.wants(machine.Effect{Action: machine.ActionSettle, Receipt: receipt}, machine.StatusFailed, fault.Degraded, "exited with 1 (Error); its log was not read")
	})
	t.Run("deleted after its end", func(t *testing.T) {
		x := startsJob(t, "clear-cache")
		receipt := x.applied()
		x.s.PlayJob(x.path, kubetest.JobPlay{Reason: "Completed"})
		o := x.do(machine.Effect{Action: machine.ActionSettle, Receipt: receipt})
		x.s.Delete(x.path)
		x.wants(machine.Effect{Action: machine.ActionSettle, Receipt: o.Data}, machine.StatusOK, "", "deleted since")
		x.wants(machine.Effect{Action: machine.ActionSettle, Receipt: receipt}, machine.StatusForeign, fault.ForeignChange, "before it was seen to end")
	})
}

// TestJobRunCanceled: a Job that runs is stopped before the one that takes it back starts.
func TestJobRunCanceled(t *testing.T) {
	x := startsJob(t, "clear-cache")
	receipt := x.applied()
	x.s.PlayJob(x.path, kubetest.JobPlay{Runs: true})
	undone := x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: receipt}, machine.StatusOK, "", "")
	x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: receipt, Observe: true}, machine.StatusOK, "", "its pods are ending") // after kill -9
	x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: undone.Data}, machine.StatusPending, "", "its pods are ending")
	if n := len(x.s.Jobs()); n != 1 {
		t.Fatalf("%d Jobs while the first still ends", n)
	}
	x.s.EndPods(x.path)
	x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: receipt, Observe: true}, machine.StatusFailed, fault.Interrupted, "-undo is not there") // after kill -9: it is undone again
	if o := x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: undone.Data}, machine.StatusOK, "", "is next"); !o.Next || len(x.s.Jobs()) != 0 {
		t.Fatalf("%+v, Jobs %q", o, x.s.Jobs())
	}
	next := x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: undone.Data}, machine.StatusOK, "", "")
	if jobs := x.s.Jobs(); len(jobs) != 1 || jobs[0] != x.path+"-undo" {
		t.Fatalf("Jobs %q", jobs)
	}
	x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: undone.Data}, machine.StatusOK, "", "")                // found
	x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: undone.Data, Observe: true}, machine.StatusOK, "", "") // after kill -9
	x.s.PlayJob(x.path+"-undo", kubetest.JobPlay{Reason: "Completed"})
	if o := x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: next.Data}, machine.StatusOK, "", "ended well"); o.Next || o.Stays {
		t.Errorf("%+v", o)
	}
	if w := x.s.Writes(); len(w) != 3 {
		t.Errorf("writes %q", w)
	}
}

// TestJobRunUndoDeleted: an undo's Job that somebody deletes is not made again by Responder:
// people are told, or asked.
func TestJobRunUndoDeleted(t *testing.T) {
	x := startsJob(t, "clear-cache")
	receipt := x.applied()
	x.s.PlayJob(x.path, kubetest.JobPlay{Runs: true})
	stopped := x.do(machine.Effect{Action: machine.ActionUndo, Receipt: receipt})
	x.s.EndPods(x.path)
	made := x.do(machine.Effect{Action: machine.ActionUndo, Receipt: stopped.Data})
	x.s.Delete(x.path + "-undo")
	x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: made.Data}, machine.StatusForeign, fault.ForeignChange, "-undo is not there: what it did is not known")
	// The process died before it knew that the undo's Job was made: the run is held, as for the first Job.
	x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: stopped.Data, Observe: true}, machine.StatusFailed, fault.Interrupted, "it did not happen")
	x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: stopped.Data, OperatorMade: machine.ActionUndo}, machine.StatusForeign, fault.ForeignChange, "-undo is not there")
	if jobs := x.s.Jobs(); len(jobs) != 0 {
		t.Errorf("Jobs %q", jobs)
	}
}

// TestJobRunSaidMade: where people say that a Job was made which nobody saw, its undo runs.
func TestJobRunSaidMade(t *testing.T) {
	x := startsJob(t, "clear-cache")
	said := machine.Effect{Action: machine.ActionSettle, OperatorMade: machine.ActionApply}
	x.wants(said, machine.StatusForeign, fault.ForeignChange, "was made, as people say, and is gone")
	x.wants(machine.Effect{Action: machine.ActionUndo}, machine.StatusRefused, fault.NothingToDo, "no attempt is known to have made it")
	said.Action = machine.ActionUndo
	undone := x.wants(said, machine.StatusOK, "", "")
	if jobs := x.s.Jobs(); len(jobs) != 1 || jobs[0] != x.path+"-undo" {
		t.Fatalf("Jobs %q", jobs)
	}
	x.s.PlayJob(x.path+"-undo", kubetest.JobPlay{Reason: "Completed"})
	said.Action, said.Receipt = machine.ActionUnwind, undone.Data
	x.wants(said, machine.StatusOK, "", "ended well")
}

// TestJobRunUndoFails: what is known of the Job that should take it back is told.
func TestJobRunUndoFails(t *testing.T) {
	x := startsJob(t, "clear-cache")
	receipt := x.applied()
	x.s.PlayJob(x.path, kubetest.JobPlay{ExitCode: 2, Reason: "Error"})
	undone := x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: receipt}, machine.StatusOK, "", "")
	x.s.PlayJob(x.path+"-undo", kubetest.JobPlay{ExitCode: 9, Reason: "Error", Log: "cannot\n"})
	x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: undone.Data}, machine.StatusFailed, fault.Degraded, "container warm exited with 9 (Error); it printed: cannot")
}

// TestJobRunWithoutUndo: what cannot be taken back is never said to be.
func TestJobRunWithoutUndo(t *testing.T) {
	x := startsJob(t, "wipe-disk")
	if p := x.plan; !strings.Contains(p.Undo, "cannot be taken back") || p.Risk != machine.RiskHigh || p.Asks == "" || p.Class != playbook.ClassHardware || !p.Stops {
		t.Errorf("%+v", p)
	}
	receipt := x.applied()
	x.s.PlayJob(x.path, kubetest.JobPlay{Reason: "Completed"})
	x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: receipt}, machine.StatusFailed, fault.OutOfBounds, "cannot be taken back")

	x = startsJob(t, "wipe-disk")
	receipt = x.applied()
	x.s.PlayJob(x.path, kubetest.JobPlay{Runs: true})
	undone := x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: receipt}, machine.StatusOK, "", "")
	x.s.EndPods(x.path)
	if o := x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: undone.Data}, machine.StatusOK, "", "what it did until then is not known, and stays"); !o.Stays {
		t.Errorf("%+v", o)
	}

	for name, play := range map[string]kubetest.JobPlay{"suspended": {Suspended: true}, "no image": {Waiting: "ImagePullBackOff"}} {
		x = startsJob(t, "wipe-disk")
		receipt = x.applied()
		x.s.PlayJob(x.path, play)
		undone = x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: receipt}, machine.StatusOK, "", "")
		x.s.EndPods(x.path)
		o := x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: undone.Data}, machine.StatusOK, "", "removed while it waited for its start; it was not seen to run")
		if o.Stays || len(x.s.Jobs()) > 0 {
			t.Errorf("%s: %+v, Jobs %q", name, o, x.s.Jobs())
		}
	}

	x = startsJob(t, "dump-stacks")
	if p := x.plan; p.Risk != machine.RiskLow || p.Asks != "" {
		t.Errorf("%+v", p)
	}
	receipt = x.applied()
	x.s.PlayJob(x.path, kubetest.JobPlay{Reason: "Completed"})
	x.wants(machine.Effect{Action: machine.ActionUndo, Receipt: receipt}, machine.StatusRefused, fault.NothingToDo, "changes nothing")
	x.wants(machine.Effect{Action: machine.ActionUnwind, Receipt: receipt}, machine.StatusOK, "", "changes nothing")
}

// TestJobRunNamesItsTemplate: which templates a playbook may run is read in it, so an
// expression in its place is refused by the loader.
func TestJobRunNamesItsTemplate(t *testing.T) {
	for with, want := range map[string]string{
		"{template: clear-cache, parameters: {model: '${alert.labels.model}'}}": "",
		"{template: '${alert.labels.template}'}":                                "cap.yaml:15:24: spec.states.cap.with.template: the name of a template cannot be an expression",
		"{template: 'clear-${alert.labels.what}'}":                              "the name of a template cannot be an expression",
	} {
		text := strings.NewReplacer("gitops.set_flag", "job.run", "{WITH}", with).Replace(flagPlaybook)
		_, err := playbook.Parse("cap.yaml", []byte(text), kinds.Declarations())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", with, err, want)
		}
	}
}

// TestJobRunRefused: what cannot or must not run is refused with the reason.
func TestJobRunRefused(t *testing.T) {
	s := cluster(t, "Deployment")
	set := kinds.New(jobDeps(t, s.Client(t)))
	for name, tt := range map[string]struct {
		with   map[string]any
		reason fault.Reason
		text   string
	}{
		"unknown template":  {runsJob("clear-cash"), fault.Invalid, "configured are clear-cache, dump-stacks"},
		"no template":       {map[string]any{}, fault.Invalid, "template is missing"},
		"another service's": {runsJob("of-another"), fault.OutOfBounds, "is for the services serving/embed*, not for serving/chat"},
		"missing parameter": {map[string]any{"template": "clear-cache"}, fault.Invalid, "parameter model is missing"},
		"ill-typed":         {map[string]any{"template": "clear-cache", "parameters": map[string]any{"model": "; rm -rf /"}}, fault.Invalid, "is none of llama, qwen"},
		"unknown parameter": {map[string]any{"template": "clear-cache", "parameters": map[string]any{"model": "llama", "image": "x"}}, fault.Invalid, `unknown parameter "image"`},
	} {
		o := set.Do(t.Context(), machine.Effect{Key: "r-1/fix#1/plan#1", Run: "r-1", Action: machine.ActionPlan, Step: "job.run", With: tt.with, Service: service("Deployment")})
		if o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
			t.Errorf("%s: %s %s: %s", name, o.Status, o.Reason, o.Message)
		}
	}
	x := startsJob(t, "clear-cache")
	x.applied()
	x.plan = nil
	x.wants(machine.Effect{Action: machine.ActionPlan, With: runsJob("clear-cache")}, machine.StatusRefused, fault.Conflict, "is there already, made by run r-1")
}

// TestJobRunElsewhere: another namespace and further services are in the plan, for the
// rules and the owners; a right that is missing there is named.
func TestJobRunElsewhere(t *testing.T) {
	x := startsJob(t, "elsewhere")
	want := []machine.Touched{{Service: "serving/other", Namespace: "other", Owners: []string{"user:bo"}}, {Namespace: "cache"}}
	if fmt.Sprint(x.plan.Touches) != fmt.Sprint(want) || !slices.Contains(x.plan.Locks, "service:serving/other") || x.plan.Target.Namespace != "cache" {
		t.Errorf("%+v", x.plan)
	}
	x.s.Fail(func(r *http.Request) kubetest.Fault {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/namespaces/cache/jobs") {
			return kubetest.Fault{Status: 403}
		}
		return kubetest.Fault{}
	})
	x.plan = nil
	o := x.do(machine.Effect{Action: machine.ActionPlan, With: runsJob("elsewhere")})
	if o.Plan == nil || !strings.Contains(o.Plan.Lacks, `create jobs.batch cache/elsewhere-`) {
		t.Errorf("%s %s", o.Status, o.Message)
	}
}

// TestJobRunTemplateChanged: what the platform team changed since the plan does not run.
func TestJobRunTemplateChanged(t *testing.T) {
	x := startsJob(t, "clear-cache")
	d := jobDeps(t, x.s.Client(t))
	d.Templates = nil
	x.set = kinds.New(d)
	x.wants(machine.Effect{Action: machine.ActionApply}, machine.StatusFailed, fault.Invalid, "no templates of Jobs are configured")
	x.set = kinds.New(jobDeps(t, x.s.Client(t)))
	changed := *x.plan
	changed.Payload = json.RawMessage(strings.Replace(string(x.plan.Payload), "registry.example/cachectl", "registry.example/other", 1))
	x.plan = &changed
	x.wants(machine.Effect{Action: machine.ActionApply}, machine.StatusFailed, fault.Conflict, "was changed since it was planned")
	if w := x.s.Writes(); len(w) > 0 {
		t.Errorf("writes %q", w)
	}
}

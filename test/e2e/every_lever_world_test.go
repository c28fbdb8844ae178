//go:build e2e && levers

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// leverRuns is a service for each lever, and one responder over all of them or one for each
// lever, behind a front of the API server that decides about what is written.
type leverRuns struct {
	cp        *rig.ControlPlane
	ns        string
	front     *rig.Front
	responder *rig.Service      // over all services; nil: each lever has its own
	client    *kube.Client      // as an administrator
	objects   dynamic.Interface // as an administrator
	all       []*leverRun
}

// leverRun is the run of one lever.
type leverRun struct {
	name  string // of its service, its playbook and its alert
	lever string
	needs string // the lever whose roles it needs; empty: that one
	with  string // parameters, as YAML: POD and NODE stand for a pod of the service, and for a node

	kind, workload string                                                     // of the service; empty: a Deployment of its name
	manifests      string                                                     // besides the Deployment; in place of it where workload is given
	slow           bool                                                       // its pods take seconds to get ready
	pool, bare     bool                                                       // it has nodes of its own; without GPUs
	entry          string                                                     // more lines of the service's entry in the catalog
	ready          func(t *testing.T, w *leverRuns, r *leverRun)              // before the alert
	stand          func(ctx context.Context, w *leverRuns, r *leverRun) error // does what a controller of another project does

	shows  []string           // kubectl: what the lever changes
	meddle []string           // kubectl: somebody else's change of that; empty: see the lever's own tests
	steps  bool               // it is made in several changes, of which one ends a pod
	lacks  string             // the right that is missing, as the refusal names it
	keeps  bool               // a cancel takes nothing back
	ends   machine.RunOutcome // when all goes well; empty: resolved

	pod, node, before string
	responder         *rig.Service
}

// leverOptions say what is not as usual.
type leverOptions struct {
	reads bool // as an account that may only read, and not with the roles of deploy/
	own   bool // each lever as an account that may read, and has the roles of this lever alone
	never bool // no proof comes
	only  func(*leverRun) bool
}

func newLeverRuns(t *testing.T, o leverOptions) *leverRuns {
	t.Helper()
	w := &leverRuns{cp: rig.Shared(t)}
	for _, definition := range []string{"scaledobject", "httproute", "inferenceservice", "leaderworkerset", "dynamo"} {
		w.cp.Define(t, definition)
	}
	w.cp.Deploy(t)
	w.cp.BindNodes(t)
	w.ns, _ = w.cp.Own(t, 4, 64)
	w.cp.BindLevers(t, w.ns)
	w.cp.BindJobs(t, w.ns)
	var err error
	if w.client, err = kube.New(kube.Options{Kubeconfig: w.cp.Kubeconfig(t, rig.Admin)}); err != nil {
		t.Fatal(err)
	}
	if w.objects, err = dynamic.NewForConfig(w.cp.Config); err != nil {
		t.Fatal(err)
	}
	w.all = everyLever()
	if o.only != nil {
		w.all = slices.DeleteFunc(w.all, func(r *leverRun) bool { return !o.only(r) })
	}
	w.place(t)
	w.follow(t)
	w.front = rig.StartFront(t, w.cp)
	w.serve(t, o)
	for _, r := range w.all {
		r.before = w.shown(t, r)
	}
	return w
}

// place puts the services up, each ready for its lever.
func (w *leverRuns) place(t *testing.T) {
	t.Helper()
	var manifests []string
	for _, r := range w.all {
		if r.kind == "" {
			r.kind = "Deployment"
		}
		own := inference(r.name, "vllm:v1", 2)
		if r.workload == "" {
			r.workload = r.name
		} else {
			own = ""
		}
		if r.slow {
			own = strings.Replace(own, "labels: {app: "+r.name+"}}", "labels: {app: "+r.name+"}, annotations: {rig.responder/ready-delay: 6s, rig.responder/delete-delay: 3s}}", 1)
		}
		if r.pool {
			gpus := 8
			if r.bare {
				gpus = 0
			}
			nodes := w.cp.AddNodes(t, w.ns, 2, gpus)
			w.cp.LabelNodes(t, nodes, "karpenter.sh/nodepool", w.ns+"-"+r.name)
			r.node = nodes[0]
			own = (&nodeRun{name: r.name, all: nodes, grace: true}).deployment(w.ns + "-" + r.name)
			if r.bare {
				own = strings.Replace(own, "resources: {limits: {nvidia.com/gpu: 1}}", "", 1)
			}
		}
		for _, m := range []string{r.manifests, own} {
			if !r.pool { // those nodes are for others
				m = strings.ReplaceAll(m, "\n      containers:", "\n      nodeSelector: {karpenter.sh/nodepool: "+w.ns+"}\n      containers:")
			}
			if m != "" {
				manifests = append(manifests, strings.ReplaceAll(m, "NAME", r.name))
			}
		}
	}
	w.cp.Apply(t, w.ns, strings.Join(manifests, "\n---"))
	for _, r := range w.all {
		if r.kind == "Deployment" {
			w.cp.AwaitRollout(t, w.ns, r.workload, time.Minute)
		}
		if r.ready != nil {
			r.ready(t, w, r)
		}
		if strings.Contains(r.with, "POD") {
			if r.pod = podsOf(t, w.cp, w.ns, "app="+r.name)[0]; r.pool {
				r.pod = podsOn(t, w.cp, w.ns, r.name, r.node)[0]
			}
		}
	}
}

// follow does what controllers of other projects do, until the test ends.
func (w *leverRuns) follow(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, r := range w.all {
				if r.stand == nil {
					continue
				}
				if err := r.stand(ctx, w, r); err != nil && ctx.Err() == nil {
					t.Logf("in the place of a controller, %s: %v", r.name, err) // it tries again
				}
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
}

// ServeHTTP serves the metrics of all services to Prometheus: each answers requests.
func (w *leverRuns) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	n := time.Now().Unix() % 1_000_000 * 10
	fmt.Fprintln(rw, "# TYPE vllm:request_success_total counter")
	for _, r := range w.all {
		fmt.Fprintf(rw, "vllm:request_success_total{namespace=%q,service=%q,finished_reason=\"stop\"} %d\n", w.ns, r.name, n)
	}
}

// serve starts one responder over all services, or with own rights one for each lever.
func (w *leverRuns) serve(t *testing.T, o leverOptions) {
	t.Helper()
	prometheus := scrapeAll(t, w).URL
	switch {
	case o.own:
		of := map[string][]*leverRun{}
		for _, r := range w.all {
			lever := cmp.Or(r.needs, r.lever)
			of[lever] = append(of[lever], r)
		}
		for lever, runs := range of {
			w.start(t, prometheus, w.account(t, lever, runs[0].node != ""), o.never, runs)
		}
	case o.reads:
		w.responder = w.start(t, prometheus, w.reader(t), o.never, w.all)
	default:
		w.responder = w.start(t, prometheus, rig.Responder, o.never, w.all)
	}
}

// start starts a responder over some of the services.
func (w *leverRuns) start(t *testing.T, prometheus, user string, never bool, runs []*leverRun) *rig.Service {
	t.Helper()
	services, files := "services:", map[string]string{}
	for _, r := range runs {
		services += strings.Replace(service(w.ns, r.name, "auto"), "workload: {kind: Deployment, name: "+r.name+"}",
			fmt.Sprintf("workload: {kind: %s, name: %s}", r.kind, r.workload), 1) + strings.ReplaceAll(r.entry, "NAME", r.name)
		files["playbooks/"+r.name+".yaml"] = r.playbook(never)
	}
	delete(files, "playbooks/"+runs[0].name+".yaml")
	maps.Copy(files, jobFiles())
	s := rig.StartService(t, rig.ServiceOptions{
		Prometheus: prometheus, Kubeconfig: w.front.Kubeconfig(t, w.cp, user), Services: services, Playbook: runs[0].playbook(never), Files: files,
		Settings: "autonomy: auto\nguards: {cooldown: 0s, nodes_out: {max: 50, percent: 100}, concurrency: {levers: 50}, budget: {levers: 100, runs: 100}}\n" + jobSettings,
	})
	for _, r := range runs {
		r.responder = s
	}
	return s
}

// playbook has the one lever. A hold is its own proof.
func (r *leverRun) playbook(never bool) string {
	threshold, within := "0.1", "3m" // the API server may be away for one of them
	if never {
		threshold, within = "1000000", "10m"
	}
	rate := "'sum(rate(vllm:request_success_total{${service.selector}}[4s]))'"
	verify := fmt.Sprintf("\n      verify: {within: %[3]s, hold: 1s, interval: 1s, until: [{query: %[1]s, op: '>', value: %[2]s}], traffic: {query: %[1]s, min_rate: 0.1}}", rate, threshold, within)
	if r.lever == "rollout.hold" {
		verify = ""
	}
	with := strings.NewReplacer("POD", r.pod, "NODE", fmt.Sprintf("'${look.ready >= 1 ? %q : \"\"}'", r.node)).Replace(r.with) // a node has to come from evidence
	return fmt.Sprintf(`
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: %[1]s, title: One lever, description: One lever., runbook: none}
spec:
  match: ['{alertname=%[1]q}']
  autonomy: auto
  start: look
  states:
    look:
      check: kube.workload
      on_error: escalated
      next: [{when: out.ready >= 1, to: act}, {to: escalated}]
    act:
      lever: %[2]s
      with: {%[3]s}
      approve: {by: service.owners, within: 15m, on_expiry: escalate}%[4]s
      next: [{when: verified, to: resolved}, {to: escalated}]
    resolved: {end: resolved}
    escalated: {end: escalated}
`, r.name, r.lever, with, verify)
}

// shown is what the lever changes, as it is stored.
func (w *leverRuns) shown(t *testing.T, r *leverRun) string {
	t.Helper()
	if len(r.shows) == 0 {
		return ""
	}
	return w.cp.Kubectl(t, w.args(r, r.shows)...)
}

// args puts the names into the arguments of kubectl.
func (w *leverRuns) args(r *leverRun, args []string) []string {
	out := []string{"-n", w.ns}
	for _, a := range args {
		out = append(out, strings.NewReplacer("NAME", r.name, "NODE", r.node).Replace(a))
	}
	return out
}

// of returns the lever that makes a change; nil: none does.
func (w *leverRuns) of(c rig.Change) *leverRun {
	parts := strings.Split(c.Path, "/")
	for _, r := range w.all {
		if r.lever == "job.run" && slices.Contains(parts, "jobs") || slices.ContainsFunc(parts, func(p string) bool {
			return p == r.name || strings.HasPrefix(p, r.name+"-") || r.node != "" && p == r.node
		}) {
			return r
		}
	}
	return nil
}

// begin delivers the alerts of all services.
func (w *leverRuns) begin(t *testing.T) {
	t.Helper()
	for _, r := range w.all {
		deliverAlert(t, r.responder, map[string]any{"alertname": r.name, "namespace": w.ns, "service": r.name, "severity": "critical"})
	}
}

// changes counts those of a lever that the API server carried out; of one that is made in
// several, the evictions alone.
func (w *leverRuns) changes(r *leverRun) (n int, all []string) {
	for _, d := range w.front.Done() {
		if w.of(d.Change) != r || d.Status >= 300 {
			continue
		}
		if all = append(all, d.String()); !r.steps || d.Method == http.MethodPost {
			n++
		}
	}
	return n, all
}

// each waits for every run to be as it is wanted, in subtests: the first one that is not
// does not hide the others.
func (w *leverRuns) each(t *testing.T, name string, f func(t *testing.T, r *leverRun)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for _, r := range w.all {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				f(t, r)
			})
		}
	})
}

// applied waits until every change is on record.
func (w *leverRuns) applied(t *testing.T) {
	t.Helper()
	w.each(t, "applied", func(t *testing.T, r *leverRun) {
		rig.Await(t, 3*time.Minute, "the change is on record", func(ctx context.Context) (bool, string) {
			run, err := runOf(ctx, r.responder, r.name, w.ns+"/"+r.name)
			if err != nil {
				return false, err.Error()
			}
			if run.Ending != nil && run.Has(machine.Applied) == 0 {
				t.Fatalf("it ended without a change:\n%s", run)
			}
			return run.Has(machine.Applied) > 0, run.String()
		})
	})
}

// end waits for the end of a run.
func (w *leverRuns) end(t *testing.T, r *leverRun) *rig.Run {
	t.Helper()
	return awaitRunOf(t, r.responder, r.name, w.ns+"/"+r.name, 4*time.Minute)
}

// asUsual wants every run to end as if nothing had happened: each change was made once.
func (w *leverRuns) asUsual(t *testing.T) {
	t.Helper()
	w.each(t, "end", func(t *testing.T, r *leverRun) {
		run := w.end(t, r)
		wantEnd(t, run, r.outcome())
		if n, all := w.changes(r); n != 1 {
			t.Errorf("%d changes, want one: %v\n%s", n, all, run)
		}
		if n := run.Has(machine.Applied); n != 1 {
			t.Errorf("the change is on record %d times, want once:\n%s", n, run)
		}
		if now := w.shown(t, r); !r.steps && now == r.before {
			t.Errorf("nothing changed: %s\n%s", now, run)
		}
	})
	wantIntact(t, w.responder)
}

func (r *leverRun) outcome() machine.RunOutcome {
	if r.ends == "" {
		return machine.OutcomeResolved
	}
	return r.ends
}

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// A responder is killed, as kill -9 does, at every boundary that a whole run
// passes: before each transaction of the journal (the effect before it happened
// and is not on record), after it (it is on record and what follows did not
// happen), and at the executor's own places. It is then started again, and the
// run must end as if nothing had been: one rollback in the API server's log,
// proven, and nothing lost. The boundaries are not listed here; a first run of
// each scenario tells which it passes.
func TestCrash(t *testing.T) {
	c := newCrashes(t)
	scenarios := []scenario{
		{name: "helps", outcome: machine.OutcomeResolved, writes: 1, image: "vllm:v1"},
		// A change that did not help is undone, where the playbook says so: the undo
		// happens once.
		{name: "undone", outcome: machine.OutcomeEscalated, writes: 2, image: "vllm:v2-bad", hopeless: true, from: machine.VerifyEnded},
		// People are asked: a question that was put is not put anew, and a decision
		// that was acknowledged is not asked for again.
		{
			name: "asked", outcome: machine.OutcomeResolved, writes: 1, image: "vllm:v1",
			autonomy: "suggest", from: machine.GateOpened, to: machine.Applied,
		},
		// They are asked and answer in Slack: there is one message, and it is brought
		// to its end.
		{name: "slack", outcome: machine.OutcomeResolved, writes: 1, image: "vllm:v1", autonomy: "suggest", slack: true},
	}
	points := make([][]string, len(scenarios))
	t.Run("unharmed", func(t *testing.T) {
		for i, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				points[i] = c.boundaries(t, s)
			})
		}
	})
	for i, s := range scenarios {
		if points[i] != nil { // its run without a crash went as it should
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				c.killAtEach(t, points[i], s)
			})
		}
	}
}

// scenario is how a run goes when nothing is killed.
type scenario struct {
	name     string
	outcome  machine.RunOutcome
	writes   int               // of the Deployment
	image    string            // at the end
	hopeless bool              // the rollback does not help
	autonomy string            // of the service; empty: auto
	slack    bool              // the question is answered by a click in Slack
	from, to machine.EventKind // the part of the run whose boundaries are of interest; empty: to its ends
}

// crashes is what the killed responders share: a namespace, and a Prometheus
// over the engines of all of them. Each has a Deployment of its own.
type crashes struct {
	cp         *rig.ControlPlane
	ns         string
	prometheus *rig.Prometheus
	kubeconfig string
	playbook   string

	mu         sync.Mutex // guards engines and workspaces
	engines    map[string]*rig.Fleet
	workspaces map[string]*workspace
}

func newCrashes(t *testing.T) *crashes {
	t.Helper()
	c := &crashes{cp: rig.Shared(t), engines: map[string]*rig.Fleet{}, workspaces: map[string]*workspace{}}
	c.ns, _ = c.cp.Own(t, 6, 64)
	c.cp.Deploy(t)
	c.cp.BindLevers(t, c.ns)
	c.kubeconfig = c.cp.Kubeconfig(t, rig.Responder)
	c.prometheus = scrapeAll(t, c)
	c.playbook = strings.NewReplacer("[10s]", "[4s]", "[5s]", "[4s]", "hold: 4s, interval: 1s", "hold: 2s, interval: 2s").Replace(playbook(t))
	return c
}

// ServeHTTP serves the metrics of all engines to Prometheus.
func (c *crashes) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.engines)) {
		c.engines[name].ServeHTTP(rw, req)
	}
}

// rollOut makes a Deployment for each name and rolls the bad revision out.
func (c *crashes) rollOut(t *testing.T, names []string) {
	t.Helper()
	for _, image := range []string{"vllm:v1", "vllm:v2-bad"} {
		var all []string
		for _, name := range names {
			all = append(all, inference(name, image, 2))
		}
		c.cp.Apply(t, c.ns, strings.Join(all, "---"))
		c.awaitRollouts(t, image)
	}
}

// awaitRollouts waits until every Deployment of the namespace is well with that
// image, or is an older one.
func (c *crashes) awaitRollouts(t *testing.T, image string) {
	t.Helper()
	rig.Await(t, 2*time.Minute, "rollouts of "+image, func(ctx context.Context) (bool, string) {
		list, err := c.cp.Client.AppsV1().Deployments(c.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var waiting []string
		for _, d := range list.Items {
			s := d.Status
			if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.AvailableReplicas != s.UpdatedReplicas || s.Replicas != s.UpdatedReplicas {
				waiting = append(waiting, d.Name)
			}
		}
		return len(waiting) == 0, strings.Join(waiting, " ")
	})
}

// start starts the engines of a Deployment and a responder that watches it and
// has not been started.
func (c *crashes) start(t *testing.T, name string, s scenario) *rig.Service {
	t.Helper()
	fleet := rig.StartFleet(t, c.cp, c.ns, name)
	text, entry := c.playbook, service(c.ns, name, s.autonomy)
	if s.hopeless {
		entry = strings.Replace(entry, "max_scale: 6", "max_scale: 2", 1) // so that no second lever follows
		fleet.SetProfile(slow)
		text = strings.ReplaceAll(text, quickProof, strings.Replace(quickProof, "within: 25s, hold: 4s", "within: 3s, hold: 2s", 1)+"      undo: no_effect\n")
	}
	c.mu.Lock()
	c.engines[name] = fleet
	c.mu.Unlock()
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.engines, name)
	})
	settings, files := "", map[string]string(nil)
	if s.slack {
		w := newWorkspace(t)
		c.mu.Lock()
		c.workspaces[name] = w
		c.mu.Unlock()
		settings, files = w.settings(), w.files()
	}
	r := rig.NewService(t, rig.ServiceOptions{
		Prometheus: c.prometheus.URL, Kubeconfig: c.kubeconfig, Playbook: text, Failpoints: true,
		Services: "services:" + entry, Settings: "autonomy: auto\n" + settings, Files: files,
	})
	burning := fmt.Sprintf(`1 - sum(rate(vllm:time_to_first_token_seconds_bucket{namespace=%[1]q,service=%[2]q,le="0.5"}[4s]))
		/ sum(rate(vllm:time_to_first_token_seconds_count{namespace=%[1]q,service=%[2]q}[4s]))`, c.ns, name)
	c.prometheus.AwaitQuery(t, 30*time.Second, burning, func(v float64) bool { return v > 0.9 })
	return r
}

// boundaries runs a scenario to its end without a crash and returns the places
// it passed at which a process can die.
func (c *crashes) boundaries(t *testing.T, s scenario) []string {
	t.Helper()
	name := s.name + "-unharmed"
	c.rollOut(t, []string{name})
	r := c.start(t, name, s)
	trace := filepath.Join(t.TempDir(), "trace")
	r.Process = rig.Start(t, r.Spec("RESPONDER_FAILPOINT_TRACE="+trace))
	run, crashed := c.toTheEnd(t, r, name, s)
	if crashed != 0 {
		t.Fatalf("it crashed by itself:\n%s", r.Tail(30))
	}
	data, err := os.ReadFile(trace) // before anybody asks for a copy of the journal, which signs it once more
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, r, run, name, s)
	passed := strings.Fields(string(data))
	points := interesting(passed, run, s)
	if s.slack {
		points = lastCommits(passed, 12)
	}
	t.Logf("%d places passed, %d of them are tried: %s", len(passed), len(points), strings.Join(points, " "))
	if len(points) < 6 {
		t.Fatalf("only %d of the %d places that a run passes are tried: are failpoints compiled in?", len(points), len(passed))
	}
	return points
}

// interesting numbers the transactions of the journal that a scenario is about.
// A process that dies at one of the places between leaves the same world and
// the same journal behind: up to before-commit an effect happened and is not on
// record, from after-commit on the next one is and did not happen. Both are tried
// where the world changes, one of them elsewhere: the executor's own test tries all.
func interesting(passed []string, run *rig.Run, s scenario) []string {
	total := 0
	for _, name := range passed {
		if name == "before-commit" {
			total++
		}
	}
	// One command of a run is one transaction, and its events have one time.
	last := run.Events[len(run.Events)-1].At
	first, end, at := 1, total, total
	changed := map[int]bool{} // the transactions that record a change of the world
	for i := len(run.Events) - 1; i >= 0; i-- {
		e := run.Events[i]
		if !e.At.Equal(last) {
			last = e.At
			at--
		}
		if e.Kind == s.from {
			first = at
		}
		if e.Kind == s.to {
			end = at
		}
		if e.Kind == machine.Applied || e.Kind == machine.Undone {
			changed[at] = true
		}
	}
	var points []string
	for n := first; n <= end; n++ {
		if changed[n] || n%2 == 0 {
			points = append(points, fmt.Sprintf("before-commit#%d", n))
		}
		if changed[n] || changed[n+1] || n%2 == 1 { // after the intent, the effect has not happened
			points = append(points, fmt.Sprintf("after-commit#%d", n))
		}
	}
	return points
}

// killAtEach kills a responder of its own at each place.
func (c *crashes) killAtEach(t *testing.T, points []string, s scenario) {
	t.Helper()
	names := make([]string, len(points))
	for i := range points {
		names[i] = fmt.Sprintf("%s-%d", s.name, i)
	}
	c.rollOut(t, names)
	var mu sync.Mutex // guards unreached
	var unreached []string
	t.Run("at", func(t *testing.T) {
		for i, point := range points {
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				r := c.start(t, names[i], s)
				spec := r.Spec("RESPONDER_FAILPOINT=" + point)
				spec.Ready = "" // it may die before
				r.Process = rig.Start(t, spec)
				run, crashed := c.toTheEnd(t, r, names[i], s)
				c.check(t, r, run, names[i], s)
				mu.Lock()
				defer mu.Unlock()
				if crashed == 0 {
					unreached = append(unreached, point)
				}
			})
		}
	})
	c.cp.Kubectl(t, append([]string{"-n", c.ns, "delete", "deployment"}, names...)...)
	// How often a change is looked at depends on how long it takes, so that the
	// last places of the first run may not come.
	t.Logf("%d of %d places were reached; not: %s", len(points)-len(unreached), len(points), strings.Join(unreached, " "))
	if len(unreached)*4 > len(points) {
		t.Errorf("too few places were reached to say anything")
	}
}

// toTheEnd delivers the alert as Alertmanager does, again and again until it is
// acknowledged, starts the responder again when it has died, answers its
// question when it has one, and waits for the end of the run.
func (c *crashes) toTheEnd(t *testing.T, r *rig.Service, name string, s scenario) (run *rig.Run, crashed int) {
	t.Helper()
	body, asked := alertBody(t, c.ns, name), false
	acknowledged := false
	rig.Await(t, 2*time.Minute, "end of the run", func(ctx context.Context) (bool, string) {
		if !r.Running() {
			if crashed++; crashed > 1 {
				t.Fatalf("it died again:\n%s", r.Tail(30))
			}
			r.Process = rig.Start(t, r.Spec())
		}
		if !acknowledged {
			status, err := deliver(ctx, r, body)
			acknowledged = err == nil && status == http.StatusOK
			if !acknowledged {
				return false, fmt.Sprint("not acknowledged: ", status, err)
			}
		}
		found, err := onlyRun(ctx, r)
		if err != nil {
			return false, err.Error()
		}
		run = found
		if held := run.Last(machine.RunHeld); held.Kind != "" && !asked {
			asked = true
			c.answer(t, r, run, held, name)
		}
		if run.Has(machine.GateOpened) > run.Has(machine.GateDecided)+run.Has(machine.GateVoided) {
			// When it dies before it answers, it is asked again.
			if err := c.approve(ctx, r, run, name, s); err != nil {
				return false, fmt.Sprintf("%s: not approved: %v", run, err)
			}
		}
		if run.Ending != nil && s.slack {
			return c.workspace(name).tells("ended " + string(s.outcome))
		}
		return run.Ending != nil, run.String()
	})
	return run, crashed
}

// onlyRun is the one run there must be; an error when it is not there yet.
func onlyRun(ctx context.Context, r *rig.Service) (*rig.Run, error) {
	entries, err := r.Entries(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := rig.RunsOf(entries)
	switch {
	case err != nil:
		return nil, err
	case len(runs) == 0:
		return nil, errors.New("no run")
	case len(runs) > 1:
		return nil, fmt.Errorf("%d runs: %v", len(runs), runs)
	}
	return runs[0], nil
}

// answer resolves a change whose outcome the run could not find
// out, as a person would who looks at the API server's log.
func (c *crashes) answer(t *testing.T, r *rig.Service, run *rig.Run, held machine.Event, name string) {
	t.Helper()
	if held.Message == "" {
		t.Error("the run is held and does not say why")
	}
	want := 1
	if held.Action == machine.ActionUndo {
		want = 2
	}
	word := "--not-applied"
	if c.writes(t, name) == want {
		word = "--applied"
	}
	t.Logf("held: %s; told %s", held.Message, word)
	r.Must(t, "runs", "resolve", run.ID, word, "--reason", "the API server's audit log says so")
}

// check fails unless the run ended as if nothing had happened: nothing twice,
// nothing lost, and a log that verifies.
func (c *crashes) check(t *testing.T, r *rig.Service, run *rig.Run, name string, s scenario) {
	t.Helper()
	if run.Ending.Outcome != s.outcome {
		t.Errorf("the run ended %s, want %s:\n%s", run.Ending.Outcome, s.outcome, run)
	}
	if n := c.writes(t, name); n != s.writes {
		t.Errorf("%d writes of the Deployment, want %d:\n%s", n, s.writes, run)
	}
	if n := run.Has(machine.Applied); n != 1 {
		t.Errorf("the change is on record %d times, want once:\n%s", n, run)
	}
	if n := run.Has(machine.GateDecided); s.autonomy == "suggest" && n != 1 {
		t.Errorf("%d decisions are on record, want one:\n%s", n, run)
	}
	image := c.cp.Kubectl(t, "-n", c.ns, "get", "deployment/"+name, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	if image != s.image {
		t.Errorf("the image is %s, want %s:\n%s", image, s.image, run)
	}
	r.Stop() // a place that was not reached would be by asking it for a copy of its journal
	verify(t, r, filepath.Join(r.Journal(), "journal.db"))
}

// writes counts what the responder's account changed of a Deployment.
func (c *crashes) writes(t *testing.T, name string) int {
	t.Helper()
	n := 0
	for _, e := range c.cp.AuditWrites(t, rig.Responder) {
		if e.Namespace == c.ns && e.Name == name && e.Code == http.StatusOK && !strings.Contains(e.URI, "dryRun=All") {
			n++
		}
	}
	return n
}

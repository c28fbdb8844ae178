//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops/gittest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// gitWorlds is what services that Git owns share: one Prometheus over the
// engines of all of them.
type gitWorlds struct {
	cp         *rig.ControlPlane
	argo       *rig.ArgoCD
	prometheus *rig.Prometheus

	turns   chan struct{} // taken by each world; more at once only wait for processors
	mu      sync.Mutex    // guards engines
	engines map[string]*rig.Fleet
}

// mostGitWorlds is how many worlds there are at a time: each keeps Argo CD busy.
const mostGitWorlds = 5

func newGitWorlds(t *testing.T) *gitWorlds {
	t.Helper()
	all := &gitWorlds{cp: rig.Shared(t), argo: rig.SharedArgoCD(t), engines: map[string]*rig.Fleet{}, turns: make(chan struct{}, mostGitWorlds)}
	all.cp.Deploy(t)
	all.prometheus = scrapeAll(t, all)
	return all
}

// ServeHTTP serves the metrics of all engines to Prometheus.
func (all *gitWorlds) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all.engines)) {
		all.engines[name].ServeHTTP(rw, req)
	}
}

// gitWorld is one inference service, chat, that Git owns: a repository, the
// application that keeps a namespace like it, and engines. The last commit lets
// in more sequences than an engine can hold, so the SLO burns.
type gitWorld struct {
	*gitWorlds
	layout    layout
	ns        string
	git       *rig.Git
	forge     *gittest.Forge // before git, when its branch is protected
	app       *rig.Application
	fleet     *rig.Fleet
	proxy     *rig.Proxy // between the responder and Argo CD
	revoke    func()     // takes the responder's token for Argo CD away
	broken    string     // the commit that burns
	responder *rig.Service
}

// gitOptions say what is not as usual.
type gitOptions struct {
	lever    string  // of the playbook, with its parameters; default: set --max-num-seqs to 32, which helps
	first    string  // the lever before it, in case; empty: none
	hopeless bool    // nothing helps
	copied   bool    // the alert is about a Deployment that has the labels of what a HelmRelease makes
	noGitOps bool    // the service's catalog entry does not say where its manifests are
	settings string  // of responder.yaml
	layout   *layout // of the repository; default: plain manifests
	app      rig.ApplicationOptions
	forge    string                                                           // the branch is protected, and pull requests are opened at one of these: github, gitlab
	merge    string                                                           // who merges them, by the policy: people, responder
	alerts   bool                                                             // a real Alertmanager delivers the alert
	before   bool                                                             // the commit before the one that burns was rolled out, too
	release  bool                                                             // a commit for the image and one that only scales follow the one that burns
	old      bool                                                             // before, and the commit that burns was made a week ago
	token    func(testing.TB, *rig.Application) (token string, revoke func()) // of the responder for Argo CD; nil: of its account
}

// setFlag is the lever of the playbook.
func setFlag(value int) string {
	return fmt.Sprintf("lever: gitops.set_flag\n      with: {flag: max-num-seqs, value: '%d'}", value)
}

// world makes a world that burns, and a responder that has heard nothing yet.
func (all *gitWorlds) world(t *testing.T, o gitOptions) *gitWorld {
	t.Helper()
	all.turns <- struct{}{}
	t.Cleanup(func() { <-all.turns })
	w := &gitWorld{gitWorlds: all, layout: plain}
	if o.layout != nil {
		w.layout = *o.layout
	}
	w.ns, _ = w.cp.Own(t, 1, 8)
	w.cp.BindLevers(t, w.ns)
	w.git = rig.StartGit(t, w.layout.files)
	if o.before || o.old {
		w.app = w.argo.Application(t, w.ns, w.git, w.layout.application(t, o.app))
		w.rolledOut(t, o)
	}
	if o.old {
		w.git.Backdate(7 * 24 * time.Hour)
	}
	w.broken = w.git.Edit(t, "Serve more at a time", w.layout.file, w.layout.flag(64), w.layout.flag(128))
	if o.release {
		w.broken = w.git.Edit(t, "Serve with v1.1", w.layout.file, "image: vllm:v1\n", "image: vllm:v1.1\n")
		w.git.Edit(t, "Scale out", w.layout.file, "replicas: 2 ", "replicas: 3 ")
	}
	if o.forge != "" {
		w.git.Protect(t)
		w.forge = gittest.NewForge(t, gittest.Existing(t, w.git.Bare), o.forge, forgeToken)
		w.forge.Protect(w.git.Branch)
	}
	if w.app == nil {
		w.app = w.argo.Application(t, w.ns, w.git, w.layout.application(t, o.app))
	} else {
		w.app.Refresh(t)
	}
	w.startEngines(t, o)
	w.rolledOut(t, o)
	w.burns(t)

	issue := o.token
	if issue == nil {
		issue = func(t testing.TB, _ *rig.Application) (string, func()) { return w.argo.Token(t) }
	}
	token, revoke := issue(t, w.app)
	w.revoke = revoke
	w.proxy = rig.StartProxy(t, strings.Replace(w.argo.Addr, "localhost", "127.0.0.1", 1))
	addr := rig.FreeAddr(t)
	if o.alerts {
		w.watched(t, addr)
	}
	w.responder = rig.StartService(t, rig.ServiceOptions{
		Addr: addr, Prometheus: w.prometheus.URL, Kubeconfig: w.cp.Kubeconfig(t, rig.Responder), Playbook: gitPlaybook(o),
		NoShipped: true, // else the alert matches inference-slo-breach, too
		Services:  "services:" + w.service(o), Settings: w.settings(o), Files: w.files(o, token),
	})
	return w
}

// rolledOut waits until the branch's head is, and syncs it where nothing else does.
func (w *gitWorld) rolledOut(t *testing.T, o gitOptions) {
	t.Helper()
	if o.app.Manual {
		w.app.Sync(t)
	}
	w.app.AwaitSynced(t, w.git.Head(t), time.Minute)
}

// burns waits until the figures say so.
func (w *gitWorld) burns(t *testing.T) {
	t.Helper()
	w.prometheus.AwaitQuery(t, time.Minute, strings.ReplaceAll(slowShare(w.ns), "[10s]", "[4s]"), func(v float64) bool { return v > 0.9 })
}

func (w *gitWorld) startEngines(t *testing.T, o gitOptions) {
	t.Helper()
	w.fleet = rig.StartFleet(t, w.cp, w.ns, w.layout.workload)
	if o.hopeless {
		w.fleet.SetProfile(slow)
	}
	all := w.gitWorlds
	all.mu.Lock()
	defer all.mu.Unlock()
	all.engines[w.ns] = w.fleet
	t.Cleanup(func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.engines, w.ns)
	})
}

// service is the catalog entry.
func (w *gitWorld) service(o gitOptions) string {
	entry := service(w.ns, w.layout.workload, "auto")
	if !o.noGitOps {
		entry += fmt.Sprintf("    gitops: {application: argocd/%s, repository: %q, branch: %s%s}\n", w.app.Name, w.git.URL, w.git.Branch, w.layout.at())
	}
	return entry
}

func (w *gitWorld) settings(o gitOptions) string {
	way, policy := "", ""
	if w.forge != nil {
		policy = "policy: {file: policy.yaml}\n"
		way = fmt.Sprintf(", way: pull_request, forge: {kind: %s, api: %q, repository: %s, token_file: forge-token}", o.forge, w.forge.API(), w.forge.Repository())
	}
	return fmt.Sprintf(`
autonomy: auto
gitops:
  author: {name: Responder, email: responder@example.com}
  repositories:
    - {url: %q, branch: %s, auth: {token_file: git-token}%s}
  argocd: {server: %s, token_file: argocd-token, ca_file: %s, recovery: 5s}
%s%s`, w.git.URL, w.git.Branch, way, w.proxy.Addr, w.argo.CA, policy, o.settings)
}

// files are those next to responder.yaml.
func (w *gitWorld) files(o gitOptions, token string) map[string]string {
	files := map[string]string{"git-token": w.git.Token, "argocd-token": token}
	if o.forge != "" {
		files["forge-token"] = forgeToken
		files["policy.yaml"] = "apiVersion: responder/v1alpha1\nkind: Policy\nmetadata: {name: platform}\nspec: {rules: [{name: who-merges, merge: " + o.merge + "}]}\n"
	}
	return files
}

// gitPlaybook confirms the breach, pulls one lever and proves it, or two in turn.
func gitPlaybook(o gitOptions) string {
	const slow = `1 - sum(rate(vllm:time_to_first_token_seconds_bucket{${service.selector}, le="0.5"}[4s]))
          / sum(rate(vllm:time_to_first_token_seconds_count{${service.selector}}[4s]))`
	within := "25s"
	if o.hopeless {
		within = "6s"
	}
	pulls := func(state, lever, otherwise string) string {
		return strings.NewReplacer("STATE", state, "LEVER", lever, "OTHERWISE", otherwise).Replace(`
    STATE:
      LEVER
      approve: {by: service.owners, within: 15m, on_expiry: escalate}
      retry: {attempts: 8, backoff: 1s}
      verify:
        within: WITHIN
        hold: 3s
        interval: 3s
        until: [{query: 'SLOW', op: <, value: 0.01}]
        burn: {error_ratio: 'SINCE', objective: 0.99}
        traffic: {query: 'sum(rate(vllm:request_success_total{${service.selector}}[4s]))', min_rate: 0.1}
      undo: [no_effect]
      next:
        - {when: verified, to: resolved}
        - {when: refused, to: OTHERWISE}
        - {when: improved, to: OTHERWISE}
        - {when: no_effect, to: OTHERWISE}
        - {when: worse, to: OTHERWISE}
        - {when: inconclusive, to: OTHERWISE}
        - {to: escalated}`)
	}
	levers, begin := pulls("act", cmp.Or(o.lever, setFlag(32)), "escalated"), "act"
	if o.first != "" {
		levers, begin = pulls("first", o.first, "act")+levers, "first"
	}
	text := strings.NewReplacer("LEVERS", levers, "BEGIN", begin).Replace(`
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: cap-concurrency, title: Cap concurrency, description: One lever., runbook: none}
spec:
  match: ['{alertname="InferenceTTFTFastBurn"}']
  autonomy: auto
  start: confirm
  states:
    confirm:
      wait: {check: prometheus.query, with: {query: 'SLOW'}, until: 'out.status == "ok" && out.value > 0.01', every: 5s, within: 30s} # a scrape may be lost
      next: [{when: held, to: BEGIN}, {when: expired, to: escalated}]LEVERS
    resolved: {end: resolved}
    escalated: {end: escalated}
`)
	return strings.NewReplacer("WITHIN", within, "SLOW", slow, "SINCE", strings.ReplaceAll(slow, "[4s]", "[${since}]")).Replace(text)
}

// alert delivers the alert as Alertmanager does, until it is acknowledged.
func (w *gitWorld) alert(t *testing.T) {
	t.Helper()
	deliverUntilTaken(t, w.responder, alertBody(t, w.ns, w.layout.workload))
}

// ends delivers the alert and waits for the end of the run it begins.
func (w *gitWorld) ends(t *testing.T, outcome machine.RunOutcome) *rig.Run {
	t.Helper()
	w.alert(t)
	return w.responder.AwaitEnd(t, 3*time.Minute, outcome)
}

// ours lists the responder's commits, newest first.
func (w *gitWorld) ours(t *testing.T) []string {
	t.Helper()
	var shas []string
	for _, line := range w.git.Log(t, "%H %an") {
		if sha, by, _ := strings.Cut(line, " "); by == "Responder" {
			shas = append(shas, sha)
		}
	}
	return shas
}

// wantCommits fails unless the branch has that many commits of the responder,
// and returns them, newest first. Nothing of it may have been written to the
// cluster past Git, and the log has to be whole.
func (w *gitWorld) wantCommits(t *testing.T, n int) []string {
	t.Helper()
	shas := w.ours(t)
	if len(shas) != n {
		t.Fatalf("%d commits of the responder, want %d:\n%s", len(shas), n, strings.Join(w.git.Log(t, "%h %an %s"), "\n"))
	}
	for _, e := range w.cp.AuditWrites(t, rig.Responder) {
		if e.Namespace == w.ns && !strings.Contains(e.URI, "dryRun=All") {
			t.Errorf("the responder's account wrote to the cluster: %s", e)
		}
	}
	wantIntact(t, w.responder)
	return shas
}

// wantSeqs fails unless Git's newest commit and the Deployment both have that
// value, and Argo CD says that they are the same and healthy.
func (w *gitWorld) wantSeqs(t *testing.T, want string) {
	t.Helper()
	if file := w.git.File(t, w.git.Branch, w.layout.file); !strings.Contains(file, w.layout.flag(want)) {
		t.Errorf("Git has\n%s\nwant %s", file, w.layout.flag(want))
	}
	head := w.git.Head(t)
	w.app.Await(t, time.Minute, fmt.Sprintf("%s is like %.8s and healthy", w.app.Name, head), func(s rig.ApplicationStatus) bool {
		return s.Sync == "Synced" && s.Revision == head && s.Health == "Healthy" && !s.Running
	})
	if got := liveSeqs(t, w.cp, w.ns, w.layout.workload); got != "--max-num-seqs="+want {
		t.Errorf("the Deployment has %s, want %s", got, want)
	}
}

// syncedAt returns when the next push was in, and when Argo CD then said that it
// is rolled out.
func (w *gitWorld) syncedAt(t *testing.T) (pushed, synced <-chan time.Time) {
	in, out := make(chan time.Time, 1), make(chan time.Time, 1)
	w.git.AfterPush(func() {
		in <- time.Now()
		head := w.git.Head(t)
		go func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for ctx := t.Context(); ctx.Err() == nil; <-tick.C {
				s, err := w.app.Status(ctx)
				if err == nil && s.Sync == "Synced" && s.Revision == head && s.Health == "Healthy" && !s.Running && s.Phase == "Succeeded" {
					out <- time.Now()
					return
				}
			}
		}()
	})
	return in, out
}

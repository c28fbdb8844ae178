//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// fluxWorld is one inference service, chat, whose manifests a Kustomization of Flux
// deploys, or a HelmRelease that one deploys. The last commit lets in more sequences than an engine can hold, so the SLO
// burns.
type fluxWorld struct {
	layout    layout
	serves    string // the Deployment that the alert is about
	cp        *rig.ControlPlane
	ns        string
	git       *rig.Git
	models    *rig.Kustomization
	fleet     *rig.Fleet
	broken    string
	responder *rig.Service
}

// TestFlux: what Flux deploys is changed in Git, and Flux is followed until it is in the
// cluster; the responder's account writes nothing there but Flux's annotation.
func TestFlux(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	flux := rig.StartFlux(t, cp)
	cp.Deploy(t)
	for name, test := range map[string]func(*testing.T, *rig.Flux){
		"flag": fluxFlag, "release": fluxRelease, "no help": fluxNoHelp, "suspended": fluxSuspended, "refused by the API server": fluxRefused,
		"HelmRelease": helmFlag, "HelmRelease rolled back": helmRelease, "HelmRelease whose upgrade fails": helmFails, "labels of a HelmRelease": helmLabels,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, flux)
		})
	}
}

// startFlux makes a world that burns, and a responder that has heard nothing yet.
func startFlux(t *testing.T, flux *rig.Flux, o gitOptions) *fluxWorld {
	t.Helper()
	cp := rig.Shared(t)
	w := &fluxWorld{cp: cp, layout: plain}
	if o.layout != nil {
		w.layout = *o.layout
	}
	w.serves = w.layout.workload
	w.ns, _ = cp.Own(t, 1, 8)
	cp.BindLevers(t, w.ns)
	cp.BindFlux(t, w.ns)
	w.git = rig.StartGit(t, w.layout.files)
	w.models = flux.Kustomization(t, w.ns, w.layout.path, w.git, w.layout.within())
	w.models.AwaitApplied(t, w.git.Head(t), time.Minute)
	w.broken = w.git.Edit(t, "Serve more at a time", w.layout.file, w.layout.flag(64), w.layout.flag(128))
	w.models.Reconcile(t)
	w.models.AwaitApplied(t, w.broken, time.Minute)
	if o.copied {
		w.serves = "copy-chat-deployment-vllm"
		cp.Apply(t, w.ns, inference(w.serves, "vllm:v1", 1))
		cp.Kubectl(t, "-n", w.ns, "label", "deployment/"+w.serves, "helm.toolkit.fluxcd.io/name=chat", "helm.toolkit.fluxcd.io/namespace="+w.ns)
	}
	w.fleet = rig.StartFleet(t, cp, w.ns, w.serves)
	if o.hopeless {
		w.fleet.SetProfile(slow)
	}
	prometheus := scrapeAll(t, w.fleet)
	prometheus.AwaitQuery(t, time.Minute, strings.ReplaceAll(slowShare(w.ns), "[10s]", "[4s]"), func(v float64) bool { return v > 0.9 })
	w.responder = rig.StartService(t, rig.ServiceOptions{
		Addr: rig.FreeAddr(t), Prometheus: prometheus.URL, Kubeconfig: cp.Kubeconfig(t, rig.Responder), Playbook: gitPlaybook(o),
		NoShipped: true, // else the alert matches inference-slo-breach, too
		Services:  "services:" + service(w.ns, w.serves, "auto") + fmt.Sprintf("    gitops: {repository: %q, branch: %s}\n", w.git.URL, w.git.Branch),
		Settings: fmt.Sprintf(`
autonomy: auto
gitops:
  author: {name: Responder, email: responder@example.com}
  repositories: [{url: %q, auth: {token_file: git-token}}]
  flux: {enabled: true}
`, w.git.URL),
		Files: map[string]string{"git-token": w.git.Token},
	})
	return w
}

// ends delivers the alert and waits for the end of the run it begins.
func (w *fluxWorld) ends(t *testing.T, outcome machine.RunOutcome) *rig.Run {
	t.Helper()
	deliverUntilTaken(t, w.responder, alertBody(t, w.ns, w.serves))
	return w.responder.AwaitEnd(t, 3*time.Minute, outcome)
}

// wantServed fails unless Git's newest commit and the Deployment both have that number of
// sequences, Flux says that it applied the commit, and that many commits are Responder's.
func (w *fluxWorld) wantServed(t *testing.T, seqs, commits int) {
	t.Helper()
	if file := w.git.File(t, w.git.Branch, w.layout.file); !strings.Contains(file, w.layout.flag(seqs)) {
		t.Errorf("Git has\n%s\nwant %d", file, seqs)
	}
	w.models.AwaitApplied(t, w.git.Head(t), time.Minute)
	if got := liveSeqs(t, w.cp, w.ns, w.layout.workload); got != fmt.Sprintf("--max-num-seqs=%d", seqs) {
		t.Errorf("the Deployment has %s, want %d", got, seqs)
	}
	ours := 0
	for _, author := range w.git.Log(t, "%an") {
		if author == "Responder" {
			ours++
		}
	}
	if ours != commits {
		t.Errorf("%d commits of Responder, want %d", ours, commits)
	}
	for _, e := range w.cp.AuditWrites(t, rig.Responder) {
		flux := strings.Contains(e.URI, "/kustomizations/models") || strings.Contains(e.URI, "/gitrepositories/models")
		if e.Namespace == w.ns && !strings.Contains(e.URI, "dryRun=All") && !flux {
			t.Errorf("the responder's account wrote to the cluster: %s", e)
		}
	}
	wantIntact(t, w.responder)
}

// A flag becomes a commit, which Flux applies long before its interval is over.
func fluxFlag(t *testing.T, flux *rig.Flux) {
	w := startFlux(t, flux, gitOptions{})
	run := w.ends(t, machine.OutcomeResolved)
	w.wantServed(t, 32, 1)
	wantOnce(t, run, machine.Applied, machine.Settled, machine.Verified)
	w.wantSaid(t, run, "Flux Kustomization "+w.ns+"/models syncs it by itself, 1h after the push at the latest", "Flux Kustomization "+w.ns+"/models: ", "VERIFIED")
}

func wantOnce(t *testing.T, run *rig.Run, kinds ...machine.EventKind) {
	t.Helper()
	for _, kind := range kinds {
		if run.Has(kind) != 1 {
			t.Errorf("%d of %s, want one:\n%s", run.Has(kind), kind, run)
		}
	}
}

// wantSaid fails unless a run shows these.
func (w *fluxWorld) wantSaid(t *testing.T, run *rig.Run, texts ...string) {
	t.Helper()
	shown := w.responder.Must(t, "runs", "show", run.ID, "--progress")
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			t.Errorf("the run does not say %q:\n%s", text, shown)
		}
	}
}

// A release goes back in Git: service.rollback does not touch what Flux would heal.
func fluxRelease(t *testing.T, flux *rig.Flux) {
	w := startFlux(t, flux, gitOptions{lever: "lever: service.rollback"})
	run := w.ends(t, machine.OutcomeResolved)
	w.wantServed(t, 64, 1)
	w.wantSaid(t, run, "it goes back in Git: ", "Flux Kustomization "+w.ns+"/models")
}

// What does not help is taken back by a second commit, and Flux is followed there too.
func fluxNoHelp(t *testing.T, flux *rig.Flux) {
	w := startFlux(t, flux, gitOptions{hopeless: true})
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantServed(t, 128, 2)
	if run.Has(machine.Undone) != 1 || run.Has(machine.Unwound) != 1 {
		t.Errorf("the change was not taken back, or not followed to its end:\n%s", run)
	}
}

// Where a person suspended Flux, a commit would not be deployed: nothing is committed.
func fluxSuspended(t *testing.T, flux *rig.Flux) {
	w := startFlux(t, flux, gitOptions{})
	w.models.Suspend(t, true)
	run := w.ends(t, machine.OutcomeEscalated)
	if why := run.Last(machine.PlanRefused); why.Reason != fault.Owned || !strings.Contains(why.Message, "Kustomization "+w.ns+"/models is suspended") {
		t.Errorf("refused for %s: %q; want that it is suspended", why.Reason, why.Message)
	}
	w.models.Suspend(t, false)
	w.wantServed(t, 128, 0)
}

// What the API server refuses Flux cannot apply: the commit is taken back at once, with
// the server's words.
func fluxRefused(t *testing.T, flux *rig.Flux) {
	w := startFlux(t, flux, gitOptions{})
	refuseFlag(t, w.cp, w.ns, "--max-num-seqs=32", "32 is reserved", rig.Responder)
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantServed(t, 128, 2)
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Degraded || !strings.Contains(why.Message, "32 is reserved") {
		t.Errorf("it was given up for %s: %q; want what the API server said", why.Reason, why.Message)
	}
}

// A value of a HelmRelease becomes a commit, which is in effect when Helm has upgraded
// the release.
func helmFlag(t *testing.T, flux *rig.Flux) {
	rig.BuildHelm(t)
	w := startFlux(t, flux, gitOptions{layout: &released})
	run := w.ends(t, machine.OutcomeResolved)
	w.wantServed(t, 32, 1)
	wantOnce(t, run, machine.Applied, machine.Settled, machine.Verified)
	w.wantSaid(t, run, "Flux HelmRelease "+w.ns+"/chat", released.file, "VERIFIED")
}

func helmRelease(t *testing.T, flux *rig.Flux) {
	rig.BuildHelm(t)
	w := startFlux(t, flux, gitOptions{layout: &released, lever: "lever: service.rollback"})
	run := w.ends(t, machine.OutcomeResolved)
	w.wantServed(t, 64, 1)
	w.wantSaid(t, run, "it goes back in Git: ", "Flux HelmRelease "+w.ns+"/chat")
}

// An upgrade that fails ends the wait with what Helm says, and the commit is taken back.
func helmFails(t *testing.T, flux *rig.Flux) {
	rig.BuildHelm(t)
	w := startFlux(t, flux, gitOptions{layout: &released})
	refuseFlag(t, w.cp, w.ns, "--max-num-seqs=32", "32 is reserved", rig.Responder)
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantServed(t, 128, 2)
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Degraded || !strings.Contains(why.Message, "UpgradeFailed") || !strings.Contains(why.Message, "32 is reserved") {
		t.Errorf("it was given up for %s: %q; want what Helm said", why.Reason, why.Message)
	}
}

// The labels of a HelmRelease on a Deployment that it does not make move nothing of it.
func helmLabels(t *testing.T, flux *rig.Flux) {
	rig.BuildHelm(t)
	for _, lever := range []string{"", "lever: service.rollback"} {
		w := startFlux(t, flux, gitOptions{layout: &released, lever: lever, copied: true, hopeless: true})
		run := w.ends(t, machine.OutcomeEscalated)
		if why := run.Last(machine.PlanRefused); why.Reason != fault.Owned || !strings.Contains(why.Message, "Flux HelmRelease "+w.ns+"/chat does not manage Deployment "+w.ns+"/"+w.serves) {
			t.Errorf("refused for %s: %q; want that the HelmRelease does not make it", why.Reason, why.Message)
		}
		w.wantServed(t, 128, 0)
	}
}

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
// deploys. The last commit lets in more sequences than an engine can hold, so the SLO
// burns.
type fluxWorld struct {
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, flux)
		})
	}
}

// startFlux makes a world that burns, and a responder that has heard nothing yet.
func startFlux(t *testing.T, cp *rig.ControlPlane, flux *rig.Flux, o gitOptions) *fluxWorld {
	t.Helper()
	w := &fluxWorld{cp: cp}
	w.ns, _ = cp.Own(t, 1, 8)
	cp.BindLevers(t, w.ns)
	cp.BindFlux(t, w.ns)
	w.git = rig.StartGit(t, plain.files)
	w.models = flux.Kustomization(t, w.ns, plain.path, w.git)
	w.models.AwaitApplied(t, w.git.Head(t), time.Minute)
	w.broken = w.git.Edit(t, "Serve more at a time", plain.file, plain.flag(64), plain.flag(128))
	w.models.Reconcile(t)
	w.models.AwaitApplied(t, w.broken, time.Minute)
	w.fleet = rig.StartFleet(t, cp, w.ns, "chat")
	if o.hopeless {
		w.fleet.SetProfile(slow)
	}
	prometheus := scrapeAll(t, w.fleet)
	prometheus.AwaitQuery(t, time.Minute, strings.ReplaceAll(slowShare(w.ns), "[10s]", "[4s]"), func(v float64) bool { return v > 0.9 })
	w.responder = rig.StartService(t, rig.ServiceOptions{
		Addr: rig.FreeAddr(t), Prometheus: prometheus.URL, Kubeconfig: cp.Kubeconfig(t, rig.Responder), Playbook: gitPlaybook(o),
		NoShipped: true, // else the alert matches inference-slo-breach, too
		Services:  "services:" + service(w.ns, "chat", "auto") + fmt.Sprintf("    gitops: {repository: %q, branch: %s}\n", w.git.URL, w.git.Branch),
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
	deliverUntilTaken(t, w.responder, alertBody(t, w.ns, "chat"))
	return w.responder.AwaitEnd(t, 3*time.Minute, outcome)
}

// wantServed fails unless Git's newest commit and the Deployment both have that number of
// sequences, Flux says that it applied the commit, and that many commits are Responder's.
func (w *fluxWorld) wantServed(t *testing.T, seqs, commits int) {
	t.Helper()
	if file := w.git.File(t, w.git.Branch, plain.file); !strings.Contains(file, plain.flag(seqs)) {
		t.Errorf("Git has\n%s\nwant %d", file, seqs)
	}
	w.models.AwaitApplied(t, w.git.Head(t), time.Minute)
	if got := liveSeqs(t, w.cp, w.ns, "chat"); got != fmt.Sprintf("--max-num-seqs=%d", seqs) {
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
	w := startFlux(t, rig.Shared(t), flux, gitOptions{})
	run := w.ends(t, machine.OutcomeResolved)
	w.wantServed(t, 32, 1)
	for _, kind := range []machine.EventKind{machine.Applied, machine.Settled, machine.Verified} {
		if run.Has(kind) != 1 {
			t.Errorf("%d of %s, want one:\n%s", run.Has(kind), kind, run)
		}
	}
	shown := w.responder.Must(t, "runs", "show", run.ID)
	for _, say := range []string{"Flux Kustomization " + w.ns + "/models syncs it by itself, 1h after the push at the latest", "Flux Kustomization " + w.ns + "/models: ", "VERIFIED"} {
		if !strings.Contains(shown, say) {
			t.Errorf("the run does not say %q:\n%s", say, shown)
		}
	}
}

// A release goes back in Git: service.rollback does not touch what Flux would heal.
func fluxRelease(t *testing.T, flux *rig.Flux) {
	w := startFlux(t, rig.Shared(t), flux, gitOptions{lever: "lever: service.rollback"})
	run := w.ends(t, machine.OutcomeResolved)
	w.wantServed(t, 64, 1)
	shown := w.responder.Must(t, "runs", "show", run.ID)
	if !strings.Contains(shown, "it goes back in Git: ") || !strings.Contains(shown, "Flux Kustomization "+w.ns+"/models") {
		t.Errorf("the run does not tell why it goes back in Git:\n%s", shown)
	}
}

// What does not help is taken back by a second commit, and Flux is followed there too.
func fluxNoHelp(t *testing.T, flux *rig.Flux) {
	w := startFlux(t, rig.Shared(t), flux, gitOptions{hopeless: true})
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantServed(t, 128, 2)
	if run.Has(machine.Undone) != 1 || run.Has(machine.Unwound) != 1 {
		t.Errorf("the change was not taken back, or not followed to its end:\n%s", run)
	}
}

// Where a person suspended Flux, a commit would not be deployed: nothing is committed.
func fluxSuspended(t *testing.T, flux *rig.Flux) {
	w := startFlux(t, rig.Shared(t), flux, gitOptions{})
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
	w := startFlux(t, rig.Shared(t), flux, gitOptions{})
	refuseFlag(t, w.cp, w.ns, "--max-num-seqs=32", "32 is reserved", rig.Responder)
	run := w.ends(t, machine.OutcomeEscalated)
	w.wantServed(t, 128, 2)
	if why := run.Last(machine.VerifyEnded); why.Reason != fault.Degraded || !strings.Contains(why.Message, "32 is reserved") {
		t.Errorf("it was given up for %s: %q; want what the API server said", why.Reason, why.Message)
	}
}

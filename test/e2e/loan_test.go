//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// loanReturn is the shipped playbook that gives loans back, with windows a test
// can wait for. How long the service has to be well is the catalog's.
func loanReturn(t *testing.T) string {
	t.Helper()
	return scaled(t, "playbooks/loan-return.yaml", []string{
		`until: out.status == "met", every: 1m, within: 15m`, `until: out.status == "met", every: 5s, within: 5s`,
		`with: {by: '${"by" in`, `with: {window: 10s, load: 10s, lookback: 2m, by: '${"by" in`, "every: 5m", "every: 5s",
		"every: 1m", "every: 5s", "wait: 5m", "wait: 1s", "back: true, left: '${left}', replicas: '${before}'}\n      approve: {by: service.owners, within: 24h, on_expiry: escalate}\n",
		"back: true, left: '${left}', replicas: '${before}'}\n" + strings.Replace(quickProof, "within: 15m", "within: 24h", 1),
		" # not below the service's min_ready, nor an autoscaler's former bound\n      approve: {by: service.owners, within: 24h, on_expiry: escalate}\n", "\n" + strings.Replace(quickProof, "within: 15m", "within: 24h", 1),
	})
}

// A burst is answered with replicas that nobody's autoscaler owns. They stay as
// long as the traffic does, though responder dies meanwhile, and go back once the
// service has been well for its recovery time without needing them.
func TestLoanIsReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{
		settings: "guards: {cooldown: 1s}", service: "    recovery: 5s\n",
		files: map[string]string{"playbooks/loan-return.yaml": loanReturn(t)},
	})
	before := w.spec(t)

	w.fleet.SetTraffic(600) // two pods serve 500
	incident := w.responder.AwaitEnd(t, time.Minute, machine.OutcomeResolved)
	if n := w.replicas(t); n != 4 {
		t.Fatalf("%d replicas after the incident, want 4:\n%s", n, incident)
	}
	loan := w.awaitLoan(t, time.Minute, "a look at the load that does not fit", func(r *rig.Run) bool {
		return strings.Contains(strings.Join(r.Last(machine.WaitLooked).Facts, "\n"), "does not fit")
	})
	owed := w.responder.Must(t, "loans", "list")
	for _, want := range []string{loan.ID, "waits for recovery", w.ns + "/chat"} {
		if !strings.Contains(owed, want) {
			t.Errorf("loans list does not say %q:\n%s", want, owed)
		}
	}

	w.responder.Kill9()
	w.responder.Restart(t)
	if after := w.responder.Must(t, "loans", "list"); after != owed {
		t.Errorf("loans list says after a crash\n%s\nwant what it said before\n%s", after, owed)
	}
	looks := loan.Has(machine.WaitLooked)
	w.awaitLoan(t, time.Minute, "another look", func(r *rig.Run) bool { return r.Has(machine.WaitLooked) > looks })
	if n := w.replicas(t); n != 4 {
		t.Errorf("%d replicas while the traffic lasts, want 4", n)
	}

	w.fleet.SetTraffic(200)
	loan = w.awaitLoan(t, 90*time.Second, "its end", func(r *rig.Run) bool { return r.Ending != nil })
	wantEnd(t, loan, machine.OutcomeResolved, "instead of 4 replicas would carry", ": fits")
	looked := loan.Last(machine.WaitLooked)
	if held := looked.At.Sub(looked.HeldFrom); held < 5*time.Second {
		t.Errorf("the replicas went back after %s of recovery, want at least the 5s of the catalog:\n%s", held, loan)
	}
	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant the one before the incident\n%s", after, before)
	}
	w.wantWrites(t, w.scaled(200), w.scaled(200))
	if n := loan.Has(machine.Verified); n != 1 {
		t.Errorf("the return was proven %d times, want once:\n%s", n, loan)
	}
	w.wantReturned(t, incident, loan)
	w.awaitHealthy(t)
	wantIntact(t, w.responder)
}

// awaitLoan waits until the only loan is as the test wants it.
func (w *world) awaitLoan(t *testing.T, limit time.Duration, what string, wanted func(*rig.Run) bool) *rig.Run {
	t.Helper()
	var found *rig.Run
	rig.Await(t, limit, "the loan: "+what, func(ctx context.Context) (bool, string) {
		run, err := runOf(ctx, w.responder, "loan-return", w.ns+"/chat")
		if err != nil {
			return false, err.Error()
		}
		found = run
		return wanted(run), run.String()
	})
	return found
}

// wantReturned fails unless the command line says of a loan that it was returned,
// and of which incident it was.
func (w *world) wantReturned(t *testing.T, incident, loan *rig.Run) {
	t.Helper()
	if list := w.responder.Must(t, "loans", "list"); !strings.Contains(list, "nothing is on loan") {
		t.Errorf("loans list says:\n%s", list)
	}
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"loans", "list", "--all"}, []string{loan.ID, "returned"}},
		{[]string{"runs", "show", loan.ID, "--progress"}, []string{"resolved", incident.ID, "spec.replicas", "4", "2"}},
		{[]string{"runs", "show", incident.ID, "--progress"}, []string{"resolved", "on loan"}},
	} {
		out := w.responder.Must(t, c.args...)
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("responder %s does not say %q:\n%s", strings.Join(c.args, " "), want, out)
			}
		}
	}
}

package gitops

import (
	"strings"
	"testing"
	"time"
)

const (
	shaBefore = "1111111111111111111111111111111111111111"
	shaWanted = "2222222222222222222222222222222222222222"
	shaLater  = "3333333333333333333333333333333333333333"
)

// good is an application that runs the commit.
func good(sha string) Application {
	return Application{
		Sync: "Synced", Health: "Healthy", Revisions: []string{sha},
		Operation: Operation{Phase: "Succeeded", Revisions: []string{sha}},
	}
}

func TestSettled(t *testing.T) {
	deployment := Resource{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat", Sync: "Synced", Health: "Healthy"}
	other := Resource{Kind: "ConfigMap", Namespace: "serving", Name: "other", Sync: "OutOfSync"}
	tests := map[string]struct {
		app  Application
		want Rollout
		why  string
	}{
		"there":                          {good(shaWanted), RolloutSettled, "synced at 2222222222, healthy"},
		"a descendant is there":          {good(shaLater), RolloutSettled, "synced at 3333333333"},
		"the state of before":            {good(shaBefore), RolloutWaiting, "has compared 1111111111 so far, not 2222222222"},
		"nothing is known":               {Application{}, RolloutWaiting, "has compared nothing so far"},
		"no revision that is comparable": {but(good(""), func(a *Application) {}), RolloutWaiting, "(none)"},
		"compared and not synced": {but(good(shaBefore), func(a *Application) {
			a.Revisions, a.Sync, a.Resources = []string{shaWanted}, "OutOfSync", []Resource{other, deployment}
		}), RolloutWaiting, "OutOfSync at 2222222222: ConfigMap serving/other"},
		"closed window": {but(good(shaBefore), func(a *Application) {
			a.Revisions, a.Sync, a.Window = []string{shaWanted}, "OutOfSync", `the deny window "* * * * *" for 1h`
		}), RolloutWaiting, `closed by the deny window "* * * * *" for 1h`},
		"the manifests cannot be read": {but(good(shaBefore), func(a *Application) {
			a.Sync, a.Problems = "Unknown", []string{"ComparisonError: line 3: did not find expected key"}
		}), RolloutWaiting, "ComparisonError: line 3"},
		"running": {but(good(shaWanted), func(a *Application) {
			a.Operation.Running, a.Operation.By, a.Operation.Message = true, "ada", "waiting for hook"
		}), RolloutWaiting, "a sync to 2222222222 runs, started by ada: waiting for hook"},
		"synced by itself": {but(good(shaWanted), func(a *Application) {
			a.Operation = Operation{Running: true}
		}), RolloutWaiting, "started by Argo CD"},
		"failed":              {but(good(shaWanted), func(a *Application) { a.Operation.Phase, a.Operation.Message = "Failed", "denied by a webhook" }), RolloutFailed, "denied by a webhook"},
		"error":               {but(good(shaWanted), func(a *Application) { a.Operation.Phase = "Error" }), RolloutFailed, "ended Error"},
		"another sync failed": {but(good(shaWanted), func(a *Application) { a.Operation = Operation{Phase: "Failed", Revisions: []string{shaBefore}} }), RolloutSettled, "no sync was needed"},
		"a dry run failed": {but(good(shaBefore), func(a *Application) {
			a.Operation = Operation{Phase: "Failed", Revisions: []string{shaWanted}, DryRun: true}
		}), RolloutWaiting, "not 2222222222"},
		"a phase not known":  {but(good(shaWanted), func(a *Application) { a.Operation.Phase = "Paused" }), RolloutWaiting, `is "Paused"`},
		"no sync was needed": {but(good(shaWanted), func(a *Application) { a.Operation = Operation{} }), RolloutSettled, "no sync was needed"},
		"degraded":           {but(good(shaWanted), func(a *Application) { a.Health, a.Message = "Degraded", "0 of 2" }), RolloutDegraded, "degraded: 0 of 2"},
		"degraded before":    {but(good(shaBefore), func(a *Application) { a.Health = "Degraded" }), RolloutWaiting, "not 2222222222"},
		"progressing":        {but(good(shaWanted), func(a *Application) { a.Health = "Progressing" }), RolloutWaiting, "health Progressing"},
		"suspended":          {but(good(shaWanted), func(a *Application) { a.Health = "Suspended" }), RolloutWaiting, "health Suspended"},
		"missing":            {but(good(shaWanted), func(a *Application) { a.Health = "Missing" }), RolloutDegraded, "but missing"},
		"health not known":   {but(good(shaWanted), func(a *Application) { a.Health = "" }), RolloutWaiting, "health (none)"},
		"sync not known":     {but(good(shaWanted), func(a *Application) { a.Sync = "" }), RolloutWaiting, "(none) at"},
		"deleting":           {but(good(shaWanted), func(a *Application) { a.Deleting = true }), RolloutFailed, "deleted"},
		"hydrated":           {but(good(shaWanted), func(a *Application) { a.Hydrated = true }), RolloutFailed, "hydrator"},
		"one of two sources": {but(good(shaWanted), func(a *Application) { a.Revisions = []string{"1.2.3", shaWanted} }), RolloutSettled, "synced at 1.2.3, 2222222222"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, why := Settled(test.app, shaWanted, func(sha string) bool { return sha == shaLater })
			if got != test.want || !strings.Contains(why, test.why) {
				t.Errorf("got %s because %q, want %s because of %q", got, why, test.want, test.why)
			}
		})
	}
	if got, why := Settled(good(""), "", nil); got != RolloutWaiting {
		t.Errorf("no commit at all: got %s because %q", got, why)
	}
}

func but(app Application, change func(*Application)) Application {
	change(&app)
	return app
}

// A dry run of somebody's, after our sync, is named for what it is.
func TestDryRunHidesTheSync(t *testing.T) {
	app := good(shaWanted)
	app.Operation.DryRun, app.Operation.By = true, "ada"
	if _, why := Operated(app, app.Operation.Revisions); why != "the last operation was a dry run by ada, which hides how the sync before it ended" {
		t.Errorf("operated: %s", why)
	}
	if got, why := Settled(app, shaWanted, nil); got != RolloutSettled || strings.Contains(why, "no sync was needed") {
		t.Errorf("settled: %s, %s", got, why)
	}
}

func TestOperated(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	to := []string{shaBefore}
	back := func() Application {
		app := good(shaWanted)
		app.Sync = "OutOfSync" // Git still has the later commit
		app.Operation.Revisions, app.Operation.Finished, app.Compared = []string{shaBefore}, at, at.Add(time.Second)
		return app
	}
	tests := map[string]struct {
		app  Application
		to   []string
		want Rollout
	}{
		"back":                  {back(), to, RolloutSettled},
		"not compared since":    {but(back(), func(a *Application) { a.Compared = at }), to, RolloutWaiting},
		"running":               {but(back(), func(a *Application) { a.Operation.Running = true }), to, RolloutWaiting},
		"failed":                {but(back(), func(a *Application) { a.Operation.Phase = "Failed" }), to, RolloutFailed},
		"a phase not known":     {but(back(), func(a *Application) { a.Operation.Phase = "" }), to, RolloutWaiting},
		"degraded":              {but(back(), func(a *Application) { a.Health = "Degraded" }), to, RolloutDegraded},
		"another operation":     {but(back(), func(a *Application) { a.Operation.Revisions = []string{shaWanted} }), to, RolloutWaiting},
		"dry run":               {but(back(), func(a *Application) { a.Operation.DryRun = true }), to, RolloutWaiting},
		"an entry of no commit": {but(back(), func(a *Application) { a.Operation.Revisions = nil }), nil, RolloutWaiting},
		"deleting":              {but(back(), func(a *Application) { a.Deleting = true }), to, RolloutFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, why := Operated(test.app, test.to); got != test.want {
				t.Errorf("got %s because %q, want %s", got, why, test.want)
			}
		})
	}
}

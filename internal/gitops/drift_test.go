package gitops

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	ownPods = Resource{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat", Sync: "Synced", Health: "Healthy"}
	another = Resource{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "other", Sync: "Synced", Health: "Healthy"}
)

func drifted(r Resource, sync, health, message string) Resource {
	r.Sync, r.Health, r.Message = sync, health, message
	return r
}

// TestWithout: drift that existed before a change neither fails the change nor hides
// new drift.
func TestWithout(t *testing.T) {
	drifts, crashes := drifted(another, "OutOfSync", "Healthy", ""), drifted(another, "Synced", "Degraded", "")
	rolls, halted := drifted(another, "Synced", "Progressing", ""), drifted(another, "Synced", "Suspended", "")
	tests := map[string]struct {
		was    []Resource // drift before
		sync   string
		health string
		now    []Resource
		want   Rollout
		why    string
	}{
		"as before":                  {[]Resource{drifts}, "OutOfSync", "Healthy", []Resource{ownPods, drifts}, RolloutSettled, "healthy"},
		"no drift before":            {nil, "OutOfSync", "Healthy", []Resource{ownPods, drifts}, RolloutWaiting, "OutOfSync at 2222222222: apps/Deployment serving/other"},
		"ours, too":                  {[]Resource{drifts}, "OutOfSync", "Healthy", []Resource{drifted(ownPods, "OutOfSync", "Healthy", ""), drifts}, RolloutWaiting, ": apps/Deployment serving/chat"},
		"it recovered":               {[]Resource{drifts, crashes}, "Synced", "Healthy", []Resource{ownPods, another}, RolloutSettled, "healthy"},
		"no resource says why":       {[]Resource{drifts}, "OutOfSync", "Healthy", []Resource{ownPods, another}, RolloutWaiting, "OutOfSync"},
		"cannot be compared":         {[]Resource{drifts}, "Unknown", "Healthy", []Resource{ownPods, drifted(another, "Unknown", "Healthy", "")}, RolloutWaiting, "Unknown"},
		"degraded as before":         {[]Resource{crashes}, "Synced", "Degraded", []Resource{ownPods, crashes}, RolloutSettled, "healthy"},
		"restarts again":             {[]Resource{crashes}, "Synced", "Progressing", []Resource{ownPods, drifted(another, "Synced", "Progressing", "")}, RolloutSettled, "healthy"},
		"it rolled out, and failed":  {[]Resource{rolls}, "Synced", "Degraded", []Resource{ownPods, crashes}, RolloutDegraded, "but degraded: apps/Deployment serving/other"},
		"it was halted, and failed":  {[]Resource{halted}, "Synced", "Degraded", []Resource{ownPods, crashes}, RolloutDegraded, "but degraded: apps/Deployment serving/other"},
		"it was halted, and goes on": {[]Resource{halted}, "Synced", "Progressing", []Resource{ownPods, rolls}, RolloutWaiting, "health Progressing: apps/Deployment serving/other"},
		"it is halted now":           {[]Resource{crashes}, "Synced", "Suspended", []Resource{ownPods, halted}, RolloutSettled, "healthy"},
		"degraded since":             {nil, "Synced", "Degraded", []Resource{ownPods, crashes}, RolloutDegraded, "but degraded: apps/Deployment serving/other"},
		"ours is hidden": {
			[]Resource{crashes},
			"Synced", "Degraded",
			[]Resource{drifted(ownPods, "Synced", "Degraded", "0 of 2"), crashes},
			RolloutDegraded, "but degraded: apps/Deployment serving/chat: 0 of 2",
		},
		"ours rolls out": {
			[]Resource{crashes},
			"Synced", "Degraded",
			[]Resource{drifted(ownPods, "Synced", "Progressing", "1 of 2"), crashes},
			RolloutWaiting, "health Progressing: apps/Deployment serving/chat: 1 of 2",
		},
		"out of sync, and unhealthy since": {[]Resource{drifts}, "OutOfSync", "Degraded", []Resource{ownPods, drifted(another, "OutOfSync", "Degraded", "")}, RolloutDegraded, "serving/other"},
		"a health nobody knows":            {[]Resource{crashes}, "Synced", "Strange", []Resource{ownPods, crashes}, RolloutWaiting, "Strange"},
		"a resource's that nobody knows":   {[]Resource{crashes}, "Synced", "Degraded", []Resource{drifted(ownPods, "Synced", "Strange", ""), crashes}, RolloutWaiting, "Strange"},
		"a hook is not counted":            {[]Resource{drifts}, "OutOfSync", "Healthy", []Resource{ownPods, drifts, {Kind: "Job", Name: "migrate", Hook: true, Sync: "OutOfSync"}}, RolloutSettled, "healthy"},
		"no health at all":                 {[]Resource{crashes}, "Synced", "", []Resource{ownPods, crashes}, RolloutWaiting, "health (none)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			app := good(shaWanted)
			app.Sync, app.Health, app.Resources = tt.sync, tt.health, tt.now
			got, why := Settled(app.Without(tt.was), shaWanted, nil)
			if got != tt.want || !strings.Contains(why, tt.why) {
				t.Errorf("got %s because %q, want %s because of %q", got, why, tt.want, tt.why)
			}
			if got, _ := Settled(app.Without(app.Remaining(tt.was)), shaWanted, nil); got != tt.want {
				t.Errorf("without what remains of it: %s, want %s", got, tt.want)
			}
			if app.Resources[0] != tt.now[0] || app.Sync != tt.sync {
				t.Error("the application itself was changed")
			}
		})
	}
}

// TestRemaining: a resource that recovered is left out, and so is a part that did.
func TestRemaining(t *testing.T) {
	both, drifts, crashes := drifted(another, "OutOfSync", "Degraded", ""), drifted(another, "OutOfSync", "", ""), drifted(another, "Synced", "Degraded", "")
	for name, tt := range map[string]struct {
		now  []Resource
		want []Resource
	}{
		"as before":     {[]Resource{ownPods, both}, []Resource{both}},
		"healthy":       {[]Resource{ownPods, drifted(another, "OutOfSync", "Healthy", "")}, []Resource{drifts}},
		"in sync":       {[]Resource{ownPods, drifted(another, "Synced", "Progressing", "")}, []Resource{crashes}},
		"fine":          {[]Resource{ownPods, another}, []Resource{}},
		"gone":          {[]Resource{ownPods}, []Resource{}},
		"another fails": {[]Resource{drifted(ownPods, "Synced", "Degraded", ""), another}, []Resource{}},
	} {
		got := Application{Resources: tt.now}.Remaining([]Resource{both})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLeaves: a change is made only over drift that a sync leaves alone.
func TestLeaves(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	base := func() Application {
		app := good(shaWanted)
		app.Sync, app.Resources = "OutOfSync", []Resource{ownPods, drifted(another, "OutOfSync", "Healthy", "")}
		app.Automated, app.SelfHeal, app.Operation.Finished, app.Compared = true, true, at, at.Add(time.Second)
		return app
	}
	prune := drifted(another, "OutOfSync", "", "")
	prune.Prune = true
	for name, tt := range map[string]struct {
		change func(*Application)
		want   bool
	}{
		"Argo CD tried of itself":       {func(*Application) {}, true},
		"it heals nothing":              {func(a *Application) { a.SelfHeal = false }, false},
		"synced by hand":                {func(a *Application) { a.Automated = false }, false},
		"its last try failed":           {func(a *Application) { a.Operation.Phase = "Failed" }, false},
		"its last try was of before":    {func(a *Application) { a.Operation.Revisions = []string{shaBefore} }, false},
		"it tries right now":            {func(a *Application) { a.Operation.Running = true }, false},
		"a dry run":                     {func(a *Application) { a.Operation.DryRun = true }, false},
		"looked at in that second":      {func(a *Application) { a.Compared = at }, true},
		"not looked at since":           {func(a *Application) { a.Compared = at.Add(-time.Second) }, false},
		"it cannot be compared":         {func(a *Application) { a.Sync = "Unknown" }, false},
		"an error":                      {func(a *Application) { a.Problems = []string{"SyncError: refused"} }, false},
		"no resource says why":          {func(a *Application) { a.Resources = a.Resources[:1] }, false},
		"to be deleted, and kept":       {func(a *Application) { a.Automated, a.Resources = false, []Resource{ownPods, prune} }, true},
		"to be deleted, by auto-sync":   {func(a *Application) { a.SelfHeal, a.Prunes, a.Resources = false, true, []Resource{ownPods, prune} }, false},
		"to be deleted, and a drift":    {func(a *Application) { a.Automated, a.Resources = false, append(a.Resources, prune) }, false},
		"in sync: nothing is different": {func(a *Application) { a.Sync, a.Resources = "Synced", a.Resources[:1] }, false},
	} {
		if got := but(base(), tt.change).Leaves(); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

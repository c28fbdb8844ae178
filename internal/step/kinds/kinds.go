// Package kinds holds the one map from the name of a check or lever to its
// declaration and its code. Playbooks are compiled against the declarations, and
// [New] builds the steps over a world. The tests of all steps are here too,
// because most call a step through the map, as a run does.
package kinds

import (
	"maps"
	"slices"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/engine"
	"github.com/inference-responder/responder/internal/step/fleet"
	"github.com/inference-responder/responder/internal/step/git"
	"github.com/inference-responder/responder/internal/step/gpu"
	"github.com/inference-responder/responder/internal/step/kube"
	"github.com/inference-responder/responder/internal/step/node"
	"github.com/inference-responder/responder/internal/step/service"
	"github.com/inference-responder/responder/internal/step/slo"
)

// All is the one list of steps. A new check or lever is one file and one
// line here.
func All() map[string]step.Kind {
	return map[string]step.Kind{
		"argocd.rollback":     {Decl: git.ArgocdRollbackKind(), Lever: git.NewArgocdRollback},
		"argocd.sync":         {Decl: git.ArgocdSyncKind(), Lever: git.NewArgocdSync},
		"engine.crashes":      {Decl: engine.CrashesKind(), Check: engine.NewCrashes},
		"engine.compare":      {Decl: engine.CompareKind(), Check: engine.NewCompare},
		"engine.kv_fit":       {Decl: engine.KVFitKind(), Check: engine.NewKVFit},
		"engine.probe":        {Decl: engine.GoldenKind(), Check: engine.NewGolden},
		"engine.progress":     {Decl: engine.ProgressKind(), Check: engine.NewProgress},
		"engine.readiness":    {Decl: engine.ReadinessKind(), Check: engine.NewReadiness},
		"engine.snapshot":     {Decl: engine.SnapshotKind(), Check: engine.NewSnapshot},
		"fleet.breaches":      {Decl: fleet.BreachesKind(), Check: fleet.NewBreaches},
		"gitops.changes":      {Decl: git.ChangesKind(), Check: git.NewChanges},
		"gitops.revert":       {Decl: git.RevertKind(), Lever: git.NewRevert},
		"gitops.set_flag":     {Decl: git.SetFlagKind(), Lever: git.NewSetFlag},
		"gitops.set_replicas": {Decl: git.SetReplicasKind(), Lever: git.NewSetReplicas},
		"gpu.health":          {Decl: gpu.HealthKind(), Check: gpu.NewHealth},
		"gpu.reset_request":   {Decl: node.ResetRequestKind(), Lever: node.NewResetRequest},
		"http.probe":          {Decl: engine.ProbeKind(), Check: engine.NewProbe},
		"job.run":             {Decl: kube.JobRunKind(), Lever: kube.NewJobRun},
		"kube.autoscaler":     {Decl: kube.AutoscalerKind(), Lever: kube.NewAutoscaler},
		"kube.capacity":       {Decl: kube.CapacityKind(), Check: kube.NewCapacity},
		"kube.changes":        {Decl: kube.ChangesKind(), Check: func(d step.Deps) step.Check { return kube.NewChanges(d, git.NewChange(d)) }},
		"kube.events":         {Decl: kube.EventsKind(), Check: kube.NewEvents},
		"kube.logs":           {Decl: kube.LogsKind(), Check: kube.NewLogs},
		"kube.pending":        {Decl: kube.PendingKind(), Check: kube.NewPending},
		"kube.replace_pod":    {Decl: kube.ReplacePodKind(), Lever: kube.NewReplacePod},
		"kube.restart":        {Decl: kube.RestartKind(), Lever: kube.NewRestart},
		"kube.rollout_undo":   {Decl: kube.RolloutUndoKind(), Lever: kube.NewRolloutUndo},
		"kube.scale":          {Decl: kube.ScaleKind(), Lever: kube.NewScale},
		"kube.workload":       {Decl: kube.WorkloadKind(), Check: kube.NewWorkload},
		"node.cordon":         {Decl: node.CordonKind(), Lever: node.NewCordon},
		"node.drain":          {Decl: node.DrainKind(), Lever: node.NewDrain},
		"node.status":         {Decl: node.StatusKind(), Check: node.NewStatus},
		"node.taint":          {Decl: node.TaintKind(), Lever: node.NewTaint},
		"node.uncordon":       {Decl: node.UncordonKind(), Lever: node.NewUncordon},
		"node.untaint":        {Decl: node.UntaintKind(), Lever: node.NewUntaint},
		"pod.evict":           {Decl: node.EvictKind(), Lever: node.NewEvict},
		"pod.evict_from_node": {Decl: node.EvictPodKind(), Lever: node.NewEvictPod},
		"prometheus.query":    {Decl: slo.QueryKind(), Check: slo.NewQuery},
		"rollout.hold":        {Decl: kube.HoldKind(), Lever: kube.NewHold},
		"service.changes":     {Decl: service.ChangesKind(), Check: func(d step.Deps) step.Check { return service.NewChanges(d, git.NewChange(d)) }},
		"service.rollback":    {Decl: service.RollbackKind(), Planner: newRollback},
		"slo.burn":            {Decl: slo.BurnKind(), Check: slo.NewBurn},
		"slo.headroom":        {Decl: slo.HeadroomKind(), Check: slo.NewHeadroom},
		"traffic.shape":       {Decl: engine.TrafficKind(), Check: engine.NewTraffic},
		"traffic.shift":       {Decl: kube.ShiftKind(), Lever: kube.NewShift},
		"traffic.split":       {Decl: kube.SplitKind(), Check: kube.NewSplit},
	}
}

// newRollback puts the lever together from those that it chooses among.
func newRollback(d step.Deps) step.Planner {
	return service.NewRollback(d, service.Owners{
		Cluster: kube.NewRolloutUndo(d), Git: git.NewRevert(d), Argo: git.NewArgocdRollback(d), Repository: git.NewChange(d),
	})
}

// Declarations returns the declarations of all checks and levers, sorted by name. It
// needs no dependencies: playbooks are compiled against it offline.
func Declarations() []playbook.Kind {
	all := All()
	out := make([]playbook.Kind, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name].Decl)
	}
	return out
}

// New returns the steps over what they need of the world.
func New(d step.Deps) *step.Set { return step.NewSet(d, All()) }

// Package git holds the steps that work through Git and Argo CD or Flux: the levers on
// values in Git and on syncs of applications, and the check of what changed. A
// Kustomization of Flux has the form of an application that is synced by itself, alone or
// together with a HelmRelease that it deploys.
//
// docs/decisions/0008 states why; these rules follow from it.
//
// A live change of an object that Git owns becomes a commit in one place, and
// its plan says so. Policy judges such a plan under both kinds.
//
// A plan is refused while something else waits for deployment, while the
// cluster differs from the commit that was synced last, in a closed sync window,
// during a sync of somebody else, and while Flux is suspended. All of that is
// asked again right before each push, and before Responder merges a pull
// request. A push that fails for a passing reason is retried as the lever's
// retry says.
//
// The value that runs is read from the pod template: before the commit it has to
// be Git's, after the sync the new one in all pods, and it has to stay so during
// the proof. A value that something else decides fails the change. A value that
// can never be read makes the risk high, asks people even at the level auto, and
// does not become last-good. An answer that is missing now is an error.
//
// Before the commit the API server tries the changed document as a server-side
// dry run, where it is deployed as written. What it refuses, or turns into
// another value, is not planned. The plan notes where it could not be asked.
//
// Resources that were out of sync or unhealthy before the change are listed in
// the plan and do not count afterwards, neither for nor against it. The
// service's workload and what the change touches are never on that list, nor is
// anything that was Progressing. Out of sync is excused only where a sync leaves
// it as it is. The list is no part of the digest.
//
// argocd.sync and argocd.rollback are refused where undo could not restore what
// runs: the last sync failed, was selective or is hidden by a dry run, the
// cluster differs from it, or the application's own parameters changed since.
//
// A release is one variable. Its commits go back as one commit that restores the
// fields of the service's manifests, not lines: other services' fields, Secrets,
// Jobs, and replicas that were scaled since stay. A field that was changed again
// since is refused.
//
// Whether a change is pushed or goes by pull request is decided when it is
// planned, and the digest holds it. A pull request is recognized by its branch
// and the trailer lines of its text. A commit of somebody else on its branch
// hands the run over. A request that people close refuses the lever; one that is
// not merged in time is closed and the lever is inconclusive. A squashed commit
// is found through its pull request.
//
// An undo is committed in a closed sync window too, but not synced. The run
// waits 30 minutes for the window and then ends escalated.
package git

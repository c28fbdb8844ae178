// Package step holds the checks and levers, one file per kind and one map of
// kinds, and [Set], which carries out the effects of runs with them.
//
// A check reads and changes nothing. A lever plans with a server-side dry-run,
// applies once under preconditions, can be observed after a crash and undone.
// Steps know the world through small interfaces ([Querier], [Workloads],
// [Changer], [Prober], [Notifier]); a cluster with its Prometheus is one world,
// the sandbox another.
//
// What cannot be known is never reported as fine: missing data is a value of
// its own in a check's evidence, and a mutation whose answer was lost is
// reported as unknown. Only the executor calls [Set.Do].
//
// # Changes in Git
//
// docs/decisions/0008 states why; these rules follow from it.
//
// A live change of an object that Git owns becomes a commit in one place, and
// its plan says so. Policy judges such a plan under both kinds.
//
// A plan is refused while something else waits for deployment, while the
// cluster differs from the commit that was synced last, in a closed sync window,
// during a sync of somebody else, and where Flux owns the object. All of that is
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
// Whether a change is pushed or goes by pull request is decided when it is
// planned, and the digest holds it. A pull request is recognized by its branch
// and the trailer lines of its text. A commit of somebody else on its branch
// hands the run over. A request that people close refuses the lever; one that is
// not merged in time is closed and the lever is inconclusive. A squashed commit
// is found through its pull request.
//
// An undo is committed in a closed sync window too, but not synced. The run
// waits 30 minutes for the window and then ends escalated.
//
// # Nodes
//
// docs/decisions/0013 states why. The annotation responder.dev/gpus-when-out
// holds when the node went out, its boot id, the GPUs that needed a reset (some:
// one that has left the bus), those to be replaced, the conditions that pointed
// at GPUs (told), and unseen where too little was known. It is no part of the
// plan. An undo removes it; a second lever on the node adds to it. A node without
// GPUs is not annotated.
//
// A request for a repair speaks only of the GPUs that it names: some, told and
// unseen need a request for all of the node. Answered requests add up in
// responder.dev/gpu-reset-answered; a GPU that is requested anew is left out until
// that request is answered.
//
// An agent knows all events of a GPU only since its start, the last reload of the
// driver, the last break of the event stream, and the youngest event that it
// dropped. A gap after the node went out is closed by a reboot, by removing the
// annotation, by a request that was made after the gap and is answered, or by
// dcgm-exporter's gauge where it kept one value at every half minute.
package step

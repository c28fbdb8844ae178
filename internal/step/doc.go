// Package step holds the contract of checks and levers, and what all of them
// share: parameters, stages of a change, the proof. [Set] carries out the effects
// of runs with them.
//
// A check reads and changes nothing. A lever plans with a server-side dry-run,
// applies once under preconditions, can be observed after a crash and undone.
// Each is one file of a subpackage, by subject: kube, git, gpu, node, slo, engine,
// fleet and service. Package kinds has the one map from a kind's name to its code.
//
// Steps know the world through small interfaces ([Querier], [Workloads],
// [Changer], [Prober], [Notifier]); a cluster with its Prometheus is one world,
// the sandbox another.
//
// What cannot be known is never reported as fine: missing data is a value of
// its own in a check's evidence, and a mutation whose answer was lost is
// reported as unknown. Only the executor calls [Set.Do].
package step

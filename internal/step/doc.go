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
package step

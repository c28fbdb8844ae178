// Package replay runs playbooks over notifications of the past and the history in
// Prometheus: which runs would have started, what they would have found then, and
// what each would have proposed first. It changes nothing and cannot: it builds the
// checks alone, and no lever.
//
// Alerts are dispatched, and runs decided, by the service's own code
// (executor/dispatch, executor/machine) at the times of the past. A check asks
// Prometheus about the moment at which the run comes to it; waits and retries let
// virtual time pass. What has no history in Prometheus is unknown, unless the caller
// assumes a result.
//
//	files.go     notifications from files
//	select.go    episodes of a span of time, by service
//	timeline.go  one service: its alerts and runs in the order of time
//	run.go       one run, up to its first change
//	past.go      Prometheus as it was, and the checks that it can answer
//	cluster.go   what kube-state-metrics recorded of a cluster
//	report.go    what became of all, in types of the API
//	compare.go   where two sets of playbooks differ
//	write.go     for people
//
// After the first change the past is no evidence any more: a run stops there. It
// stays open until its alerts have resolved, as other alerts would have joined it.
package replay

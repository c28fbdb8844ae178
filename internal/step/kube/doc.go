// Package kube holds the steps on live workloads: the checks kube.workload,
// kube.changes, kube.capacity, kube.pending, kube.logs and kube.events, and the levers
// kube.scale, kube.autoscaler, kube.rollout_undo, kube.restart, kube.replace_pod and
// job.run. A lever is refused where somebody else owns the field that it sets. Where Git or an
// autoscaler owns the replicas, package step scales there instead.
package kube
